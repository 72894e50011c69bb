"""Several metrics as one number, with what an answer costs taken off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.calling import call_metric
from crag_dspy.optimize.metrics.costs import Cost, cost_of
from crag_dspy.optimize.metrics.score import Metric, Score
from crag_dspy.state.arguments import check_number, is_number
from crag_dspy.state.plain import Plain

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Prices(Plain):
    """What things cost, in units of the metric: 0.05 says that a search must gain five points in a hundred
    answers.

    search: of a question that searches the web. kilotoken: of a thousand tokens, in and out. second: of a
    second.
    """

    search: float = 0.0
    kilotoken: float = 0.0
    second: float = 0.0

    def __post_init__(self) -> None:
        for name in ("search", "kilotoken", "second"):
            check_number(f"price of a {name}", getattr(self, name), 0)

    def of(self, cost: Cost) -> float:
        return self.search * cost.searches + self.kilotoken * cost.tokens / 1000 + self.second * cost.seconds

    def __bool__(self) -> bool:
        return any(self.to_json().values())


@dataclass(frozen=True)
class Objective:
    """A weighted mean of metrics minus prices; itself a metric. Made by `combine`."""

    parts: tuple[tuple[Metric, float], ...]
    prices: Prices

    @property
    def __name__(self) -> str:  # Evaluate and MLflow name a metric by it
        return "+".join(metric_name(metric) for metric, _ in self.parts)

    def __call__(
        self,
        example: Any,
        pred: Any,
        trace: Any = None,
        pred_name: Any = None,
        pred_trace: Any = None,
    ) -> Score:
        total = sum(weight for _, weight in self.parts)
        quality, said, scores = 0.0, [], {}
        for metric, weight in self.parts:
            result = call_metric(metric, example, pred, trace, pred_name, pred_trace)
            value = float(result)
            quality += value * weight / total
            scores[metric_name(metric)] = value
            feedback = getattr(result, "feedback", "")
            if feedback and value < 1:
                said.append(f"{metric_name(metric)} {value:.2f}: {feedback}")
        cost = cost_of(pred)
        price = self.prices.of(cost)
        if price:
            said.append(f"It cost {price:.3f} ({cost}).")
        return Score(
            score=quality - price,
            feedback="\n".join(said) or "Right.",
            quality=quality,
            objective_scores=scores,
        )


def combine(
    metrics: Mapping[Metric, float] | Sequence[Metric] | Metric, prices: Prices | None = None
) -> Objective:
    """One metric out of several.

    Args:
        metrics: a metric, several (each counts the same), or weights: `{contains_word: 3, grounded: 1}`.
            Weights are positive; the result is their weighted mean, so 1 is still perfect.
        prices: taken off the mean. The score is then no longer in [0, 1], but its truth value still is that
            of the mean: an expensive right answer is right, and may become a demonstration.
    """
    if callable(metrics):
        parts: tuple[tuple[Metric, float], ...] = ((metrics, 1.0),)
    elif isinstance(metrics, Mapping):
        parts = tuple(metrics.items())
    else:
        parts = tuple((metric, 1.0) for metric in metrics)
    if not parts:
        raise ConfigError("combine needs at least one metric")
    for metric, weight in parts:
        if not callable(metric):
            raise ConfigError(f"a metric must be callable, got {metric!r}: pass the function, not its name")
        if not is_number(weight) or weight <= 0:
            raise ConfigError(f"weight of {metric_name(metric)} must be a positive number, got {weight!r}")
    return Objective(parts, prices or Prices())


def metric_name(metric: Any) -> str:
    """A metric's own name, or its class's."""
    return str(getattr(metric, "__name__", type(metric).__name__))
