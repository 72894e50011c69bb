"""`grader pairs --corpus ...`: weak labels from documents and the questions that people have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.commands.output import answer_json, note, show_table
from crag_dspy.commands.parsing import Listed
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from crag_dspy.evaluator_train.pairs.mining import Mining, PairSets

LABELS = ("answers", "titles", "text")
UNITS = ("passage", "strip", "both")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("weak labels")
    group.add_argument("--corpus", metavar="PATH", help="JSONL, text, Markdown, a folder of them, SQuAD JSON")
    group.add_argument("--index", metavar="FOLDER", help="an index to retrieve from, in place of --corpus")
    group.add_argument(
        "--labels",
        action=Listed,
        choices=LABELS,
        metavar="A,B",
        help=f"{', '.join(LABELS)}; default: all that can be",
    )
    group.add_argument("--unit", choices=UNITS, default="both", help="what is graded")
    group.add_argument("--hard", type=int, default=1, metavar="N", help="hard negatives for each positive")
    group.add_argument(
        "--random", type=int, default=1, metavar="N", help="random negatives for each positive"
    )
    group.add_argument("--k", type=int, default=20, metavar="N", help="passages retrieved for each question")
    group.add_argument("--with-title", action="store_true", help="passages as 'title // text'")
    group.add_argument("--dev-share", type=float, default=0.1, metavar="SHARE", help="of the documents")
    group.add_argument("--heldout-share", type=float, default=0.1, metavar="SHARE", help="of the documents")


def run(args: argparse.Namespace) -> int:
    """Write train, dev and heldout.jsonl; returns 0."""
    from crag_dspy.evaluator_train.pairs.mining import Mining
    from crag_dspy.evaluator_train.pairs.pair_files import write_pairs
    from crag_dspy.evaluator_train.pairs.splits import SPLITS, Shares

    shares = Shares(args.dev_share, args.heldout_share, args.seed)
    sets = _made(args, Mining(args.hard, args.random, args.k, args.unit, args.with_title, shares))
    counts = {}
    for split in SPLITS:
        write_pairs(sets[split], Path(args.out) / f"{split}.jsonl")
        relevant = sum(pair.relevant for pair in sets[split])
        counts[split] = {"pairs": len(sets[split]), "relevant": relevant}
    if args.json:
        answer_json({"out": args.out, **counts, "skipped": dict(sets.skipped)})
        return 0
    rows = [(split, str(row["pairs"]), str(row["relevant"])) for split, row in counts.items()]
    show_table(("split", "pairs", "relevant"), rows, f"pairs in {args.out}")
    for reason, count in sets.skipped.most_common():
        note(f"left out: {count} ({reason})")
    return 0


def _made(args: argparse.Namespace, mining: Mining) -> PairSets:
    from collections import Counter

    from crag_dspy.evaluator_train.pairs.mining import PairSets, PassageSearch
    from crag_dspy.evaluator_train.pairs.questions import read_corpus, read_known
    from crag_dspy.evaluator_train.pairs.weak_labels import answer_pairs, text_pairs, title_pairs

    if args.corpus and args.index:
        raise ConfigError("give either --corpus or --index: where passages come from")
    questions = [question for path in args.questions for question in read_known(path)]
    allowed = {
        "answers": any(question.answers for question in questions),
        "titles": any(question.entity for question in questions),
        "text": bool(args.corpus) and not questions,
    }
    labels = args.labels or [label for label in LABELS if allowed[label]]
    if "text" in labels and not args.corpus:
        raise ConfigError("--labels text needs --corpus: an index gives passages for questions only")
    for label in labels:
        if label != "text" and not allowed[label]:
            field = {"answers": "answers", "titles": "entity"}[label]
            raise ConfigError(f"--labels {label} needs --questions with the field {field!r}")
    if not labels:
        raise ConfigError(
            "--questions hold neither answers nor entity: add one of them, or use --labels text"
        )
    passages = read_corpus(args.corpus) if args.corpus else []
    retrieve: Any = PassageSearch(passages)
    if args.index:
        from crag_dspy.retrievers.local import LocalIndex

        retrieve = LocalIndex.open(args.index)
    sets = PairSets.of({}, Counter())
    if "answers" in labels:
        sets += answer_pairs(questions, retrieve, mining)
    if "titles" in labels:
        sets += title_pairs(questions, retrieve, mining)
    if "text" in labels:
        sets += text_pairs(passages, mining)
    return sets
