"""BM25 in memory, for mining hard negatives without building an index on disk.

Words for scripts with spaces; single characters and pairs of characters for Chinese, Japanese and Korean.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from crag_dspy.matching import words

if TYPE_CHECKING:
    from collections.abc import Sequence


def terms(text: str) -> list[str]:
    """Search terms: words; in scripts without spaces, single characters and pairs of neighbours."""
    found = words(text)
    unspaced = [len(word) == 1 and not word.isascii() for word in found]
    neighbours = zip(pairwise(found), pairwise(unspaced), strict=True)
    return found + [left + right for (left, right), both in neighbours if all(both)]


class BM25:
    """Okapi BM25 (k1 1.2, b 0.75) over a fixed list of texts."""

    def __init__(self, texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75) -> None:
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = np.zeros(len(texts), dtype=np.float64)
        for index, text in enumerate(texts):
            counts = Counter(terms(text))
            lengths[index] = sum(counts.values())
            for term, count in counts.items():
                postings[term].append((index, count))
        self._size = len(texts)
        norm = k1 * (1 - b + b * lengths / max(float(lengths.mean()) if len(texts) else 1.0, 1e-9))
        self._weights: dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = {}
        for term, rows in postings.items():
            index_of, counts_of = (np.array(column) for column in zip(*rows, strict=True))
            idf = math.log(1 + (self._size - len(rows) + 0.5) / (len(rows) + 0.5))
            self._weights[term] = (index_of, idf * counts_of * (k1 + 1) / (counts_of + norm[index_of]))

    def top(self, query: str, k: int) -> list[int]:
        """Indices of the best `k` texts that share a term with `query`, best first, ties in order."""
        scores = np.zeros(self._size, dtype=np.float64)
        for term in terms(query):
            if term in self._weights:
                index_of, weight = self._weights[term]
                scores[index_of] += weight
        order = np.argsort(-scores, kind="stable")[: max(k, 0)]
        return [int(i) for i in order if scores[i] > 0]
