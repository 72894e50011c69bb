"""What a program promises to those around it: callers, DSPy's usage, cache, streaming, copies and pickling."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import dspy
import pytest

from crag_dspy import CRAG, RAG, CorrectiveRetriever, LocalIndex, Passage
from crag_dspy.errors import ConfigError
from crag_dspy.plug.programs import as_tool

QUESTION = "When did the Ardent Bridge open?"
INSIDE = Passage("The Ardent Bridge opened in 1931. It is green.", id="in", title="Ardent Bridge")
PAGE = {"url": "https://web/1", "title": "Bridges", "content": "The Ardent Bridge opened on 5 May 1931."}


class Grader:
    """By a word, except for what it cannot judge."""

    name, fingerprint = "words", "words-1"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def score(self, question: str, texts: list[str]) -> list[float | None]:
        self.asked.append(list(texts))
        return [None if "?" in text else 0.9 if "opened" in text else -1.0 for text in texts]


def search(query: str, max_results: int) -> list[dict[str, str]]:
    return [PAGE]


def program(grader: Any = None, web: Any = search, **settings: Any) -> CRAG:
    return CRAG(lambda query, k: [INSIDE], grader or Grader(), web, **settings)


# Arguments


def test_an_unknown_action_is_refused_before_any_work() -> None:
    grader = Grader()
    with pytest.raises(ConfigError, match="action must be one of correct, incorrect, ambiguous, got 'maybe'"):
        program(grader)(question=QUESTION, action="maybe")
    assert grader.asked == []


@pytest.mark.parametrize("given", [{"grader": Grader()}, {"search": search}])
def test_parts_that_would_be_ignored_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="grader and search must be given to the CorrectiveRetriever"):
        CRAG(CorrectiveRetriever([INSIDE], Grader()), **given)


@pytest.mark.parametrize("question", ["", None, 3])
def test_the_baselines_check_the_question_too(question: Any) -> None:
    with pytest.raises(ConfigError, match="question must be a non-empty str"):
        RAG([INSIDE])(question=question)


# Evidence


def test_a_page_that_says_what_a_passage_says_is_shown_once(scripted_lm: Callable[..., Any]) -> None:
    def same(query: str, max_results: int) -> list[dict[str, str]]:
        return [{"url": "https://web/1", "content": "the Ardent  Bridge opened in 1931. More opened later."}]

    with dspy.context(lm=scripted_lm({"answer": "1931", "query": "q"})):
        found = program(web=same)(question=QUESTION, action="ambiguous")
    assert [(strip.origin, strip.text) for strip in found.evidence] == [
        ("internal", "The Ardent Bridge opened in 1931."),
        ("web", "More opened later."),
    ]
    assert "the Ardent  Bridge opened in 1931." in [strip.text for strip in found.trace.dropped]


@pytest.mark.parametrize("text", ["The Ardent Bridge opened in 1931. Why?", "Why? Who?"])
def test_strips_graded_for_the_decision_are_not_graded_again(
    scripted_lm: Callable[..., Any], text: str
) -> None:
    """Not even those that the grader could not judge."""
    grader = Grader()
    crag = CRAG(lambda query: [text], grader, search, grade_by="strips")
    with dspy.context(lm=scripted_lm({"answer": "1931", "query": "q"})):
        crag(question=QUESTION)
    asked = [asked for texts in grader.asked for asked in texts]
    assert len(asked) == len(set(asked))


class Plain(dspy.Module):
    """A generator as people write them: no `aforward`."""

    def __init__(self) -> None:
        super().__init__()
        self.respond = dspy.Predict("context, question -> answer")

    def forward(self, context: str, question: str) -> dspy.Prediction:
        return self.respond(context=context, question=question)


def test_a_generator_without_aforward_answers_in_async(scripted_lm: Callable[..., Any]) -> None:
    crag = CRAG([INSIDE], Grader(), generate=Plain())
    with dspy.context(lm=scripted_lm({"answer": "1931"})):
        assert asyncio.run(crag.acall(question=QUESTION)).answer == "1931"


# Plain data


def test_a_prediction_is_plain_data_where_dspy_asks_for_it(
    scripted_lm: Callable[..., Any], tmp_path: Path
) -> None:
    """`Evaluate(save_as_json=...)` writes what `Prediction.toDict` gives, after every question has been paid for."""
    example = dspy.Example(question=QUESTION, answers=["1931"]).with_inputs("question")
    path = tmp_path / "results.json"
    with dspy.context(lm=scripted_lm({"answer": "1931", "query": "q"})):
        evaluate = dspy.Evaluate(
            devset=[example],
            metric=lambda example, pred: float("1931" in pred.answer),
            save_as_json=str(path),
        )
        evaluate(program())
    [row] = json.loads(path.read_text())
    assert (row["answer"], row["action"]) == ("1931", "correct")
    assert row["evidence"][0]["id"] == "in"
    assert row["trace"]["scores"] == [0.9]


# Usage and cache


def test_calls_and_tokens_are_counted_once_and_reach_the_caller(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm({"answer": "1931", "query": "q"})
    for call in (program(), lambda **inputs: asyncio.run(program().acall(**inputs))):
        with dspy.context(lm=lm, track_usage=True):
            found = call(question=QUESTION, action="ambiguous")
        [usage] = found.get_lm_usage().values()
        assert found.trace.lm_calls == 2
        assert found.trace.lm_tokens == {name: usage[name] for name in ("prompt_tokens", "completion_tokens")}


def test_cached_replies_are_no_calls(scripted_lm: Callable[..., Any], tmp_path: Path) -> None:
    lm = scripted_lm({"answer": "1931"}, cache=True)
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    try:
        with dspy.context(lm=lm):
            calls = [program()(question=QUESTION).trace.lm_calls for _ in range(2)]
    finally:
        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    assert calls == [1, 0]


# Streaming: field case 20


async def streamed(crag: CRAG) -> tuple[list[str], list[dspy.Prediction]]:
    class Messages(dspy.streaming.StatusMessageProvider):
        def module_start_status_message(self, instance: Any, inputs: dict[str, Any]) -> str:
            return type(instance).__name__

    stream = dspy.streamify(crag, status_message_provider=Messages(), is_async_program=True)
    items = [item async for item in stream(question=QUESTION, action="ambiguous")]
    said = [item.message for item in items if isinstance(item, dspy.streaming.StatusMessage)]
    return said, [item for item in items if isinstance(item, dspy.Prediction)]


def test_an_async_program_streams_its_steps_and_leaves_the_loop_free(scripted_lm: Callable[..., Any]) -> None:
    """The search waits for something that only the event loop can do: a blocked loop would never get there."""
    loop_ran = threading.Event()

    def waiting(query: str, max_results: int) -> list[dict[str, str]]:
        assert loop_ran.wait(20)
        return [PAGE]

    async def main() -> tuple[list[str], list[dspy.Prediction]]:
        asyncio.get_running_loop().call_later(0.01, loop_ran.set)
        return await asyncio.wait_for(streamed(program(web=waiting)), 30)

    with dspy.context(lm=scripted_lm({"answer": "1931", "query": "q"})):
        said, [found] = asyncio.run(main())
    assert {"CRAG", "CorrectiveRetriever", "Retrieve", "Grade", "Search", "Predict"} <= set(said)
    assert said.index("Retrieve") < said.index("Grade") < said.index("Search")
    assert (found.answer, len(found.evidence)) == ("1931", 2)


def test_an_async_agent_calls_the_tool_without_blocking_the_loop(scripted_lm: Callable[..., Any]) -> None:
    loop_ran = threading.Event()

    def waiting(query: str, k: int) -> list[Passage]:
        assert loop_ran.wait(20)
        return [INSIDE]

    async def main() -> str:
        asyncio.get_running_loop().call_later(0.01, loop_ran.set)
        tool = as_tool(CorrectiveRetriever(waiting, Grader()))
        return await asyncio.wait_for(tool.acall(question=QUESTION), 30)

    with dspy.context(lm=scripted_lm({})):
        assert "opened in 1931" in asyncio.run(main())


# Copies and pickling: field case 21


def test_programs_tools_and_traces_pickle(scripted_lm: Callable[..., Any], tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", embedder=None)
    index.add([INSIDE])
    crag = CRAG(index, Grader(), index)
    agent = dspy.ReAct("question -> answer", tools=[as_tool(crag.corrective)])
    with dspy.context(lm=scripted_lm({"answer": "1931"})):
        found = crag(question=QUESTION)
        again = cloudpickle.loads(cloudpickle.dumps(crag))
        assert again(question=QUESTION).evidence == found.evidence
    assert cloudpickle.loads(cloudpickle.dumps(found)).trace.to_json() == found.trace.to_json()
    assert set(cloudpickle.loads(cloudpickle.dumps(agent)).tools) == set(agent.tools)
