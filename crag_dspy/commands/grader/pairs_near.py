"""`grader pairs --near`: of each question, texts that lie near, without labels, for a teacher to judge."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from crag_dspy.commands.output import answer, answer_json, pairs
from crag_dspy.commands.parsing import Files
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("near texts")
    group.add_argument("--near", action="store_true", help="pair --questions with the nearest of --texts")
    group.add_argument(
        "--texts", action=Files, metavar="A,B", help="text files, one a line, or pairs in JSONL"
    )
    group.add_argument(
        "--apart", action=Files, default=[], metavar="A,B", help="files of pairs to share nothing with"
    )
    group.add_argument(
        "--by", default="bm25", metavar="NAME", help="bm25, minilm, or another embedder's name"
    )
    group.add_argument("--source", default="near/train", help="that the pairs name")


def run(args: argparse.Namespace) -> int:
    """Write the pairs to a file; returns 0."""
    from tqdm import tqdm

    from crag_dspy.evaluator_train.pairs.near import near_pairs, ranking_by
    from crag_dspy.evaluator_train.pairs.pair_files import read_pairs, write_pairs
    from crag_dspy.evaluator_train.pairs.splits import without_leaks

    questions, texts = _given(args.questions, "question"), _given(args.texts or [], "text")
    progress = tqdm(questions, desc="ranking", unit="question", file=sys.stderr, disable=None)
    ranking = ranking_by(args.by, texts)
    made = list(near_pairs(progress, texts, ranking, seed=args.seed, source=args.source))
    apart = [pair for path in args.apart for pair in read_pairs(path, labels="any")]
    kept = without_leaks({"train": made, "heldout": apart})["train"]
    write_pairs(kept, args.out)
    summary = {"out": args.out, "questions": len(questions), "texts": len(texts), "pairs": len(kept)}
    summary["leaks left out"] = len(made) - len(kept)
    answer_json(summary) if args.json else answer(pairs(summary))
    return 0


def _given(paths: Sequence[str], field: str) -> list[str]:
    """The distinct lines of text files, and the questions or the texts of pairs."""
    from crag_dspy.evaluator_train.pairs.pair_files import read_pairs

    if not paths:
        raise ConfigError(f"--near needs --{field}s: files with one a line, or pairs in JSONL")
    found: dict[str, None] = {}
    for path in map(Path, paths):
        if not path.is_file():
            raise ConfigError(f"--{field}s: no file {str(path)!r}")
        if path.suffix == ".jsonl":
            found.update(dict.fromkeys(getattr(pair, field) for pair in read_pairs(path, labels="any")))
        else:
            lines = (line.strip() for line in path.read_text(encoding="utf-8").split("\n"))
            found.update(dict.fromkeys(line for line in lines if line))
    if not found:
        raise ConfigError(f"--{field}s: the files hold nothing")
    return list(found)
