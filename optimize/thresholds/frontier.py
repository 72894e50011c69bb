"""How much quality each web search buys: the pairs of thresholds that no other pair beats on both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crag_dspy.optimize.thresholds.landscape import MaxLandscape, feasible, first_lower, placed
from crag_dspy.state.plain import Plain

if TYPE_CHECKING:
    from crag_dspy.optimize.thresholds.devset_arrays import Bools, Floats, Ints
    from crag_dspy.optimize.thresholds.landscape import Landscape

_CELLS = 400_000_000  # pairs looked at under "vote" before uppers are thinned out


@dataclass(frozen=True, slots=True)
class FrontierPoint(Plain):
    """A pair of thresholds: with fewer searches there is no better value, with more value there are more
    searches.

    searches: questions that search the web. value: the mean outcome. on_hull: whether some price of a search
    makes this point the optimum (the upper concave hull).
    """

    searches: int
    value: float
    upper: float
    lower: float
    on_hull: bool


def pareto(land: Landscape, limit: int = 200) -> list[FrontierPoint]:
    """The frontier in order of searches.

    Exact over all pairs. Under "vote" the work is (distinct scores) x (questions), and beyond 400 million of
    them evenly spaced uppers stand for the rest. Of more than `limit` points those on the hull and evenly
    spaced others are returned.
    """
    upper, total = _candidates(land)
    value, searches = land.totals.split(total)
    order = np.lexsort((-value, searches))
    upper, total, value, searches = upper[order], total[order], value[order], searches[order]
    earlier = np.append(-np.inf, np.maximum.accumulate(value)[:-1])
    kept = value > earlier
    upper, total, value, searches = upper[kept], total[kept], value[kept], searches[kept]
    hull = _concave_hull(searches, value)
    shown = np.flatnonzero(_thinned(hull, limit))
    points = []
    for i in shown:
        pair = placed(land, int(upper[i]), int(total[i]))
        points.append(
            FrontierPoint(int(searches[i]), float(value[i]), pair.upper, pair.lower, on_hull=bool(hull[i]))
        )
    return points


def _candidates(land: Landscape) -> tuple[Ints, Ints]:
    """(gap of upper, total) of pairs among which the frontier is."""
    possible = np.flatnonzero(feasible(land.cuts))
    if isinstance(land, MaxLandscape):
        # Lower only decides between two actions that both search, so each upper has one best total.
        return possible, land.best_by_upper()[possible]
    work = len(possible) * (len(land.cuts) + land.totals.n)
    if work > _CELLS:
        possible = possible[
            np.unique(np.linspace(0, len(possible) - 1, max(2, _CELLS * len(possible) // work)).astype(int))
        ]
    best = np.full(land.totals.n + 1, np.iinfo(np.int64).min)
    where = np.zeros(land.totals.n + 1, dtype=np.int64)
    for upper in possible:
        totals = land.along_lower(int(upper))[first_lower(land.cuts, int(upper)) :]
        _, searches = land.totals.split(totals)
        row = np.full_like(best, np.iinfo(np.int64).min)
        np.maximum.at(row, searches, totals)
        where[row > best] = upper
        best = np.maximum(best, row)
    found = best > np.iinfo(np.int64).min
    return where[found], best[found]


def _concave_hull(x: Ints, y: Floats) -> Bools:
    """Which points of a strictly increasing sequence are corners of its upper hull."""
    corners: list[int] = []
    for i in range(len(x)):
        while len(corners) >= 2:
            a, b = corners[-2], corners[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) > (y[i] - y[a]) * (x[b] - x[a]) + 1e-12:
                break
            corners.pop()
        corners.append(i)
    on_hull = np.zeros(len(x), dtype=bool)
    on_hull[corners] = True
    return on_hull


def _thinned(hull: Bools, limit: int) -> Bools:
    if len(hull) <= limit:
        return np.ones(len(hull), dtype=bool)
    spaced = np.zeros(len(hull), dtype=bool)
    spaced[np.linspace(0, len(hull) - 1, max(2, limit)).astype(int)] = True
    corners = np.flatnonzero(hull)
    keep = corners[np.unique(np.linspace(0, len(corners) - 1, min(len(corners), limit)).astype(int))]
    spaced[keep] = True
    return spaced
