"""How well scores rank and separate two classes, by scikit-learn, with ties counted as ties.

A language model gives a handful of different scores, so a tie is the rule for it and not an exception: a relevant and
an irrelevant text with the same score count as half a pair in the right order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.measuring.scikit import scikit

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def auc(labels: Sequence[int], scores: Sequence[float]) -> float:
    """Probability that a relevant text scores above an irrelevant one, ties at one half, in [0, 1].

    Raises ConfigError unless both classes are there: without one, no order can be right or wrong.
    """
    return float(scikit("metrics").roc_auc_score(*_checked(labels, scores)))


def average_precision(labels: Sequence[int], scores: Sequence[float]) -> float:
    """Sum over the distinct scores, from the top, of precision times the recall gained there, in [0, 1].

    Texts of one score enter together, so the result does not depend on their order.
    """
    return float(scikit("metrics").average_precision_score(*_checked(labels, scores)))


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
    every text irrelevant is best; of equally good cuts it is the lowest.
    """
    truth, values = _checked(labels, scores)
    false_rate, true_rate, cuts = scikit("metrics").roc_curve(truth, values, drop_intermediate=False)
    share = truth.mean()
    right = (true_rate * share + (1 - false_rate) * (1 - share))[::-1]
    rising = cuts[::-1]  # the distinct scores, then infinity
    best = int(np.argmax(right > right.max() - 1e-12))
    between = 0 < best < len(rising) - 1
    return float(right[best]), float((rising[best - 1] + rising[best]) / 2 if between else rising[best])


def roc(labels: Sequence[int], scores: Sequence[float]) -> tuple[list[float], list[float]]:
    """False and true positive rates at the distinct scores, (0, 0) to (1, 1). `auc` is the area below."""
    curve = scikit("metrics").roc_curve(*_checked(labels, scores), drop_intermediate=False)
    return curve[0].tolist(), curve[1].tolist()


def auc_bounds(
    labels: Sequence[int],
    scores: Sequence[float],
    questions: Sequence[Hashable],
    *,
    draws: int = 400,
    seed: int = 0,
) -> tuple[float, float]:
    """(low, high): where `auc` would lie on other questions of the same kind, in 95% of `draws` bootstrap samples.

    Whole questions are drawn, not pairs: the pairs of one question stand and fall together.
    """
    truth, values = _checked(labels, scores)
    numbers = {question: number for number, question in enumerate(dict.fromkeys(questions))}
    owner = np.array([numbers[question] for question in questions])
    random = np.random.default_rng(seed)
    area = scikit("metrics").roc_auc_score
    found = []
    for _ in range(draws):
        drawn = np.bincount(random.integers(len(numbers), size=len(numbers)), minlength=len(numbers))
        weights = drawn[owner].astype(np.float64)
        if 0 < weights @ truth < weights.sum():
            found.append(area(truth, values, sample_weight=weights))
    if not found:
        raise ConfigError("too few questions for an interval: no bootstrap sample holds both classes")
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def _checked(labels: Sequence[int], scores: Sequence[Any]) -> tuple[Floats, Floats]:
    """Labels and scores as arrays, where they can be ranked."""
    truth, values = np.asarray(labels, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    if truth.shape != values.shape or truth.ndim != 1:
        raise ConfigError(f"labels and scores must have one length, got {len(labels)} and {len(scores)}")
    if not np.isfinite(values).all():
        raise ConfigError("scores must be finite: leave out what was not judged (None)")
    if not np.isin(truth, (0, 1)).all():
        raise ConfigError("labels must be 0 or 1")
    if not 0 < truth.sum() < len(truth):
        raise ConfigError("labels must hold both classes, relevant (1) and irrelevant (0)")
    return truth, values
