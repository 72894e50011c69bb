"""A call is a call, also of a model that does not say what it took."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import dspy
import pytest
from dspy.lm15 import Usage

from crag_dspy import CRAG, RAG, Passage
from crag_dspy.usage import track_calls

INSIDE = Passage("The Ardent Bridge opened in 1931.", id="in")
QUESTION = "When did the Ardent Bridge open?"


class Half:
    name = fingerprint = "half"

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        return [0.0 for _ in texts]


@pytest.fixture
def silent_lm(scripted_lm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Answers, and reports no usage."""
    lm = scripted_lm({"answer": "1931", "query": "q"})
    complete = lm.engine.complete
    monkeypatch.setattr(
        lm.engine, "complete", lambda request: dataclasses.replace(complete(request), usage=Usage())
    )
    return lm


def crag() -> CRAG:
    return CRAG(lambda query, k: [INSIDE], Half(), lambda query, max_results: ["It opened in May 1931."])


def test_calls_without_usage_are_counted(silent_lm: Any) -> None:
    asynchronous = lambda program: asyncio.run(program.acall(question=QUESTION))  # noqa: E731
    with dspy.context(lm=silent_lm):
        for ask in (lambda program: program(question=QUESTION), asynchronous):
            trace = ask(crag()).trace
            assert (trace.lm_calls, trace.lm_tokens) == (2, {})
            assert ask(RAG([INSIDE])).trace.lm_calls == 1
    assert len(silent_lm.requests) == 6


def test_trackers_around_get_what_was_counted(scripted_lm: Any, silent_lm: Any) -> None:
    with track_calls() as calls, dspy.context(lm=silent_lm):
        crag()(question=QUESTION)
    assert len(calls.entries) == 2
    with dspy.track_usage() as dspys, dspy.context(lm=scripted_lm({"answer": "1931", "query": "q"})):
        found = crag()(question=QUESTION)
    [total] = dspys.get_total_tokens().values()
    assert total["prompt_tokens"] == found.trace.lm_tokens["prompt_tokens"] > 0


def test_the_call_that_failed_is_none_of_them(scripted_lm: Any) -> None:
    lm = scripted_lm({"answer": "1931"}, raises={0: ConnectionError("down")})
    predict = dspy.Predict("question -> answer")
    with track_calls() as calls, dspy.context(lm=lm):
        with pytest.raises(Exception, match="down"):
            predict(question="q")
        predict(question="q")
    assert len(calls.entries) == 1
