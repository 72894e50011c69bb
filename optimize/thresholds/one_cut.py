"""The best single cut on a score, exactly: above it a question is worth one thing, below it another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence


def best_cut(
    scores: Sequence[float | None], above: Sequence[float], below: Sequence[float]
) -> tuple[float, float]:
    """(cut, mean value there): no other cut has a larger mean.

    Args:
        scores: one a question; None is never cut.
        above, below: what a question is worth with a score of at least the cut, and below it.

    Of equally good cuts the lowest, in the middle between two scores; -inf cuts nothing.
    """
    known = np.array([np.inf if score is None else score for score in scores], dtype=np.float64)
    kept, lost = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    order = np.argsort(known, kind="stable")
    # gained[i]: by cutting the i lowest questions.
    gained = np.concatenate([[0.0], np.cumsum((lost - kept)[order])])
    places = np.concatenate([[True], np.diff(known[order]) > 0, [False]])  # equal scores are never parted
    best = int(np.argmax(np.where(places, gained, -np.inf)))
    value = float(kept.mean() + gained[best] / len(kept))
    if best == 0:
        return -np.inf, value
    low, high = known[order[best - 1]], known[order[best]]
    return float(low + (high - low) / 2 if np.isfinite(high) else np.nextafter(low, np.inf)), value
