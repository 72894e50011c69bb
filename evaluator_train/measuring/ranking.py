"""How well scores rank and separate two classes, with ties counted as ties.

A language model gives a handful of different scores, so a tie is the rule for it and not an exception: a
    relevant and
an irrelevant text with the same score count as half a pair in the right order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def auc(labels: Sequence[int], scores: Sequence[float]) -> float:
    """Probability that a relevant text scores above an irrelevant one, ties at one half, in [0, 1].

    Raises ConfigError unless both classes are there: without one, no order can be right or wrong.
    """
    truth, _, groups = _grouped(labels, scores)
    return _weighted_auc(truth, groups, np.ones(len(truth)))


def average_precision(labels: Sequence[int], scores: Sequence[float]) -> float:
    """Sum over the distinct scores, from the top, of precision times the recall gained there, in [0, 1].

    Texts of one score enter together, so the result does not depend on their order.
    """
    truth, _, groups = _grouped(labels, scores)
    relevant = np.bincount(groups, truth)[::-1]
    taken = np.cumsum(np.bincount(groups)[::-1])
    precision = np.cumsum(relevant) / taken
    return float(np.sum(relevant * precision) / relevant.sum())


def accuracy_at(labels: Sequence[int], scores: Sequence[float | None], cut: float) -> float:
    """Share of texts on the right side of `cut` (at or above it: relevant). A None is on neither: wrong."""
    if len(labels) != len(scores) or not labels:
        raise ConfigError(f"labels and scores must have one length above 0, got {len(labels)}, {len(scores)}")
    right = sum(
        score is not None and (score >= cut) == bool(label)
        for label, score in zip(labels, scores, strict=True)
    )
    return right / len(labels)


def best_accuracy(labels: Sequence[int], scores: Sequence[float]) -> tuple[float, float]:
    """The best accuracy that any cut reaches on these very texts, and the cut, in the middle of its gap.

    An upper bound of what tuning the cut can bring, not an estimate of it. The cut is infinite when calling
    every text irrelevant is best.
    """
    truth, values, groups = _grouped(labels, scores)
    relevant, all_of = np.bincount(groups, truth), np.bincount(groups)
    # Cut i keeps the groups from i on: relevant ones at or above it, irrelevant ones below it.
    above = np.concatenate([np.cumsum(relevant[::-1])[::-1], [0]])
    below = np.concatenate([[0], np.cumsum(all_of - relevant)])
    right = above + below
    best = int(np.argmax(right))
    if best == len(values):
        cut = float("inf")
    else:
        cut = float(values[0] if best == 0 else (values[best - 1] + values[best]) / 2)
    return float(right[best] / len(truth)), cut


def roc(labels: Sequence[int], scores: Sequence[float]) -> tuple[list[float], list[float]]:
    """False and true positive rates at the distinct scores, (0, 0) to (1, 1). `auc` is the area below."""
    truth, _, groups = _grouped(labels, scores)
    relevant = np.bincount(groups, truth)[::-1]
    irrelevant = np.bincount(groups)[::-1] - relevant
    rates = [np.concatenate([[0.0], np.cumsum(part) / part.sum()]) for part in (irrelevant, relevant)]
    return rates[0].tolist(), rates[1].tolist()


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95% bootstrap interval."""

    low: float
    high: float


def auc_interval(
    labels: Sequence[int],
    scores: Sequence[float],
    questions: Sequence[Hashable],
    *,
    draws: int = 400,
    seed: int = 0,
) -> Interval:
    """Where `auc` would lie on other questions of the same kind: 95% of `draws` bootstrap samples.

    Whole questions are drawn, not pairs: the pairs of one question stand and fall together.
    """
    truth, _, groups = _grouped(labels, scores)
    numbers = {question: number for number, question in enumerate(dict.fromkeys(questions))}
    owner = np.array([numbers[question] for question in questions])
    random = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        drawn = np.bincount(random.integers(len(numbers), size=len(numbers)), minlength=len(numbers))
        weights = drawn[owner].astype(np.float64)
        if 0 < weights @ truth < weights.sum():
            found.append(_weighted_auc(truth, groups, weights))
    if not found:
        raise ConfigError("too few questions for an interval: no bootstrap sample holds both classes")
    low, high = np.quantile(found, [0.025, 0.975])
    return Interval(float(low), float(high))


def _weighted_auc(truth: Floats, groups: NDArray[np.intp], weights: Floats) -> float:
    relevant = np.bincount(groups, weights * truth)
    irrelevant = np.bincount(groups, weights * (1 - truth))
    below = np.cumsum(irrelevant) - irrelevant
    return float(relevant @ (below + irrelevant / 2) / (relevant.sum() * irrelevant.sum()))


def _grouped(labels: Sequence[int], scores: Sequence[float]) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Labels, the distinct scores in rising order, and for each text the number of its score."""
    truth, values = np.asarray(labels, dtype=np.float64), _finite(scores)
    if truth.shape != values.shape or truth.ndim != 1:
        raise ConfigError(f"labels and scores must have one length, got {len(labels)} and {len(scores)}")
    if not np.isin(truth, (0, 1)).all():
        raise ConfigError("labels must be 0 or 1")
    if not 0 < truth.sum() < len(truth):
        raise ConfigError("labels must hold both classes, relevant (1) and irrelevant (0)")
    distinct, groups = np.unique(values, return_inverse=True)
    return truth, distinct, groups


def _finite(scores: Sequence[Any]) -> Floats:
    values = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ConfigError("scores must be finite: leave out what was not judged (None)")
    return values
