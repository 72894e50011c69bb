"""Calling a metric with what it takes, whoever wrote it.

DSPy calls metrics with two arguments (Evaluate), three (bootstrapping) or five (GEPA). A metric that takes fewer, or
others in their place (`frac=` of DSPy's own `answer_exact_match`), must not be handed what it would misread.
"""

from __future__ import annotations

import inspect
from typing import Any

from crag_dspy.optimize.metrics.score import Metric

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def call_metric(
    metric: Metric,
    example: Any,
    pred: Any,
    trace: Any = None,
    pred_name: Any = None,
    pred_trace: Any = None,
) -> Any:
    """What `metric` says of a prediction.

    `trace` goes to the third parameter, as DSPy passes it, where there is one. `pred_name` and `pred_trace` go by name
    to a metric that has parameters of these names or takes any; by position only to one that cannot be called without.
    """
    try:
        parameters = list(inspect.signature(metric).parameters.values())
    except (TypeError, ValueError):  # a built-in that does not say
        return metric(example, pred)
    kinds = {parameter.kind for parameter in parameters}
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return metric(example, pred, trace, pred_name, pred_trace)
    places = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    needed = sum(parameter.default is inspect.Parameter.empty for parameter in places)
    given = [example, pred, trace, pred_name, pred_trace][: max(min(3, len(places)), min(5, needed))]
    names = {
        parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY
    }
    names -= {parameter.name for parameter in places[: len(given)]}
    offered = {"trace": trace, "pred_name": pred_name, "pred_trace": pred_trace}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        names |= offered.keys() - {parameter.name for parameter in places[: len(given)]}
        if len(given) > 2:
            names.discard("trace")
    return metric(*given, **{name: value for name, value in offered.items() if name in names})
