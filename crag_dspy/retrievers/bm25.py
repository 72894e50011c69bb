"""Okapi BM25 over texts in memory: what a plain list of passages is searched with, and negatives are mined with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from crag_dspy.text.matching import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

K1, B = 1.2, 0.75


class BM25:
    """Ranks fixed texts, which are searched many times, by the terms (see `terms`) that they share with a query."""

    def __init__(self, texts: Sequence[str]) -> None:
        numbers: dict[str, int] = {}
        of_term: list[int] = []
        of_text: list[int] = []
        counts: list[int] = []
        for index, text in enumerate(texts):
            found = Counter(terms(text))
            of_term.extend(numbers.setdefault(term, len(numbers)) for term in found)
            of_text.extend([index] * len(found))
            counts.extend(found.values())
        self._numbers = numbers
        self._size = len(texts)
        # One row a term and text, sorted by term: the rows of a term are a slice.
        order = np.argsort(np.array(of_term, dtype=np.int64), kind="stable")
        self._texts = np.array(of_text, dtype=np.int64)[order]
        counted = np.array(counts, dtype=np.float64)[order]
        frequency = np.bincount(np.array(of_term, dtype=np.int64), minlength=len(numbers))
        self._starts = np.concatenate([[0], np.cumsum(frequency)])
        lengths = np.bincount(self._texts, counted, minlength=self._size)
        norm = K1 * (1 - B + B * lengths / max(float(lengths.mean()) if self._size else 1.0, 1.0))
        idf = np.log(1 + (self._size - frequency + 0.5) / (frequency + 0.5))
        self._weights = np.repeat(idf, frequency) * counted * (K1 + 1) / (counted + norm[self._texts])

    def top(self, query: str, k: int) -> list[tuple[int, float]]:
        """(index, score > 0) of the best `k` texts with a term of `query`; ties in the order of the texts.

        A term that the query repeats counts as often.
        """
        scores = self._scores(query)
        order = np.argsort(-scores, kind="stable")[: max(k, 0)]
        return [(int(index), float(scores[index])) for index in order if scores[index] > 0]

    def order(self, query: str) -> list[int]:
        """All texts, the best first; those of one score in their order."""
        return [int(index) for index in np.argsort(-self._scores(query), kind="stable")]

    def _scores(self, query: str) -> npt.NDArray[np.float64]:
        scores = np.zeros(self._size, dtype=np.float64)
        for term in terms(query):
            number = self._numbers.get(term)
            if number is not None:
                rows = slice(self._starts[number], self._starts[number + 1])
                scores[self._texts[rows]] += self._weights[rows]
        return scores
