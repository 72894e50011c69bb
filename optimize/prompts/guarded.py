"""A metric as optimizers need it, whatever arguments it takes, and whatever became of the language model."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from typing import Any

import dspy

from crag_dspy.errors import OptimizerError
from crag_dspy.optimize.metrics.calling import call_metric
from crag_dspy.optimize.metrics.objective import metric_name
from crag_dspy.optimize.metrics.observed import field_of
from crag_dspy.optimize.metrics.score import Metric, Score
from crag_dspy.optimize.runs.cap import Cap

# What a candidate gets for a question that there were no calls left to ask: below any real score.
UNMEASURED = -1000.0
IN_A_ROW = 8  # failed questions, after which a language model is taken to be down


class Guarded:
    """A metric, with what an optimizer would take for a judgement kept from it.

    Once calls were refused, nothing is measured any more: every result is `UNMEASURED`, so that no candidate wins by
    the questions that it could not be asked. A question that failed is wrong, whatever the metric would say; after
    `IN_A_ROW` of them the work is ended. A result with a score and a feedback becomes a `Score`: DSPy's own are true
    even when they are zero, and would make demonstrations of wrong answers.

    Args:
        refused: calls that were refused, as `cap.refusals` tells.
        cap: closed when the language model is down.
    """

    def __init__(self, metric: Metric, refused: Sequence[Exception], cap: Cap) -> None:
        self.metric = metric
        self.refused = refused
        self.cap = cap
        self.__name__ = metric_name(metric)
        self._failed: list[str] = []
        self._lock = threading.Lock()

    def __call__(
        self, example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Any:
        if self.refused:
            return Score(score=UNMEASURED, feedback="Not measured: the budget of LM calls is spent.")
        failed = field_of(pred, "failed")
        with self._lock:
            self._failed = [*self._failed, str(failed)] if failed else []
            if len(self._failed) >= IN_A_ROW:
                self.cap.calls = 0
        if failed:
            return Score(score=0.0, feedback=f"There is no answer: {failed}")
        result = call_metric(self.metric, example, pred, trace, pred_name, pred_trace)
        if isinstance(result, dspy.Prediction) and not isinstance(result, Score):
            fields = dict(result.items())
            return Score(**{**fields, "feedback": fields.get("feedback") or ""})
        return result

    def of(self, metric: Metric) -> Guarded:
        """The same guard around another metric."""
        self.metric, self.__name__ = metric, metric_name(metric)
        return self

    def check_alive(self) -> None:
        """Raises `OptimizerError` when the language model was down, so that nothing it led to is taken for a result."""
        if len(self._failed) >= IN_A_ROW:
            raise OptimizerError(
                f"the optimizer was stopped after {len(self._failed)} questions in a row failed: {self._failed[-1]}"
            )


def guarded_optimizer(optimizer: Any, guarded: Guarded) -> Any:
    """A copy of a ready-made optimizer whose metric (its own, or else that of `guarded`) is guarded."""
    copied = copy.copy(optimizer)
    for name in ("metric", "metric_fn"):
        if hasattr(copied, name):
            own = getattr(copied, name)
            setattr(copied, name, guarded if own is None else guarded.of(own))
    return copied
