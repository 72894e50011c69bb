"""Is a difference more than noise, and what could have been seen?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.statistics.intervals import (
    Spread,
    check_level,
    checked_rows,
    few_or_normal,
    group_numbers,
    spread_of,
    student_bounds,
)
from crag_dspy.state.plain import Plain

if TYPE_CHECKING:
    from crag_dspy.optimize.statistics.intervals import Floats, Groups, Values

POWER = 0.8
SAMPLES = 10_000  # random sign flips where there are too many to try all, so p can be below 0.0001
_CELLS = 4_000_000  # largest array of one step of the test


@dataclass(frozen=True, slots=True)
class PairedDifference(Plain):
    """What changed from `before` to `after` on the same questions.

    Attributes:
        difference: the mean of after - before, with its interval from `low` to `high`.
        p_value: of the two-sided sign-flip test: how often a difference this large would come up if before and after
            were swapped at random, all questions of a group together.
        better, worse, equal: numbers of questions.
        groups: how many documents the questions are of.
        detectable: the smallest difference that so many questions would find, as `improved`, with 80% power. None
            where nothing is known of how differences vary.
    """

    SHOWN: ClassVar[str] = "difference low high level p_value better worse equal groups detectable improved"

    difference: float
    low: float
    high: float
    level: float
    p_value: float
    better: int
    worse: int
    equal: int
    groups: int
    detectable: float | None

    @property
    def improved(self) -> bool:
        """Whether `after` is better beyond noise: the interval and the test must agree."""
        return self.low > 0 and self.p_value <= 1 - self.level

    @property
    def n(self) -> int:
        """The number of questions."""
        return self.better + self.worse + self.equal

    def __str__(self) -> str:
        return f"{self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def paired_difference(
    before: Values,
    after: Values,
    groups: Groups | None = None,
    *,
    level: float = 0.95,
    samples: int = SAMPLES,
    seed: int = 0,
) -> PairedDifference:
    """Compare two results on the SAME questions, in the same order.

    Args:
        before, after: one value a question, finite, of equal length. `after` may be several rows of them, each
            measured again, as in `mean_interval`.
        groups: what each question belongs to; questions of one group are not independent.
        level: of the interval, in (0, 1).
        samples: number of random sign flips where there are too many to try all.
        seed: of those: the same seed gives the same p-value.
    """
    old, new = checked_rows("before", before), checked_rows("after", after)
    if old.shape[1] != new.shape[1]:
        raise ConfigError(f"before and after must be of equal length, got {old.shape[1]} and {new.shape[1]}")
    check_level(level)
    if samples < 1:
        raise ConfigError(f"samples must be at least 1, got {samples!r}")
    rows = np.round(new - old, 9)  # 0.3 - 0.2 and 0.2 - 0.1 are the same change
    spread = spread_of(rows, groups)
    low, high = _bounds(rows, spread, level)
    change = rows.mean(axis=0)
    return PairedDifference(
        difference=spread.mean,
        low=low,
        high=high,
        level=level,
        p_value=_sign_flip(_group_sums(change, groups), samples, seed),
        better=int((change > 0).sum()),
        worse=int((change < 0).sum()),
        equal=int((change == 0).sum()),
        groups=spread.groups,
        detectable=_detectable(rows, spread, level),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of several comparisons, each raised so that one below 0.05 is still a 5% risk of ANY false one.

    In the order given (Holm 1979).
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def _group_sums(change: Floats, groups: Groups | None) -> Floats:
    """In whole billionths, so that sums that are equal are equal as floats too."""
    member = group_numbers(groups, len(change))
    sums = np.bincount(member, np.rint(change * 1e9)).astype(np.float64)
    changed: Floats = sums[sums != 0]
    return changed  # a group that did not change says nothing


def _sign_flip(sums: Floats, samples: int, seed: int) -> float:
    """Exact up to 16 groups that changed. Beyond, of random flips and the one that was observed.

    As `scipy.stats.permutation_test` with permutation_type "samples", which takes nine seconds for a thousand
    questions: here the flips of equal changes are drawn together, by how many of them go up.
    """
    sizes, counts = np.unique(np.abs(sums), return_counts=True)
    observed, moved = abs(float(sums.sum())), len(sums)
    if moved <= 16:
        signs = 1 - 2 * ((np.arange(2**moved)[:, None] >> np.arange(moved)) & 1)
        return float((np.abs(signs @ sums) >= observed).mean())
    rng = np.random.default_rng(seed)
    extreme, step = 0, max(1, _CELLS // len(sizes))
    for start in range(0, samples, step):
        ups = rng.binomial(counts, 0.5, size=(min(step, samples - start), len(sizes)))
        extreme += int((np.abs((2 * ups - counts) @ sizes) >= observed).sum())
    return (extreme + 1) / (samples + 1)


def _bounds(rows: Floats, spread: Spread, level: float) -> tuple[float, float]:
    if not _are_signs(rows):
        return student_bounds(spread, level)
    centre, error = _smoothed(rows, spread)
    reach = few_or_normal(spread, (1 + level) / 2) * error
    return max(-1.0, centre - reach), min(1.0, centre + reach)


def _are_signs(rows: Floats) -> bool:
    """Whether all values are -1, 0 or 1: differences of right and wrong."""
    return bool(np.isin(rows, (-1.0, 0.0, 1.0)).all())


def _smoothed(rows: Floats, spread: Spread) -> tuple[float, float]:
    """Centre and standard error of Bonett and Price's interval (2012) for values that are all -1, 0 or 1: as if one
    question more had become better, and one worse. So 14 equal answers do not show that nothing differs.
    """
    up, down = float((rows == 1).mean()), float((rows == -1).mean())
    worth = spread.worth(up + down - (up - down) ** 2)
    better, worse, n = up * worth + 1, down * worth + 1, worth + 2
    centre = (better - worse) / n
    return centre, math.sqrt(max(0.0, ((better + worse) / n - centre**2) / n))


def _detectable(rows: Floats, spread: Spread, level: float) -> float | None:
    error = _smoothed(rows, spread)[1] if _are_signs(rows) else spread.error
    if error == 0 or spread.groups < 2:
        return None
    return (spread.quantile((1 + level) / 2) + spread.quantile(POWER)) * error
