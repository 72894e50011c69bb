"""A metric as optimizers need it, whatever arguments it takes, and whatever became of the question."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import dspy

from crag_dspy.optimize.metrics.calling import call_metric
from crag_dspy.optimize.metrics.objective import metric_name
from crag_dspy.optimize.metrics.observed import failure_of
from crag_dspy.optimize.metrics.score import Metric, Score

# What a candidate gets for a question that there were no calls left to ask: below any real score.
UNMEASURED = -1000.0


class Guarded:
    """A metric, with what an optimizer would take for a judgement kept from it.

    Once calls were refused, nothing is measured any more: every result is `UNMEASURED`, so that no candidate wins by
    the questions that it could not be asked. A question that failed is wrong, whatever the metric would say. A result
    with a score and a feedback becomes a `Score`: DSPy's own are true even when they are zero, and would make
    demonstrations of wrong answers.

    Args:
        refused: calls that were refused, as `cap.refusals` tells.
    """

    def __init__(self, metric: Metric, refused: Sequence[Exception]) -> None:
        self.metric = metric
        self.refused = refused
        self.__name__ = metric_name(metric)

    def __call__(
        self, example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Any:
        if self.refused:
            return Score(score=UNMEASURED, feedback="Not measured: the budget of LM calls is spent.")
        failed = failure_of(pred)
        if failed is not None:
            return Score(score=0.0, feedback=f"There is no answer: {failed}")
        result = call_metric(self.metric, example, pred, trace, pred_name, pred_trace)
        if isinstance(result, dspy.Prediction) and not isinstance(result, Score):
            fields = dict(result.items())
            return Score(**{**fields, "feedback": fields.get("feedback") or ""})
        return result


def guarded_optimizer(optimizer: Any, metric: Metric, refused: Sequence[Exception]) -> Any:
    """A copy of a ready-made optimizer whose metric, its own or else `metric`, is guarded."""
    copied = copy.copy(optimizer)
    for name in ("metric", "metric_fn"):
        if hasattr(copied, name):
            setattr(copied, name, Guarded(getattr(copied, name) or metric, refused))
    return copied
