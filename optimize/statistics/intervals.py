"""How sure is a mean, and is a difference more than noise?

Both answers resample the questions. Resampling n values is drawing how often each DISTINCT value occurs, so a
metric with few values (right or wrong) costs the same for a hundred questions as for a million.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.state.plain import Plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

_CELLS = 4_000_000  # largest array of one resampling step


@dataclass(frozen=True, slots=True)
class Interval(Plain):
    """A mean with its percentile bootstrap interval.

    `low` and `high` hold `level` of the resampled means. With one question, or equal values, both equal it.
    """

    mean: float
    low: float
    high: float
    level: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class PairedDifference(Plain):
    """What changed from `before` to `after` on the same questions.

    `difference` is the mean of after - before with its bootstrap interval; `p_value` is the two-sided
    sign-flip permutation test's: how often a difference this large would come up if the two were swapped at
    random.
    """

    SHOWN: ClassVar[str] = "difference low high level p_value better worse equal improved"

    difference: float
    low: float
    high: float
    level: float
    p_value: float
    better: int
    worse: int
    equal: int

    @property
    def improved(self) -> bool:
        """Whether `after` is better beyond noise: the interval and the test must agree."""
        return self.low > 0 and self.p_value <= 1 - self.level


def mean_interval(
    values: Sequence[float] | npt.NDArray[np.float64],
    *,
    level: float = 0.95,
    samples: int = 2000,
    seed: int = 0,
) -> Interval:
    """The mean of `values` with a percentile bootstrap interval (Efron 1979).

    Args:
        values: one a question, finite.
        level: share of the resampled means inside the interval, in (0, 1).
        samples: number of resamples, at least 1.
        seed: the same seed gives the same interval.
    """
    numbers = _checked("values", values)
    _check(level, samples)
    distinct, counts = np.unique(numbers, return_counts=True)
    rng = np.random.default_rng(seed)
    means = np.concatenate(
        [
            rng.multinomial(numbers.size, counts / numbers.size, size=rows) @ distinct / numbers.size
            for rows in _steps(samples, distinct.size)
        ]
    )
    low, high = _percentiles(means, level)
    return Interval(float(numbers.mean()), low, high, level, numbers.size)


def paired_difference(
    before: Sequence[float] | npt.NDArray[np.float64],
    after: Sequence[float] | npt.NDArray[np.float64],
    *,
    level: float = 0.95,
    samples: int = 10_000,
    seed: int = 0,
) -> PairedDifference:
    """Compare two results on the SAME questions, in the same order.

    Args:
        before, after: one value a question, finite, of equal length.
        level: share of the resampled differences inside the interval, in (0, 1).
        samples: number of resamples, and of random sign flips where there are too many to try all.
        seed: the same seed gives the same answer.
    """
    old, new = _checked("before", before), _checked("after", after)
    if old.size != new.size:
        raise ConfigError(f"before and after must be of equal length, got {old.size} and {new.size}")
    change = np.round(new - old, 12)  # 0.3 - 0.2 and 0.2 - 0.1 are the same change
    interval = mean_interval(change, level=level, samples=samples, seed=seed)
    return PairedDifference(
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
        level=level,
        p_value=_sign_flip(change, samples, seed),
        better=int((change > 0).sum()),
        worse=int((change < 0).sum()),
        equal=int((change == 0).sum()),
    )


def _sign_flip(change: npt.NDArray[np.float64], samples: int, seed: int) -> float:
    """Two-sided p-value. Exact up to 16 questions that changed; questions that did not change say nothing."""
    sizes, counts = np.unique(np.abs(change[change != 0]), return_counts=True)
    moved = int(counts.sum())
    if moved == 0:
        return 1.0
    observed = abs(float(change.sum()))
    slack = 1e-9 * max(1.0, observed)
    if moved <= 16:
        each = np.repeat(sizes, counts)
        signs = 1 - 2 * ((np.arange(2**moved)[:, None] >> np.arange(moved)) & 1)
        return float((np.abs(signs @ each) >= observed - slack).mean())
    rng = np.random.default_rng(seed)
    extreme = 0
    for rows in _steps(samples, sizes.size):
        ups = rng.binomial(counts, 0.5, size=(rows, sizes.size))
        extreme += int((np.abs((2 * ups - counts) @ sizes) >= observed - slack).sum())
    return (extreme + 1) / (samples + 1)


def _steps(samples: int, width: int) -> Iterator[int]:
    """Split `samples` rows so that no step makes an array of more than `_CELLS` cells."""
    step = max(1, _CELLS // max(1, width))
    for start in range(0, samples, step):
        yield min(step, samples - start)


def _percentiles(means: npt.NDArray[np.float64], level: float) -> tuple[float, float]:
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _checked(name: str, values: Sequence[float] | npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64).ravel()
    if numbers.size == 0:
        raise ConfigError(f"{name} is empty: at least one question is needed")
    if not np.isfinite(numbers).all():
        where = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise ConfigError(f"{name}[{where}] must be a finite number, got {numbers[where]}")
    return numbers


def _check(level: float, samples: int) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"level must be between 0 and 1, got {level!r}: 0.95 is the usual one")
    if samples < 1:
        raise ConfigError(f"samples must be at least 1, got {samples!r}")
