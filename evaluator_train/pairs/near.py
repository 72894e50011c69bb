"""Pairs without labels for a teacher to judge (`crag-dspy grader pairs --near`).

What a grader must tell apart are near texts, and how near is what a teacher can tell it (see `soften`): of each
question's ranking two of the best four texts are drawn, one of those up to rank 20, and one of those up to 120.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.pair_files import Pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from crag_dspy.retrievers.embedders import Embedder

    Ranking = Callable[[str, int], Sequence[int]]  # (question, k) -> numbers of the best texts, best first

DRAWN = ((0, 4, 2), (4, 20, 1), (20, 120, 1))  # from rank, to rank, how many
BM25_NAME = "bm25"


def near_pairs(
    questions: Iterable[str], texts: Sequence[str], ranking: Ranking, *, seed: int = 0, source: str = "near"
) -> Iterator[Pair]:
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
                yield Pair(question, texts[number], None, source)


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


def ranking_by(name: str, texts: Sequence[str]) -> Ranking:
    """`lexical` for "bm25", else `semantic` with the embedder of that name."""
    if name == BM25_NAME:
        return lexical(texts)
    from crag_dspy.retrievers.embedders import as_embedder

    embedder = as_embedder(name)
    if embedder is None:
        raise ConfigError(f"by (--by) must be bm25 or the name of an embedder, got {name!r}")
    return semantic(texts, embedder)
