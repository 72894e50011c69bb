"""A limit on language model calls that holds: counted where the calls are made, and refused beyond it."""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import dspy

from crag_dspy.errors import BudgetSpentError
from crag_dspy.live.held import Held
from crag_dspy.optimize.metrics.objective import metric_name
from crag_dspy.optimize.metrics.score import Score
from crag_dspy.usage import track_calls

# What a candidate gets for a question that there were no calls left to ask: below any real score.
UNMEASURED = -1000.0


class Meter(Held):
    """Counts calls, from any thread and any copy, and refuses those beyond `limit` (None: no limit).

    A reply from DSPy's cache is not counted: nobody paid for it. A call that failed is.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.spent = 0
        self.refused = 0
        self._lock = threading.Lock()

    @property
    def left(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.spent)

    def take(self, calls: int = 1) -> None:
        """Count calls that are about to be made. Raises `BudgetSpentError` when they are too many."""
        with self._lock:
            if self.limit is not None and self.spent + calls > self.limit:
                self.refused += 1
                raise BudgetSpentError(f"the budget of {self.limit} LM calls is spent")
            self.spent += calls

    def give_back(self, calls: int = 1) -> None:
        """Take back what was counted for calls that reached no model."""
        with self._lock:
            self.spent -= calls

    @contextmanager
    def metering(self, limit: int | None = None) -> Iterator[None]:
        """Within, the configured language model is counted, and no more than `limit` calls in all are made."""
        outer = self.limit
        if limit is not None:
            self.limit = limit if outer is None else min(outer, limit)
        try:
            with dspy.context(lm=self.metered(dspy.settings.lm)):
                yield
        finally:
            self.limit = outer

    def metered(self, lm: Any) -> Any:
        """A copy of a language model whose calls are counted; None stays None, and a counted one is returned."""
        if lm is None or isinstance(lm, Metered):
            return lm
        counted = lm.copy()
        counted.__class__ = _metered_class(type(lm))  # type: ignore[arg-type]
        counted._meter = self
        return counted

    def metered_program(self, program: dspy.Module) -> dspy.Module:
        """A copy whose predictors' own language models are counted; the others use the configured one."""
        made = program.deepcopy()
        for _, module in made.named_sub_modules(dspy.Predict):
            module.lm = self.metered(module.lm)
        return made

    def metered_optimizer(self, optimizer: Any, metric: Callable[..., Any]) -> Any:
        """A copy of a ready-made optimizer with a guarded metric (its own, or else `metric`) and counted models."""
        copied = copy.copy(optimizer)
        for name in ("metric", "metric_fn"):
            if hasattr(copied, name):
                setattr(copied, name, Guarded(getattr(copied, name) or metric, self))
        for name in ("prompt_model", "task_model", "reflection_lm"):
            if getattr(copied, name, None) is not None:
                setattr(copied, name, self.metered(getattr(copied, name)))
        teacher = getattr(copied, "teacher_settings", None)
        if teacher and teacher.get("lm") is not None:
            copied.teacher_settings = {**teacher, "lm": self.metered(teacher["lm"])}
        return copied


class Metered:
    """Mixed into a language model's class: everything else about the model stays as it is."""

    _meter: Meter
    kwargs: dict[str, Any]

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        with self._counted(kwargs):
            return super().__call__(prompt, messages=messages, **kwargs)  # type: ignore[misc]

    async def acall(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        with self._counted(kwargs):
            return await super().acall(prompt, messages=messages, **kwargs)  # type: ignore[misc]

    @contextmanager
    def _counted(self, kwargs: dict[str, Any]) -> Iterator[None]:
        calls = int(kwargs.get("n") or self.kwargs.get("n") or 1)
        self._meter.take(calls)
        with track_calls() as made:
            yield
        if not made.entries:  # the reply came from DSPy's cache
            self._meter.give_back(calls)


@cache
def _metered_class(kind: Any) -> Any:
    # The name and home of the original: a state that records its class stays loadable.
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (Metered, kind), names)


class Guarded:
    """A metric as optimizers need it, whatever arguments it takes.

    Once calls were refused, nothing is measured any more: every result is `UNMEASURED`, so that no candidate wins by
    the questions that it could not be asked. A result with a score and a feedback becomes a `Score`: DSPy's own are
    true even when they are zero, and would make demonstrations of wrong answers.
    """

    def __init__(self, metric: Callable[..., Any], meter: Meter) -> None:
        self.metric = metric
        self.meter = meter
        self.__name__ = metric_name(metric)
        self._takes = _positional(metric)

    def __call__(
        self, example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Any:
        if self.meter.refused:
            return Score(score=UNMEASURED, feedback="Not measured: the budget of LM calls is spent.")
        result = self.metric(*(example, pred, trace, pred_name, pred_trace)[: self._takes])
        if isinstance(result, dspy.Prediction) and not isinstance(result, Score):
            fields = dict(result.items())
            return Score(**{**fields, "feedback": fields.get("feedback") or ""})
        return result


def _positional(metric: Callable[..., Any]) -> int:
    """How many of the five arguments a metric takes."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(metric).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return 5
    return min(5, sum(parameter.kind in kinds for parameter in parameters))
