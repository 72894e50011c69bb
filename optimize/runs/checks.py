"""What an evaluation is given, checked before any money is spent on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.objective import metric_name
from crag_dspy.optimize.metrics.score import Metric
from crag_dspy.optimize.runs.cap import calling_nothing

Metrics = Metric | Sequence[Metric] | Mapping[str, Metric]


def named_metrics(metrics: Metrics) -> dict[str, Metric]:
    """Metrics by name, in order."""
    if isinstance(metrics, Mapping):
        named = {str(name): metric for name, metric in metrics.items()}
    else:
        each = [metrics] if callable(metrics) or isinstance(metrics, str) else list(metrics)
        named = {metric_name(metric): metric for metric in each}
        if len(named) < len(each):
            raise ConfigError(
                f"two metrics have one name ({', '.join(map(metric_name, each))}): pass name -> metric"
            )
    if not named:
        raise ConfigError("metrics is empty: pass at least one metric")
    for name, metric in named.items():
        if not callable(metric):
            raise ConfigError(
                f"metric {name!r} must be callable, got {metric!r}: pass the function, not its name"
            )
    return named


def check_metric(metric: Any) -> None:
    """A metric is a function: a name would be "called" for every answer, and fail on each."""
    if not callable(metric):
        hint = f": pass metrics.{metric}, not its name" if isinstance(metric, str) else ""
        raise ConfigError(f"metric must be a function, got {metric!r}{hint}")


def check_devset(devset: Sequence[dspy.Example], metrics: Any = ()) -> None:
    """Find examples that cannot be asked or judged before any money is spent on the others."""
    if not isinstance(devset, Sequence):
        raise ConfigError(f"devset must be a list of examples, got {type(devset).__name__}: pass list(...)")
    if not devset:
        raise ConfigError("devset is empty: at least one example is needed")
    for metric in metrics:
        check_metric(metric)
    with calling_nothing():  # a metric may be a judge, which has nothing to judge yet
        _check_examples(devset, metrics)


def _check_examples(devset: Sequence[dspy.Example], metrics: Any) -> None:
    for i, example in enumerate(devset):
        try:
            asked = example.inputs().keys()
        except (AttributeError, ValueError) as error:
            raise ConfigError(f'devset[{i}] has no inputs: make it with .with_inputs("question")') from error
        if not asked:
            raise ConfigError(f'devset[{i}] has no inputs: make it with .with_inputs("question")')
        for metric in metrics:
            try:
                metric(example, dspy.Prediction())
            except ConfigError as error:
                raise ConfigError(f"devset[{i}]: {error}") from error
            except Exception:  # noqa: BLE001 - another's metric may need a field of a real prediction
                continue
