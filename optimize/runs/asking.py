"""One question: the program is asked, its answer judged, and whatever happened is a result that can be kept.

A question has failed when the program raised, when it says so itself (`failed`), when one of its parts did not work
(`trace.faults`), or when a metric could not judge. A grader or a search that is down is no property of the system that
is measured, so what it answered meanwhile is no result of it either.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dspy

from crag_dspy.errors import cause_of
from crag_dspy.optimize.metrics.costs import Cost, cost_of
from crag_dspy.optimize.metrics.objective import metric_name
from crag_dspy.optimize.metrics.observed import (
    action_of,
    answer_of,
    failure_of,
    faults_of,
    field_of,
    strings_of,
)
from crag_dspy.optimize.metrics.score import Metric
from crag_dspy.optimize.runs.cap import refusals
from crag_dspy.usage import count_replies, track_calls


@dataclass
class Asked:
    """One call of a program: what it gave, what failed (None: nothing), what it took, and how many LM replies came
    from DSPy's cache, and so are not in what it took.
    """

    prediction: Any
    error: str | None
    cost: Cost
    cached: int = 0


def ask_program(program: dspy.Module, **inputs: Any) -> Asked:
    """Call a program; an exception is a result too. Never raises, except on an interruption."""
    start = time.perf_counter()
    error = None
    prediction = None
    # A trace of its own: the global one would grow with every question.
    with dspy.context(trace=[]), track_calls() as calls, count_replies() as replies:
        try:
            prediction = program(**inputs)
            error = failure_of(prediction) or faults_of(prediction)
        except Exception as raised:  # noqa: BLE001 - one question can never end a batch
            error = cause_of(raised, program, limit=500)
    entries = calls.entries
    tokens = sum(
        int(entry.get(kind) or 0) for entry in entries for kind in ("prompt_tokens", "completion_tokens")
    )
    seconds = round(time.perf_counter() - start, 4)
    searches = cost_of(prediction).searches
    cost = Cost(searches, len(entries), tokens, seconds)
    return Asked(prediction, error, cost, max(0, replies.count - len(entries)))


def judge_answer(
    metric: Metric, example: dspy.Example, asked: Asked, failure_score: float
) -> tuple[Any, float, str, str | None]:
    """(result, value, feedback, error) of one metric; never raises."""
    if asked.error is not None:
        return None, failure_score, f"The program failed: {asked.error}", asked.error
    try:
        result = metric(example, asked.prediction)
        value = float(result)
    except Exception as raised:  # noqa: BLE001 - one question can never end a batch
        error = f"{metric_name(metric)} failed: {cause_of(raised, metric, limit=500)}"
        return None, failure_score, error, error
    if value != value or abs(value) == float("inf"):
        error = f"{metric_name(metric)} gave {value}"
        return None, failure_score, error, error
    return result, value, str(getattr(result, "feedback", "") or ""), None


@contextmanager
def paid_for() -> Iterator[None]:
    """Within, a call that a cap refused ends the work with `BudgetSpentError`, whoever caught it: a question that
    could not be asked or judged to its end has no result to keep, and is asked again when the work goes on.
    """
    with refusals() as refused:
        yield
    if refused:
        raise refused[0]


def described(example: dspy.Example, asked: Asked, traces: bool) -> dict[str, Any]:
    """What every stored result says about a question and its answer."""
    prediction = asked.prediction
    action = action_of(prediction)
    trace = field_of(prediction, "trace")
    return {
        "question": str(example.get("question", "")),
        "answers": example.get("answers", example.get("answer")),
        "answer": answer_of(prediction),
        "failed": failure_of(prediction),
        "action": action.value if action else None,
        "grounded": field_of(prediction, "grounded"),
        "warnings": strings_of(prediction, "warnings"),
        "cost": asked.cost.to_json(),
        "cached": asked.cached,
        "trace": trace.to_json() if traces and hasattr(trace, "to_json") else None,
    }
