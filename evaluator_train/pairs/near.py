"""Pairs without labels for a teacher to judge: `crag-dspy near-pairs --questions FILE --texts FILE --out FILE`.

What a grader must tell apart are near texts, and how near is what a teacher can tell it (`soften-pairs`): of each
question's ranking two of the best four texts are drawn, one of those up to rank 20, and one of those up to 120.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.pair_files import SoftPair, read_soft_pairs, write_pairs
from crag_dspy.evaluator_train.pairs.splits import without_leaks

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from crag_dspy.retrievers.embedders import Embedder

    Ranking = Callable[[str, int], Sequence[int]]  # (question, k) -> numbers of the best texts, best first

DRAWN = ((0, 4, 2), (4, 20, 1), (20, 120, 1))  # from rank, to rank, how many
BM25_NAME = "bm25"


def near_pairs(
    questions: Iterable[str], texts: Sequence[str], ranking: Ranking, *, seed: int = 0, source: str = "near"
) -> Iterator[SoftPair]:
    """Four near texts for each distinct question, without labels; fewer where the ranking is short.

    A question's texts depend on the seed and on the question, not on the other questions.
    """
    asked: set[str] = set()
    for question in questions:  # one at a time: a progress bar may be what is read
        if question in asked:
            continue
        asked.add(question)
        random = Random(f"{seed}:{question}")
        found = [number for number in ranking(question, DRAWN[-1][1] + 1) if texts[number] != question]
        for start, end, count in DRAWN:
            ranks = found[start:end]
            for number in random.sample(ranks, min(count, len(ranks))):
                yield SoftPair(question, texts[number], None, source)


def lexical(texts: Sequence[str]) -> Ranking:
    """By the words that they share (BM25)."""
    from crag_dspy.retrievers.bm25 import BM25

    index = BM25(texts)
    return lambda question, k: [number for number, _ in index.top(question, k)]


def semantic(texts: Sequence[str], embedder: Embedder) -> Ranking:
    """By the cosine of an embedder. A question in a script that it does not read has no ranking."""
    read = [number for number, text in enumerate(texts) if embedder.reads(text)]
    vectors = embedder.embed([texts[number] for number in read])

    def ranking(question: str, k: int) -> list[int]:
        if not read or not embedder.reads(question):
            return []
        near = vectors @ embedder.embed_query(question)
        best = np.argsort(-near, kind="stable")[:k]
        return [read[place] for place in best]

    return ranking


def add_arguments(parser: argparse.ArgumentParser) -> None:
    given = "text files, one a line, or pairs in JSONL"
    parser.add_argument("--questions", required=True, nargs="+", metavar="FILE", help=given)
    parser.add_argument("--texts", required=True, nargs="+", metavar="FILE", help=given)
    parser.add_argument("--apart", nargs="*", default=[], metavar="PAIRS", help="pairs to share nothing with")
    parser.add_argument(
        "--by", default=BM25_NAME, metavar="NAME", help="bm25 (default), minilm, or another embedder's name"
    )
    parser.add_argument("--source", default="near/train", help="that the pairs name (default: near/train)")
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON line on stdout")


def run(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    questions, texts = _given(args.questions, "question"), _given(args.texts, "text")
    progress = tqdm(questions, desc="ranking", unit="question", file=sys.stderr, disable=None)
    made = list(near_pairs(progress, texts, _ranking(args.by, texts), seed=args.seed, source=args.source))
    apart = [pair for path in args.apart for pair in read_soft_pairs(path)]
    kept = without_leaks({"train": made, "heldout": apart})["train"]
    write_pairs(kept, args.out)
    summary = {"out": args.out, "questions": len(questions), "texts": len(texts), "pairs": len(kept)}
    summary["leaks left out"] = len(made) - len(kept)
    line = json.dumps(summary) if args.json else "  ".join(f"{name} {n}" for name, n in summary.items())
    sys.stdout.write(line + "\n")
    return 0


def _ranking(name: str, texts: Sequence[str]) -> Ranking:
    if name == BM25_NAME:
        return lexical(texts)
    from crag_dspy.retrievers.embedders import as_embedder

    embedder = as_embedder(name)
    if embedder is None:
        raise ConfigError("--by must be bm25 or the name of an embedder")
    return semantic(texts, embedder)


def _given(paths: Sequence[str], field: str) -> list[str]:
    """The distinct lines of text files, and the questions or the texts of pairs."""
    found: dict[str, None] = {}
    for path in map(Path, paths):
        if not path.is_file():
            raise ConfigError(f"--{field}s: no file {str(path)!r}")
        if path.suffix == ".jsonl":
            found.update(dict.fromkeys(getattr(pair, field) for pair in read_soft_pairs(path)))
        else:
            lines = (line.strip() for line in path.read_text(encoding="utf-8").split("\n"))
            found.update(dict.fromkeys(line for line in lines if line))
    if not found:
        raise ConfigError(f"--{field}s: the files hold nothing")
    return list(found)
