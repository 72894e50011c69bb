"""Platt and temperature scaling: logistic regression on one number or a few, exact and deterministic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.graders.artefact import Calibration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


Method = Literal["platt", "temperature"]
METHODS: tuple[Method, ...] = get_args(Method)


def fit(
    raws: Sequence[float], labels: Sequence[int], method: Method | str = "platt", prior: float | None = None
) -> Calibration:
    """The a (and b) that make sigmoid(a * raw + b) the most likely probabilities of the labels.

    Logistic regression by Newton's method on Platt's smoothed targets, (P + 1) / (P + 2) and 1 / (N + 2),
    which keep a finite when raw separates the classes. Deterministic.

    Args:
        raws: logits before any calibration.
        labels: 0 or 1, both present.
        method: "platt", or "temperature" (b = 0).
        prior: share of relevant texts where the grader will be used, in (0, 1), when it is another than among
            the labels; it shifts b. None leaves the share of the labels.

    Raises:
        ConfigError: also when relevant texts have the lower logits: such a grader must not be calibrated but
            found.
    """
    if method not in METHODS:
        raise ConfigError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if prior is not None and not 0 < prior < 1:
        raise ConfigError(f"prior must be a share in (0, 1), got {prior!r}")
    values, truth = checked(raws, labels)
    a, b = _newton(values, truth, with_shift=method == "platt")
    if a <= 0:
        raise ConfigError(
            f"the scores run against the labels (fitted a = {a:.3g}): check that label 1 means relevant, "
            "and that the grader has its trained head"
        )
    if prior is not None:
        share = truth.mean()
        b += float(np.log(prior / (1 - prior)) - np.log(share / (1 - share)))
    return Calibration(a=a, b=b)


def crossed_probabilities(
    values: Floats, truth: Floats, questions: Sequence[str], *, with_shift: bool
) -> Floats:
    """Each pair's probability from a fit on the other four folds of questions.

    With a single question there are no other folds: then from the fit on all pairs.
    """
    numbers = {question: number for number, question in enumerate(dict.fromkeys(questions))}
    folds = np.array([numbers[question] % 5 for question in questions])
    probability = np.empty_like(values)
    for fold in np.unique(folds):
        inside = folds == fold
        rest = ~inside if not inside.all() else inside
        a, b = _newton(values[rest], truth[rest], with_shift=with_shift)
        probability[inside] = sigmoid(a * values[inside] + b)
    return probability


def checked(values: Sequence[float | None], labels: Sequence[int]) -> tuple[Floats, Floats]:
    found, truth = np.asarray(values, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if found.shape != truth.shape:
        raise ConfigError(f"values and labels must have one length, got {len(values)} and {len(labels)}")
    if not np.isfinite(found).all():
        raise ConfigError("values must be finite: leave out what was not judged (None)")
    if not np.isin(truth, (0, 1)).all() or len(np.unique(truth)) < 2:
        raise ConfigError("labels must be 0 or 1, with both among the judged pairs")
    return found, truth


def sigmoid(logits: Floats) -> Floats:
    probability: Floats = 0.5 * (1 + np.tanh(logits / 2))  # does not overflow
    return probability


def _newton(values: Floats, truth: Floats, *, with_shift: bool) -> tuple[float, float]:
    weights, shift = logistic(values[:, None], truth, with_shift=with_shift)
    return float(weights[0]), shift


def logistic(values: Floats, truth: Floats, *, with_shift: bool = True) -> tuple[Floats, float]:
    """(w, b) that make sigmoid(values @ w + b) the most likely probabilities of `truth` (0 or 1), on Platt's targets.

    Newton's method on standardised columns of `values`, shape (n, k); damped, so that every step improves the log loss.
    """
    positives = truth.sum()
    negatives = len(truth) - positives
    target = np.where(truth == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    centre = values.mean(0) if with_shift else np.zeros(values.shape[1])
    spread = np.sqrt(np.mean((values - centre) ** 2, axis=0))
    spread[spread == 0] = 1.0
    design = (values - centre) / spread
    if with_shift:
        design = np.hstack([design, np.ones_like(design)])
    weights = np.zeros(design.shape[1])
    loss = _smooth_loss(design @ weights, target)
    for _ in range(100):
        probability = sigmoid(design @ weights)
        gradient = design.T @ (probability - target)
        if np.abs(gradient).max() < 1e-9 * len(truth):
            break
        curvature = (design * (probability * (1 - probability))[:, None]).T @ design
        step = np.linalg.solve(curvature + 1e-12 * np.eye(len(weights)), gradient)
        size = 1.0
        while (trial := _smooth_loss(design @ (weights - size * step), target)) > loss and size > 1e-6:
            size /= 2
        if trial >= loss:
            break  # the floor of double precision
        weights, loss = weights - size * step, trial
    found = weights[: values.shape[1]] / spread
    return found, float(weights[-1] - found @ centre) if with_shift else 0.0


def _smooth_loss(logits: Floats, target: Floats) -> float:
    return float(np.sum(np.logaddexp(0, logits) - target * logits))
