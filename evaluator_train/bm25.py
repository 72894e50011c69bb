"""BM25 in memory, for mining hard negatives without building an index on disk.

Words for scripts with spaces; single characters and pairs of characters for Chinese, Japanese and Korean.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from crag_dspy.matching import words

if TYPE_CHECKING:
    from collections.abc import Sequence

K1, B = 1.2, 0.75


@lru_cache(maxsize=8192)
def terms(text: str) -> tuple[str, ...]:
    """Search terms: words; in scripts without spaces, single characters and pairs of neighbours."""
    found = words(text)
    unspaced = [len(word) == 1 and not word.isascii() for word in found]
    neighbours = zip(pairwise(found), pairwise(unspaced), strict=True)
    return (*found, *(left + right for (left, right), both in neighbours if all(both)))


class BM25:
    """Okapi BM25 over a fixed list of texts that is searched many times."""

    def __init__(self, texts: Sequence[str]) -> None:
        numbers: dict[str, int] = {}
        of_term: list[int] = []
        of_text: list[int] = []
        count: list[int] = []
        for index, text in enumerate(texts):
            counts = Counter(terms(text))
            of_term.extend(numbers.setdefault(term, len(numbers)) for term in counts)
            of_text.extend([index] * len(counts))
            count.extend(counts.values())
        self._numbers = numbers
        self._size = len(texts)
        # One row a term and text, sorted by term: the rows of a term are a slice.
        order = np.argsort(np.array(of_term, dtype=np.int64), kind="stable")
        self._texts = np.array(of_text, dtype=np.int64)[order]
        counted = np.array(count, dtype=np.float64)[order]
        frequency = np.bincount(np.array(of_term, dtype=np.int64), minlength=len(numbers))
        self._starts = np.concatenate([[0], np.cumsum(frequency)])
        lengths = np.bincount(self._texts, counted, minlength=self._size)
        norm = K1 * (1 - B + B * lengths / max(float(lengths.mean()) if self._size else 1.0, 1.0))
        idf = np.log(1 + (self._size - frequency + 0.5) / (frequency + 0.5))
        self._weights = np.repeat(idf, frequency) * counted * (K1 + 1) / (counted + norm[self._texts])

    def top(self, query: str, k: int) -> list[int]:
        """Indices of the best `k` texts that share a term with `query`, best first, ties in order."""
        scores = np.zeros(self._size, dtype=np.float64)
        for term in terms(query):
            number = self._numbers.get(term)
            if number is not None:
                rows = slice(self._starts[number], self._starts[number + 1])
                scores[self._texts[rows]] += self._weights[rows]
        order = np.argsort(-scores, kind="stable")[: max(k, 0)]
        return [int(index) for index in order if scores[index] > 0]


def ranked(query: str, texts: Sequence[str]) -> list[int]:
    """All indices of `texts`, those closest to `query` first, ties in order: BM25 among a few texts, once."""
    asked = Counter(terms(query))
    found = [Counter(term for term in terms(text) if term in asked) for text in texts]
    lengths = [len(terms(text)) for text in texts]
    mean = max(sum(lengths) / max(len(texts), 1), 1.0)
    frequency = Counter(term for counts in found for term in counts)

    def score(index: int) -> float:
        norm = K1 * (1 - B + B * lengths[index] / mean)
        return sum(
            asked[term]
            * math.log(1 + (len(texts) - frequency[term] + 0.5) / (frequency[term] + 0.5))
            * count
            * (K1 + 1)
            / (count + norm)
            for term, count in found[index].items()
        )

    return sorted(range(len(texts)), key=score, reverse=True)
