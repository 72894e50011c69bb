"""Reciprocal rank fusion (Cormack, Clarke, Buettcher, SIGIR 2009): one ranking out of several.

It needs ranks only, so BM25 scores and cosines, which share no scale, never meet.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

DAMPING = 60  # the paper's k: how little the first rank counts over the next


def fuse(rankings: Sequence[Sequence[Key]], damping: int = DAMPING) -> list[tuple[Key, float]]:
    """Every key of the `rankings` with its score, sum of 1 / (damping + rank), best first.

    Ranks count from 1. Ties go to the key with the better best rank, then to the earlier ranking. The score
    says how high the rankings put a key, and nothing of whether it is relevant: something always comes first.
    """
    scores: dict[Key, float] = {}
    best: dict[Key, tuple[int, int]] = {}
    for which, ranking in enumerate(rankings):
        for rank, key in enumerate(ranking, start=1):
            scores[key] = scores.get(key, 0.0) + 1 / (damping + rank)
            best[key] = min(best.get(key, (rank, which)), (rank, which))
    order = sorted(scores, key=lambda key: (-scores[key], best[key]))
    return [(key, scores[key]) for key in order]
