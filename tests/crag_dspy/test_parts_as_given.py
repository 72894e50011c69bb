"""What a caller passes is used as it is meant, and stays the caller's."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dspy
import pytest

from crag_dspy import CRAG, RAG, CorrectiveRetriever, Passage, SelfCRAG, Thresholds, as_grader
from crag_dspy.actions import Action, decide
from crag_dspy.contracts import Grader, PairsGrader, TunedGrader
from crag_dspy.errors import ConfigError
from crag_dspy.flow import Call, drive
from crag_dspy.live.notes import note, notes
from crag_dspy.refine import select, strips_of
from crag_dspy.self_rag.reflective import SelfReflective

QUESTION = "When did the Ardent Bridge open?"
INSIDE = Passage("The Ardent Bridge opened in 1931. It is green.", id="in", title="Ardent Bridge")
PAGE = {"url": "https://web/1", "title": "Bridges", "content": "Cats sleep. Dogs bark."}


def grade(question: str, texts: list[str]) -> list[float]:
    return [0.9 if "opened" in text else -1.0 for text in texts]


class OnlyScores:
    """As people write graders."""

    def score(self, question: str, texts: list[str]) -> list[float]:
        return grade(question, texts)


def test_an_object_with_a_score_alone_is_a_grader() -> None:
    grader = as_grader(OnlyScores())
    assert isinstance(grader, Grader)
    assert grader.name == "OnlyScores"
    assert grader.fingerprint == as_grader(OnlyScores()).fingerprint != as_grader(grade).fingerprint
    assert grader.score(QUESTION, ["It opened.", "Cats."]) == [0.9, -1.0]
    assert copy.deepcopy(grader) is grader
    with pytest.raises(TypeError, match="the class OnlyScores"):
        as_grader(OnlyScores)


def test_what_a_grader_may_also_have_is_a_contract() -> None:
    mini = as_grader("mini")
    assert isinstance(mini, TunedGrader)
    assert isinstance(mini, PairsGrader)
    assert not isinstance(as_grader(grade), TunedGrader)


@pytest.mark.parametrize("kind", [CRAG, SelfCRAG, CorrectiveRetriever])
def test_thresholds_are_given_as_one(kind: Any) -> None:
    settings = kind([INSIDE], grade, thresholds=Thresholds(0.3, -0.2)).settings
    assert (settings.upper, settings.lower) == (0.3, -0.2)
    with pytest.raises(ConfigError, match="give thresholds, or upper, not both"):
        kind([INSIDE], grade, thresholds=Thresholds(0.3, -0.2), upper=0.4)
    with pytest.raises(ConfigError, match=r"thresholds must be Thresholds\(upper, lower\), got 0.3"):
        kind([INSIDE], grade, thresholds=0.3)


def test_the_callers_objects_stay_as_they_are() -> None:
    retriever = CorrectiveRetriever([INSIDE], grade, k=7)
    assert CRAG(retriever, k=3).settings.k == 3
    assert retriever.settings.k == 7
    assert CRAG(retriever).corrective is retriever
    generator = SelfReflective()
    assert SelfCRAG([INSIDE], grade, generate=generator, w_support=3.0).generate.settings.w_support == 3.0
    assert generator.settings.w_support == 1.0


@pytest.mark.parametrize("name", ["id", "title", "url"])
@pytest.mark.parametrize("value", [None, 3, ["a"]])
def test_the_names_of_a_passage_are_texts(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"Passage.{name} must be a str, got {type(value).__name__}"):
        Passage("text", **{name: value})
    with pytest.raises(TypeError, match=r"Passage.score must be a number or None, got str"):
        Passage("text", score="0.5")  # type: ignore[arg-type]


def test_the_same_text_under_two_titles_is_two_passages(scripted_lm: Callable[..., Any]) -> None:
    """The second has the answer, and the grader knows it by its title."""
    text = "It opened in 1931."
    passages = [Passage(text, title="North Bridge"), Passage(text, title="South Bridge"), Passage(text)]
    asked: list[str] = []

    def by_title(question: str, texts: list[str]) -> list[float]:
        asked.extend(texts)
        return [0.9 if "South" in text else -1.0 for text in texts]

    with dspy.context(lm=scripted_lm({"answer": "1931"})):
        found = CRAG(lambda query, k: passages, by_title)(question="When did the South Bridge open?")
    assert [passage.title for passage in found.trace.passages] == ["North Bridge", "South Bridge", ""]
    assert [strip.passage.title for strip in found.evidence] == ["South Bridge"]
    # The title is shown to the grader, with the passage and with each of its strips, unless the text has it.
    assert asked[:3] == ["North Bridge: It opened in 1931.", "South Bridge: It opened in 1931.", text]
    assert len(asked) == 6


def test_a_score_exactly_at_a_cut_is_on_its_outer_side() -> None:
    cuts = Thresholds(0.5, -0.5)
    assert decide([0.5], cuts, "vote") is Action.CORRECT
    assert decide([0.5, -0.5], cuts, "vote") is Action.CORRECT
    assert decide([0.5, -0.4999], cuts, "vote") is Action.AMBIGUOUS
    assert decide([-0.5], cuts, "max") is Action.INCORRECT
    strips = strips_of([Passage("One. Two.")], "internal")
    scored = [replace(strips[0], score=0.2), replace(strips[1], score=0.1999)]
    assert [strip.text for strip in select(scored, 0.2, 5)] == ["One."]


@pytest.mark.parametrize(("pages", "origins"), [([PAGE], []), ([], ["internal"])])
def test_a_page_whose_strips_are_all_rejected_is_not_no_page(
    scripted_lm: Callable[..., Any], pages: list[Any], origins: list[str]
) -> None:
    """What was retrieved was judged incorrect: it comes back only where the search brought nothing at all."""
    crag = CRAG([INSIDE], grade, lambda query, max_results: pages, actions="incorrect")
    with dspy.context(lm=scripted_lm({"answer": "1931", "query": "bridge"})):
        found = crag(question=QUESTION)
    assert [strip.origin for strip in found.evidence] == origins


def test_the_seconds_of_a_step_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from crag_dspy import trace as module
    from crag_dspy.trace import Trace

    ticks = iter([0.0, 1.0, 10.0, 12.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(ticks))
    trace = Trace(QUESTION, Thresholds(), "max")
    for _ in range(2):
        with trace.timed("grade"):
            pass
    assert trace.seconds == {"grade": 3.0}


def test_without_a_time_limit_parts_are_called_in_the_callers_thread(scripted_lm: Callable[..., Any]) -> None:
    threads = []

    def here(query: str, k: int) -> list[Passage]:
        threads.append(threading.current_thread())
        return [INSIDE]

    with dspy.context(lm=scripted_lm({"answer": "1931"})):
        CRAG(here, grade, time_limit=0)(question=QUESTION)
        RAG(here, time_limit=0)(question=QUESTION)
    assert threads == [threading.current_thread()] * 2


def test_what_a_part_notes_is_told_to_who_asked_and_logged_otherwise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def part() -> int:
        note("left one out")
        note("left one out")
        return 1

    def flow(call: Call) -> Any:
        return (yield call)

    for seconds in (0, 20):
        told: list[str] = []
        assert drive(flow(Call(part).within(seconds, told.append))) == 1
        assert told == ["left one out"]
    with notes() as inner:
        part()
    assert inner == ["left one out"]
    with caplog.at_level(logging.WARNING):
        part()
    assert "left one out" in caplog.text
