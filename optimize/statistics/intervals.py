"""How sure is a mean?

Questions of one document stand or fall together, so what was drawn at random are the documents. The standard error is
the jackknife's that leaves out a document at a time, and the interval Student's t on as many documents: with equally
many questions each that is the t interval on document means. Without documents every question is its own.

Shares at the edge have no spread: right in 14 of 14 does not mean always right. Where all values are 0 or 1 the
interval is Wilson's (1927), on the number of questions that, drawn alone, would say as much as these do together.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri, stdtrit  # scipy.stats takes a second to import

from crag_dspy.errors import ConfigError
from crag_dspy.state.plain import Plain

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Values = Sequence[float] | Floats

Groups = Sequence[Hashable]

FEW_GROUPS = 8  # with fewer, a t interval leans on every single one


@dataclass(frozen=True, slots=True)
class MeanInterval(Plain):
    """A mean with its interval.

    `level` of such intervals hold the mean of all the questions that could have been asked. `groups`: how many
    documents the `n` questions are of; `n` itself when every question is its own.
    """

    mean: float
    low: float
    high: float
    level: float
    n: int
    groups: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Spread:
    """What an interval is made of: the standard error of a mean, on `groups` independent groups of `n` values."""

    mean: float
    error: float
    n: int
    groups: int

    @property
    def alone(self) -> bool:
        """Whether every value is its own group."""
        return self.groups == self.n

    def quantile(self, probability: float) -> float:
        """Of Student's t; infinite with one group, about which nothing is known."""
        return float(stdtrit(self.groups - 1, probability)) if self.groups > 1 else math.inf

    def worth(self, variance: float) -> float:
        """How many values of this variance, drawn alone, give the same standard error: at most `n`.

        Without any variance the groups are all that is known to be independent.
        """
        if variance <= 0:
            return float(self.groups)
        return float(self.n) if self.error == 0 else min(self.n, variance / self.error**2 + 1)


def mean_interval(values: Values, groups: Groups | None = None, *, level: float = 0.95) -> MeanInterval:
    """The mean of `values` with its interval.

    Args:
        values: one a question, finite. Or several rows of them, each of the same questions measured again
            (cross-validation with other folds): how far the rows differ then adds to the error (Rubin 1987).
        groups: what each question belongs to; questions of one group are not independent. None: all are.
        level: in (0, 1).
    """
    rows = checked_rows("values", values)
    check_level(level)
    spread = spread_of(rows, groups)
    low, high = _bounds(rows, spread, level)
    return MeanInterval(spread.mean, low, high, level, spread.n, spread.groups)


def spread_of(rows: Floats, groups: Groups | None) -> Spread:
    """The mean of rows of values, and its standard error."""
    member = group_numbers(groups, rows.shape[1])
    count = int(member.max()) + 1
    means = rows.mean(axis=1)
    between = float(means.var(ddof=1)) * (1 + 1 / len(rows)) if len(rows) > 1 else 0.0
    within = float(np.mean([_jackknifed(row, member, count) for row in rows])) if count > 1 else 0.0
    return Spread(float(means.mean()), math.sqrt(within + between), rows.shape[1], count)


def group_numbers(groups: Groups | None, n: int) -> npt.NDArray[np.int64]:
    """The groups as numbers from 0, in order of appearance. A single group says nothing: then each value is its own."""
    if groups is not None and len(groups) != n:
        raise ConfigError(f"groups must be one a value, got {len(groups)} for {n} values")
    if groups is None or len(set(groups)) < 2:
        return np.arange(n)
    places: dict[Hashable, int] = {}
    return np.array([places.setdefault(group, len(places)) for group in groups], dtype=np.int64)


def checked_rows(name: str, values: Values) -> Floats:
    """Values as (rows, questions). Raises `ConfigError` naming a value that is not finite."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.size == 0:
        raise ConfigError(f"{name} is empty: at least one question is needed")
    if not np.isfinite(numbers).all():
        where = tuple(map(int, np.argwhere(~np.isfinite(numbers))[0]))
        place = "".join(f"[{i}]" for i in where)
        raise ConfigError(f"{name}{place} must be a finite number, got {numbers[where]}")
    return np.atleast_2d(numbers)


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"level must be between 0 and 1, got {level!r}: 0.95 is the usual one")


def _jackknifed(row: Floats, member: npt.NDArray[np.int64], count: int) -> float:
    """The variance of the mean, by leaving out a group at a time."""
    sums, sizes = np.bincount(member, row, minlength=count), np.bincount(member, minlength=count)
    without = (sums.sum() - sums) / (len(row) - sizes)
    return float((count - 1) / count * ((without - without.mean()) ** 2).sum())


def few_or_normal(spread: Spread, tail: float) -> float:
    """The quantile for intervals that are made for the normal one; few groups want Student's."""
    return float(ndtri(tail)) if spread.alone else spread.quantile(tail)


def student_bounds(spread: Spread, level: float) -> tuple[float, float]:
    """Student's interval of any values."""
    reach = 0.0 if spread.error == 0 else spread.quantile((1 + level) / 2) * spread.error
    return spread.mean - reach, spread.mean + reach


def _bounds(rows: Floats, spread: Spread, level: float) -> tuple[float, float]:
    if np.isin(rows, (0.0, 1.0)).all():
        return _wilson(spread, few_or_normal(spread, (1 + level) / 2))
    low, high = student_bounds(spread, level)
    if rows.min() >= 0 and rows.max() <= 1:  # a share of something, such as F1
        return max(0.0, low), min(1.0, high)
    return low, high


def _wilson(spread: Spread, z: float) -> tuple[float, float]:
    """Wilson's interval, of a number of questions that need not be whole."""
    p = spread.mean
    n = spread.worth(p * (1 - p))
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, min(p, centre - reach)), min(1.0, max(p, centre + reach))
