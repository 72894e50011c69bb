"""`grader pairs --teacher NAME`: soft labels by a teacher, for pairs without labels and with them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from crag_dspy.commands.grader.alone import alone
from crag_dspy.commands.output import answer, answer_json, pairs
from crag_dspy.commands.parsing import Files, Listed
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from crag_dspy.evaluator_train.pairs.pair_files import Pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a teacher")
    group.add_argument(
        "--teacher",
        metavar="NAME",
        help="tokens:minilm, tokens:MODEL, or a grader as `grader benchmark` names it",
    )
    group.add_argument(
        "--pairs", action=Files, metavar="A,B", help="files: JSONL; a line may have no label, or null"
    )
    group.add_argument(
        "--weight", type=float, default=0.25, metavar="SHARE", help="the teacher's, of a label that is there"
    )
    group.add_argument(
        "--sources",
        action=Listed,
        default=[],
        metavar="A,B",
        help="soften these; labelled pairs of others keep their labels (default: all)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the pairs with their soft labels to a file; returns 0."""
    from collections import Counter

    from tqdm import tqdm

    from crag_dspy.evaluator_train.pairs.pair_files import read_pairs, write_pairs
    from crag_dspy.evaluator_train.pairs.soften import comes_from, distinct, judge_named, soften
    from crag_dspy.state.arguments import check_number

    check_number("--weight", args.weight, 0, 1)
    if not args.pairs:
        raise ConfigError("--teacher needs --pairs: the files to label")
    if Path(args.out).resolve() in [Path(path).resolve() for path in args.pairs]:
        raise ConfigError(f"--out {Path(args.out).name} is one of the inputs: name another file")
    given = distinct(pair for path in args.pairs for pair in read_pairs(path, labels="any"))
    labelled = [pair for pair in given if pair.label is not None and comes_from(pair, args.sources)]
    if not labelled and args.sources:
        raise ConfigError(f"--sources: no labelled pair comes from {', '.join(args.sources)}")
    soft = soften(given, judge_named(alone(args.teacher), labelled), args.weight, args.sources)
    counts: Counter[str] = Counter()
    before = {(pair.question, pair.text): pair.label for pair in given}
    known: list[tuple[int, float]] = []

    def counted() -> Iterator[Pair]:
        for pair, told in tqdm(soft, total=len(given), unit="pair", file=sys.stderr, disable=None):
            label = before[pair.question, pair.text]
            if label is None:
                counts["unlabelled"] += 1
            elif told is None:
                counts["as they were"] += 1
            else:
                counts["softened"] += 1
                known.append((int(label >= 0.5), told))
            yield pair

    written = write_pairs(counted(), args.out)
    summary = {
        "out": args.out,
        "pairs": written,
        **counts,
        "left out": len(given) - written,
        "auc": _auc(known),
    }
    answer_json(summary) if args.json else answer(pairs(summary))
    return 0


def _auc(known: Sequence[tuple[int, float]]) -> float | None:
    """Of the teacher on the labelled pairs: whether it is worth listening to."""
    from crag_dspy.evaluator_train.measuring.ranking import auc

    labels, told = [label for label, _ in known], [probability for _, probability in known]
    return round(auc(labels, told), 4) if len(set(labels)) == 2 else None
