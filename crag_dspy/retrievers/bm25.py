"""Okapi BM25 over a list in memory: what a plain list of passages is searched with."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING

from crag_dspy.matching import words

if TYPE_CHECKING:
    from collections.abc import Sequence

K1, B = 1.2, 0.75


class BM25:
    """Ranks fixed texts by the terms (see `terms`) that they share with a query."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(terms(text)) for text in texts]
        lengths = [count.total() for count in counts]
        mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
        self._postings: dict[str, list[tuple[int, float]]] = {}
        for number, count in enumerate(counts):
            norm = K1 * (1 - B + B * lengths[number] / mean)
            for term, times in count.items():
                self._postings.setdefault(term, []).append((number, times * (K1 + 1) / (times + norm)))
        self._idf = {
            term: math.log(1 + (len(texts) - len(found) + 0.5) / (len(found) + 0.5))
            for term, found in self._postings.items()
        }

    def top(self, query: str, k: int) -> list[tuple[int, float]]:
        """(index, score > 0) of the best `k` texts with a term of `query`; ties in the order of the texts."""
        scores: dict[int, float] = {}
        for term in set(terms(query)):
            for number, weight in self._postings.get(term, ()):
                scores[number] = scores.get(number, 0.0) + self._idf[term] * weight
        return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


def terms(text: str) -> list[str]:
    """The words of `text`, and the pairs of neighbouring characters in scripts written without spaces.

    With pairs, 长江 says more than a 长 here and a 江 there.
    """
    found = words(text)
    pairs = [
        first + second
        for first, second in itertools.pairwise(found)
        if not first.isascii() and not second.isascii() and len(first) == len(second) == 1
    ]
    return found + pairs
