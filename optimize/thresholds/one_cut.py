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
    ranked = known[order]
    # gained[i]: by cutting the i lowest questions. Equal scores are never parted, nor what is never cut.
    gained = np.concatenate([[0.0], np.cumsum((lost - kept)[order])])
    places = np.concatenate([[True], ranked[1:] > ranked[:-1], [np.isfinite(ranked[-1])]])
    best = int(np.argmax(np.where(places, gained, -np.inf)))
    value = float(kept.mean() + gained[best] / len(kept))
    if best == 0:
        return -np.inf, value
    low, high = ranked[best - 1], ranked[best] if best < len(ranked) else np.inf
    return float(low + (high - low) / 2 if np.isfinite(high) else np.nextafter(low, np.inf)), value
