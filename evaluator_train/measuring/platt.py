"""Platt and temperature scaling: logistic regression on one number or a few, by scikit-learn, without a penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.measuring.scikit import scikit
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

    Logistic regression on Platt's smoothed targets, (P + 1) / (P + 2) and 1 / (N + 2), which keep a finite when raw
    separates the classes. Deterministic.

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
    weights, b = logistic(values[:, None], truth, with_shift=method == "platt")
    a = float(weights[0])
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
    values: Floats, truth: Floats, questions: Sequence[str], *, with_shift: bool, folds: int = 5
) -> Floats:
    """Each pair's probability from a fit on the other folds, which share no question with its own.

    With a single question there are no other folds: then from the fit on all pairs.
    """
    groups = list(dict.fromkeys(questions))
    numbers = {question: number for number, question in enumerate(groups)}
    owner = [numbers[question] for question in questions]
    everything = np.arange(len(values))
    parts = [(everything, everything)]
    if len(groups) > 1:
        split = scikit("model_selection").GroupKFold(min(folds, len(groups))).split
        parts = list(split(values, groups=owner))
    probability = np.empty_like(values)
    for rest, inside in parts:
        weights, shift = logistic(values[rest, None], truth[rest], with_shift=with_shift)
        probability[inside] = sigmoid(weights[0] * values[inside] + shift)
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


def logistic(values: Floats, truth: Floats, *, with_shift: bool = True) -> tuple[Floats, float]:
    """(w, b) that make sigmoid(values @ w + b) the most likely probabilities of `truth` (0 or 1), on Platt's targets.

    scikit-learn's Newton on standardised columns of `values`, shape (n, k), without a penalty: a target between 0 and
    1 is a row of either class, with the target and the rest of 1 as their weights.
    """
    positives = truth.sum()
    negatives = len(truth) - positives
    target = np.where(truth == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    centre = values.mean(0) if with_shift else np.zeros(values.shape[1])
    spread = np.sqrt(np.mean((values - centre) ** 2, axis=0))
    spread[spread == 0] = 1.0
    design = (values - centre) / spread
    model = scikit("linear_model").LogisticRegression(
        C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=200, fit_intercept=with_shift
    )
    classes = np.repeat([1, 0], len(truth))
    model.fit(np.vstack([design, design]), classes, np.concatenate([target, 1 - target]))
    found = model.coef_[0] / spread
    return found, float(model.intercept_[0] - found @ centre) if with_shift else 0.0
