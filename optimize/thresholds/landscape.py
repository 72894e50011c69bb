"""The value of every pair of thresholds, and the best of them: exactly, not on a grid.

Between two neighbouring scores a threshold can move without changing any decision. So with d distinct scores
v[0] < ... < v[d-1] there are d + 1 gaps to put a threshold in, and d * d / 2 pairs that differ:

    gap:      0      1      2            d
          -1 --- v[0] -- v[1] --  ...  ------ 1

With upper in gap g the scores from v[g] on are at or above it; with lower in gap h those below v[h] are at or
below it.

Thresholds are bounded by [-1, 1] and lower <= upper, so some pairs cannot be had: when a score is exactly 1,
it is CORRECT wherever upper stands, and when one is exactly -1, it is at or below any lower. `feasible` and
`first_lower` say so. Lower in gap g + 1 with upper in gap g (both ON v[g]) decides as lower in gap g does.

Sums are of integers, so that equal pairs are equal: see `UNITS`. The searches that break ties are packed into
the same integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from crag_dspy.optimize.thresholds.devset_arrays import AMBIGUOUS, CORRECT, INCORRECT

if TYPE_CHECKING:
    from crag_dspy.actions import Policy, Thresholds
    from crag_dspy.optimize.thresholds.devset_arrays import Bools, DevsetArrays, Floats, Ints

NEVER = np.iinfo(np.int64).min

# An outcome counts in whole parts of the first of these whose sums fit 64 bits: the first up to 40,000
# questions, the second up to 120,000. 720720 is the least common multiple of 1 to 16, so rates, F1 scores of
# short answers and prices of a thousandth are exact, and three thirds tie with one.
UNITS = (720_720_000, 72_072_000, 7_207_200, 720_720, 27_720, 840)


@dataclass(frozen=True, slots=True)
class Placed:
    """A pair of thresholds, and how far each can move alone without changing the value or the searches."""

    upper: float
    lower: float
    upper_range: tuple[float, float]
    lower_range: tuple[float, float]


class Totals:
    """Sums over questions of (value, searches) packed into one integer that orders by value, then fewer
    searches."""

    def __init__(self, devset: DevsetArrays) -> None:
        self.n = devset.n
        largest = max(float(np.abs(devset.values).max()), 1e-9)
        room = 2.0**60 / (self.n * (self.n + 1) * largest)
        self.scale = float(next((unit for unit in UNITS if unit <= room), room))
        whole = np.rint(devset.values * self.scale).astype(np.int64)
        searches = np.array([0, 1, 1])  # CORRECT is the one action that does not search
        self.keys: Ints = whole * (self.n + 1) - searches

    def split(self, total: Ints) -> tuple[Floats, Ints]:
        """Mean values and numbers of searches."""
        searches = -total % (self.n + 1)
        return (total + searches) // (self.n + 1) / (self.scale * self.n), searches


class Landscape(Protocol):
    """Packed totals by gap, for one policy."""

    cuts: Floats
    totals: Totals

    def best_by_upper(self) -> Ints:
        """(d + 1,) for each gap of upper, the total with the best gap of lower that goes with it."""
        ...

    def along_lower(self, upper: int) -> Ints:
        """(upper + 1,) the totals with upper in this gap, for each gap of lower."""
        ...

    def along_upper(self, lower: int) -> Ints:
        """(d + 1,) the totals with lower in this gap, for each gap of upper; meaningless where upper <
        lower."""
        ...


class MaxLandscape:
    """Policy "max": the best passage decides, so a total is one sum over the tops from upper on and one below
    lower.

    O(n log n) to sort; every question after that is a prefix sum.
    """

    def __init__(self, devset: DevsetArrays) -> None:
        self.totals = Totals(devset)
        keys = self.totals.keys
        scored = np.isfinite(devset.top)
        self.cuts: Floats = np.unique(devset.top[scored])
        d = len(self.cuts)
        place = np.searchsorted(self.cuts, devset.top)
        self._base: np.int64 = keys[devset.empty, INCORRECT].sum() + keys[~devset.empty, AMBIGUOUS].sum()
        gain = _sums(place[scored], (keys[:, CORRECT] - keys[:, AMBIGUOUS])[scored], d)
        sure = scored & ~devset.unsure
        loss = _sums(place[sure], (keys[:, INCORRECT] - keys[:, AMBIGUOUS])[sure], d)
        self._above: Ints = np.append(
            np.cumsum(gain[::-1])[::-1], 0
        )  # [g]: the tops from v[g] on are CORRECT
        self._below: Ints = np.append(0, np.cumsum(loss))  # [h]: the tops below v[h] are INCORRECT

    def best_by_upper(self) -> Ints:
        below = self._below.copy()
        if first_lower(self.cuts, 1):
            below[0] = NEVER
        best = np.maximum.accumulate(below)
        best[0] = self._below[0]
        return self._base + self._above + best

    def along_lower(self, upper: int) -> Ints:
        totals: Ints = self._base + self._above[upper] + self._below[: upper + 1]
        return totals

    def along_upper(self, lower: int) -> Ints:
        totals: Ints = self._base + self._above + self._below[lower]
        return totals


class VoteLandscape:
    """Policy "vote": some passage must reach upper, and none may lie between the cuts.

    With upper in gap g, a question that reaches it is CORRECT when its best score BELOW upper, v[p], is at or
    below lower: from gap p + 1 of lower on. So a total along lower is a prefix sum of points, one a question
    at p + 1: O(n + d) for each of the d + 1 gaps of upper.
    """

    def __init__(self, devset: DevsetArrays) -> None:
        self.totals = Totals(devset)
        self.cuts: Floats = np.unique(devset.scores)
        self._d = max(1, len(self.cuts))
        keys = self.totals.keys
        self._constant: np.int64 = keys[devset.empty, INCORRECT].sum() + keys[devset.unsure, AMBIGUOUS].sum()

        # One row a question and distinct score of it, in that order.
        asked, owner = np.unique(devset.owner, return_inverse=True)
        self._codes: Ints = np.unique(owner * self._d + np.searchsorted(self.cuts, devset.scores))
        question = self._codes // self._d
        self._ends: Ints = np.searchsorted(question, np.arange(len(asked)), side="right")
        self._starts: Ints = np.append(0, self._ends[:-1]) if len(asked) else self._ends
        self._top: Ints = self._codes[self._ends - 1] % self._d
        self._keys: Ints = keys[asked]
        self._weight: Ints = self._keys[:, CORRECT] - self._keys[:, AMBIGUOUS]
        reach = _sums(self._top, self._keys[:, AMBIGUOUS] - self._keys[:, INCORRECT], len(self.cuts))
        everyone = self._constant + self._keys[:, INCORRECT].sum()
        self._base: Ints = everyone + np.append(np.cumsum(reach[::-1])[::-1], 0)  # [g]: no point counted yet

    def best_by_upper(self) -> Ints:
        gaps = range(len(self.cuts) + 1)
        return np.array([self.along_lower(gap)[first_lower(self.cuts, gap) :].max() for gap in gaps])

    def along_lower(self, upper: int) -> Ints:
        active = np.flatnonzero(self._top >= upper)
        below = np.searchsorted(self._codes, active * self._d + upper) - 1
        point = np.where(below >= self._starts[active], self._codes[below] % self._d + 1, 0)
        totals: Ints = self._base[upper] + np.cumsum(_sums(point, self._weight[active], upper + 1))
        return totals

    def along_upper(self, lower: int) -> Ints:
        d = len(self.cuts)
        questions = np.arange(len(self._top))
        above = np.searchsorted(self._codes, questions * self._d + lower)
        # CORRECT up to the first score above lower (or the top, when all are below), then AMBIGUOUS up to the
        # top.
        sure = np.where(
            above < self._ends, self._codes[np.minimum(above, len(self._codes) - 1)] % self._d, self._top
        )
        start: np.int64 = self._constant + self._keys[:, CORRECT].sum()
        hedge = _sums(sure + 1, self._keys[:, AMBIGUOUS] - self._keys[:, CORRECT], d + 1)
        leave = _sums(self._top + 1, self._keys[:, INCORRECT] - self._keys[:, AMBIGUOUS], d + 1)
        return start + np.cumsum(hedge + leave)


def landscape(devset: DevsetArrays, policy: Policy) -> Landscape:
    return MaxLandscape(devset) if policy == "max" else VoteLandscape(devset)


def feasible(cuts: Floats) -> Bools:
    """(d + 1,) whether upper can stand in each gap: never above a score of 1."""
    possible = np.ones(len(cuts) + 1, dtype=bool)
    possible[-1] = not len(cuts) or cuts[-1] < 1
    return possible


def first_lower(cuts: Floats, upper: int) -> int:
    """The first gap that lower can stand in with upper in gap `upper`: never below a score of -1."""
    return int(upper > 0 and len(cuts) > 0 and cuts[0] == -1)


def best_placed(land: Landscape, keep: Thresholds | None = None) -> Placed:
    """The best pair. Ties: `keep`, fewer searches, the widest gap of upper, the widest plateau of lower."""
    totals = np.where(feasible(land.cuts), land.best_by_upper(), NEVER)
    if keep is not None:
        total = total_at(land, keep)
        (own, best), _ = land.totals.split(np.array([total, totals.max()]))
        if own == best:
            return _standing(land, keep.upper, keep.lower, total)
    tied = np.flatnonzero(totals == totals.max())
    edges = _edges(land.cuts)
    upper = int(tied[np.argmax(edges[tied + 1] - edges[tied])])
    return placed(land, upper, int(totals[upper]))


def total_at(land: Landscape, pair: Thresholds) -> np.int64:
    """The packed total of any pair."""
    upper = int(np.searchsorted(land.cuts, pair.upper))
    lower = int(np.searchsorted(land.cuts, pair.lower, side="right"))
    total: np.int64 = land.along_lower(upper)[min(lower, upper)]
    return total


def placed(land: Landscape, upper: int, total: int) -> Placed:
    """Thresholds in the middle of their plateaus, with upper in gap `upper` and lower where the total is
    `total`.
    """
    edges = _edges(land.cuts)
    high = _middle(edges[upper], edges[upper + 1])
    runs = _runs(land.along_lower(upper) == total, first_lower(land.cuts, upper))
    first, last = max(runs, key=lambda run: edges[run[1] + 1] - edges[run[0]])
    low = min(_middle(edges[last + 1], edges[first]), high)
    first, last = _run_of_upper(land, upper, low, total)
    high = max(_middle(edges[first], edges[last + 1]), low)
    return _standing(land, high, low, total)


def _standing(land: Landscape, high: float, low: float, total: int | np.int64) -> Placed:
    """A pair where it is, with its plateaus."""
    edges = _edges(land.cuts)
    upper = int(np.searchsorted(land.cuts, high))
    first, last = _run_of_upper(land, upper, low, total)
    upper_range = (max(float(edges[first]), low), float(edges[last + 1]))
    gap = min(int(np.searchsorted(land.cuts, low, side="right")), upper)
    same = land.along_lower(upper) == total
    first, last = next(run for run in _runs(same, first_lower(land.cuts, upper)) if run[0] <= gap <= run[1])
    return Placed(high, low, upper_range, (float(edges[first]), min(float(edges[last + 1]), high)))


def _run_of_upper(land: Landscape, upper: int, low: float, total: int | np.int64) -> tuple[int, int]:
    """The gaps that upper can move through from gap `upper` while lower stays at `low`, without another total."""
    gap = int(np.searchsorted(land.cuts, low, side="right"))
    if gap > upper:  # both stand on one score, and there is nowhere to go
        return upper, upper
    same = (land.along_upper(gap) == total) & feasible(land.cuts)
    same[:gap] = False
    return next(run for run in _runs(same, 0) if run[0] <= upper <= run[1])


def _edges(cuts: Floats) -> Floats:
    """(d + 2,) gap g lies between edges[g] and edges[g + 1]."""
    return np.concatenate([[-1.0], cuts, [1.0]])


def _middle(open_end: float, closed_end: float) -> float:
    """Halfway, and never ON the open end, where rounding would put the middle of two neighbouring floats."""
    middle = (float(open_end) + float(closed_end)) / 2
    return float(closed_end) if middle == open_end else middle


def _runs(same: Bools, start: int) -> list[tuple[int, int]]:
    """(first, last) of every run of True from `start` on."""
    padded = np.concatenate([[False], same[start:], [False]]).astype(np.int8)
    change = np.diff(padded)
    firsts, lasts = np.flatnonzero(change == 1), np.flatnonzero(change == -1) - 1
    return [(int(a) + start, int(b) + start) for a, b in zip(firsts, lasts, strict=True)]


def _sums(place: Ints, amount: Ints, length: int) -> Ints:
    """Integer sums of `amount` by `place` (bincount's are floats, and lose the last digits)."""
    summed = np.zeros(length, dtype=np.int64)
    np.add.at(summed, place, amount)
    return summed
