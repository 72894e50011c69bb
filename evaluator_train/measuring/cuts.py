"""Two thresholds of a calibrated scale from two promises about single texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.measuring.platt import checked
from crag_dspy.evaluator_train.measuring.scikit import scikit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cuts:
    """Suggested thresholds and what they do on the pairs they were chosen on."""

    upper: float
    lower: float
    precision: float  # of the pairs at or above upper
    trusted: float  # share of all pairs at or above upper
    missed: float  # share of the relevant pairs at or below lower
    dropped: float  # share of all pairs at or below lower


def suggest_thresholds(
    labels: Sequence[int],
    scores: Sequence[float],
    *,
    precision: float = 0.9,
    missed: float = 0.05,
    support: float = 0.02,
) -> Cuts:
    """Two cuts of the scale from two promises about single texts.

    upper is the lowest cut at which at least `precision` of the texts at or above it are relevant (where none reaches
    that: the cut of the best precision); lower the highest at which at most `missed` of the relevant texts are at or
    below it. Both lie in the middle of the gap between two scores. Where lower would lie above upper, one cut keeps
    both promises: lower, for both. A start for `best_thresholds`, which asks what answers gain from them.

    Args:
        labels, scores: of a development set; scores in [-1, 1].
        support: share of all texts that must be at or above upper, so that two lucky texts do not make a
            threshold.
    """
    for name, value in (("precision", precision), ("missed", missed), ("support", support)):
        if not 0 <= value <= 1:
            raise ConfigError(f"{name} must be a share in [0, 1], got {value!r}")
    values, truth = checked(scores, labels)
    if np.abs(values).max() > 1:
        raise ConfigError("scores must be in [-1, 1]: give calibrated scores, not logits")
    upper = _upper(values, truth, precision, max(1, int(np.ceil(support * len(values)))))
    lower = _lower(values, truth, missed)
    upper = max(upper, lower)
    above, below = values >= upper, values <= lower
    return Cuts(
        upper=upper,
        lower=lower,
        precision=float(truth[above].mean()) if above.any() else 0.0,
        trusted=float(above.mean()),
        missed=float(truth[below].sum() / truth.sum()),
        dropped=float(below.mean()),
    )


def _upper(values: Floats, truth: Floats, precision: float, support: int) -> float:
    reached, _, distinct = scikit("metrics").precision_recall_curve(truth, values)
    taken = len(values) - np.searchsorted(np.sort(values), distinct)
    candidates = np.flatnonzero(taken >= support)
    good = candidates[reached[candidates] >= precision]
    best = int(good[0]) if len(good) else int(candidates[np.argmax(reached[candidates])])
    return _gap(distinct, best)


def _lower(values: Floats, truth: Floats, missed: float) -> float:
    relevant = np.sort(values[truth == 1])
    allowed = min(int(np.floor(missed * len(relevant) + 1e-9)), len(relevant) - 1)
    distinct = np.unique(values)
    return _gap(distinct, int(np.searchsorted(distinct, relevant[allowed])))


def _gap(distinct: Floats, index: int) -> float:
    """The middle between a score and the next one below it; below the lowest, between it and -1."""
    below = distinct[index - 1] if index else -1.0
    return float((below + distinct[index]) / 2)
