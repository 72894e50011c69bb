"""BM25 among a few texts that are ranked once: too few to be worth an index."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from crag_dspy.retrievers.bm25 import K1, B
from crag_dspy.retrievers.bm25 import terms as _terms

if TYPE_CHECKING:
    from collections.abc import Sequence

terms = lru_cache(maxsize=8192)(_terms)  # the same strips are ranked for many questions


def ranked(query: str, texts: Sequence[str]) -> list[int]:
    """All indices of `texts`, those closest to `query` first, ties in order."""
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
