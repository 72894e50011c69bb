"""How far probabilities are from what happens: reliability table, calibration error, log loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.measuring.scikit import scikit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

BINS = 15


@dataclass(frozen=True, slots=True)
class Bin:
    """A row of a reliability table: the pairs with a probability in [low, high); the last bin includes 1."""

    low: float
    high: float
    pairs: int
    predicted: float  # mean probability
    observed: float  # share that is relevant


def reliability(labels: Sequence[int], probabilities: Sequence[float], bins: int = BINS) -> list[Bin]:
    """Predicted probability against observed share, in `bins` bins of equal width over [0, 1].

    Empty bins are left out. The probability is that of relevance, not of the likelier class.
    """
    truth, predicted = np.asarray(labels, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    if truth.shape != predicted.shape or not len(truth):
        raise ConfigError(f"labels and probabilities must have one length above 0, got {len(labels)}")
    if not ((predicted >= 0) & (predicted <= 1)).all():
        raise ConfigError("probabilities must be in [0, 1]")
    edges = np.arange(bins + 1) / bins
    pairs, total, relevant = (
        np.histogram(predicted, edges, weights=weights)[0] for weights in (None, predicted, truth)
    )
    return [
        Bin(float(edges[n]), float(edges[n + 1]), int(pairs[n]), total[n] / pairs[n], relevant[n] / pairs[n])
        for n in np.flatnonzero(pairs)
    ]


def calibration_error(labels: Sequence[int], probabilities: Sequence[float], bins: int = BINS) -> float:
    """Expected calibration error in [0, 1]: |predicted - observed| of each bin, weighted by its pairs."""
    table = reliability(labels, probabilities, bins)
    return sum(row.pairs * abs(row.predicted - row.observed) for row in table) / len(labels)


def log_loss(truth: Floats, probability: Floats) -> float:
    """Mean surprise of the labels, by scikit-learn: 0 when every probability is right and certain."""
    return float(scikit("metrics").log_loss(truth, probability, labels=[0, 1]))
