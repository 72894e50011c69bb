"""A question that failed is neither right nor declined, whatever its answer says."""

from __future__ import annotations

import functools
from typing import Any

from crag_dspy.optimize.metrics.observed import failure_of
from crag_dspy.optimize.metrics.score import Metric, Score


def unless_failed(metric: Metric) -> Metric:
    """The metric, but 0 where the prediction says that it failed: an optimizer learns nothing from an outage."""

    @functools.wraps(metric)
    def judged(
        example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Any:
        if (failed := failure_of(pred)) is not None:
            return Score(score=0.0, feedback=f"The question failed: {failed}.")
        return metric(example, pred, trace, pred_name, pred_trace)

    return judged
