"""The whole flow with a scripted language model: three actions, two policies, sync and async, one story."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from crag_dspy import CRAG, CorrectiveRetriever, LMGrader, Passage
from crag_dspy.actions import Action
from crag_dspy.errors import ConfigError
from crag_dspy.text.replies import is_abstention

QUESTION = "When did the Ardent Bridge open?"
RELEVANT = Passage(
    "The Ardent Bridge opened in 1931. It is painted green.",
    id="a",
    title="Ardent Bridge",
    url="https://kb/a",
)
DOUBTFUL = Passage(
    "The Ardent ferry was unsure of its future. Fog is common.", id="b", title="Ferry", url="https://kb/b"
)
OTHER = Passage("Cats sleep most of the day.", id="c", title="Cats", url="https://kb/c")
PAGE = {
    "title": "Bridges",
    "url": "https://web/1",
    "content": "The Ardent Bridge opened on 5 May 1931. Buy tickets.",
}


class WordGrader:
    """Relevance by a word, so that a test says which passages are relevant: "opened", "unsure", anything else."""

    name, fingerprint = "words", "words-1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def score(self, question: str, texts: list[str]) -> list[float | None]:
        self.asked.append(question)
        return [0.9 if "opened" in text else 0.0 if "unsure" in text else -1.0 for text in texts]


class Web:
    def __init__(self) -> None:
        self.queries: list[str] = []

    def search(self, query: str, max_results: int) -> dict[str, Any]:
        self.queries.append(query)
        return {"results": [PAGE]}


def ask(program: dspy.Module, lm: dspy.LM, how: str, **inputs: Any) -> dspy.Prediction:
    with dspy.context(lm=lm):
        if how == "sync":
            return program(**inputs)
        return asyncio.run(program.acall(**inputs))


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("policy", ["max", "vote"])
@pytest.mark.parametrize(
    ("passages", "actions", "origins", "searches"),
    [
        ([RELEVANT, OTHER], {"max": "correct", "vote": "correct"}, ["internal"], 0),
        ([OTHER], {"max": "incorrect", "vote": "incorrect"}, ["web"], 1),
        ([RELEVANT, DOUBTFUL], {"max": "correct", "vote": "ambiguous"}, None, None),
        ([DOUBTFUL, OTHER], {"max": "ambiguous", "vote": "incorrect"}, None, 1),
    ],
)
def test_every_action_has_its_path(
    scripted_lm: Callable[..., Any],
    how: str,
    policy: str,
    passages: list[Passage],
    actions: dict[str, str],
    origins: list[str] | None,
    searches: int | None,
) -> None:
    web, lm = Web(), scripted_lm({"answer": "1931", "query": "Ardent Bridge opening date"})
    program = CRAG(passages, WordGrader(), web, policy=policy, upper=0.5, lower=-0.5)
    prediction = ask(program, lm, how, question=QUESTION)

    assert prediction.action == actions[policy]
    assert prediction.answer == "1931"
    assert prediction.grounded is True
    found = [strip.origin for strip in prediction.evidence]
    expected = {"correct": ["internal"], "incorrect": ["web"], "ambiguous": ["internal", "web"]}[
        prediction.action
    ]
    assert set(found) <= set(expected)
    assert found == sorted(found)  # "internal" before "web"
    if origins is not None:
        assert found == origins
    if searches is not None:
        assert len(web.queries) == searches
    assert all("tickets" not in strip.text and "green" not in strip.text for strip in prediction.evidence)


def test_ambiguous_shows_two_labelled_sections(scripted_lm: Callable[..., Any]) -> None:
    program = CRAG([RELEVANT], WordGrader(), Web())
    lm = scripted_lm({"answer": "1931 [2]", "query": "q"})
    prediction = ask(program, lm, "sync", question=QUESTION, action="ambiguous")
    internal, web = prediction.knowledge.split("Web evidence")
    assert "[1] Ardent Bridge: The Ardent Bridge opened in 1931." in internal
    assert "[2] Bridges: The Ardent Bridge opened on 5 May 1931." in web
    assert lm.requests[-1].inputs["context"] == prediction.knowledge


@pytest.mark.parametrize("action", list(Action))
def test_generation_always_sees_the_original_question(
    scripted_lm: Callable[..., Any], action: Action
) -> None:
    """Field case 4."""
    lm = scripted_lm({"answer": "1931", "query": "keywords instead"})
    program = CRAG([RELEVANT], WordGrader(), Web())
    ask(program, lm, "sync", question=QUESTION, action=action)
    assert lm.requests[-1].inputs["question"] == QUESTION


@pytest.mark.parametrize(
    ("passages", "answered"),
    [
        ([], True),
        (["", "   ", "\n"], True),
        ([OTHER], True),
        ([RELEVANT, RELEVANT, RELEVANT], True),
    ],
)
def test_odd_retrievals_have_a_path(
    scripted_lm: Callable[..., Any], passages: list[Any], answered: bool
) -> None:
    """Field case 5: off-topic, empty, blank and duplicate passages."""
    lm = scripted_lm({"answer": "1931", "query": "ardent bridge"})
    prediction = ask(CRAG(lambda query: passages, WordGrader(), Web()), lm, "sync", question=QUESTION)
    assert prediction.grounded is answered
    texts = [strip.text for strip in prediction.evidence]
    assert len(texts) == len(set(texts))


def test_a_search_that_never_helps_is_tried_once(scripted_lm: Callable[..., Any]) -> None:
    """Field case 6: one bounded correction, then the evidence rule; no loop."""
    searches: list[str] = []

    def useless(query: str, max_results: int) -> list[str]:
        searches.append(query)
        return ["Dogs bark."]

    lm = scripted_lm({"answer": "unused", "query": "ardent bridge"})
    prediction = ask(CRAG([OTHER], WordGrader(), useless), lm, "sync", question=QUESTION)
    assert len(searches) == 1
    assert is_abstention(prediction.answer)
    assert prediction.grounded is False
    assert [request.fields for request in lm.requests] == [("query",)]  # no answer was asked of the model


def test_the_answer_rule_asks_the_model_all_the_same(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm({"answer": "1931", "query": "q"})
    program = CRAG([OTHER], WordGrader(), None, no_evidence="answer")
    prediction = ask(program, lm, "sync", question=QUESTION)
    assert (prediction.answer, prediction.grounded) == ("1931", False)


def test_a_chinese_question_abstains_in_chinese(scripted_lm: Callable[..., Any]) -> None:
    prediction = ask(CRAG([OTHER], WordGrader()), scripted_lm({}), "sync", question="大桥何时通车？")
    assert prediction.answer == "现有资料中没有答案。"


def test_web_search_and_internal_refinement_overlap(scripted_lm: Callable[..., Any]) -> None:
    """Both sides of an ambiguous question must be inside at once, or this waits for the barrier in vain."""
    both = threading.Barrier(2, timeout=20)

    class Meeting(WordGrader):
        def score(self, question: str, texts: list[str]) -> list[float | None]:
            if any(text.endswith("painted green.") and "opened" not in text for text in texts):  # strips
                both.wait()
            return super().score(question, texts)

    def search(query: str, max_results: int) -> list[dict[str, str]]:
        both.wait()
        return [PAGE]

    program = CRAG([RELEVANT], Meeting(), search)
    lm = scripted_lm({"answer": "1931", "query": "q"})
    prediction = ask(program, lm, "sync", question=QUESTION, action="ambiguous")
    assert [strip.origin for strip in prediction.evidence] == ["internal", "web"]


def test_citations_are_checked_after_filtering(scripted_lm: Callable[..., Any]) -> None:
    """Field case 28."""
    lm = scripted_lm({"answer": "It opened in 1931 [1] [16].", "query": "q"})
    prediction = ask(CRAG([OTHER, RELEVANT], WordGrader()), lm, "sync", question=QUESTION)
    assert prediction.answer == "It opened in 1931 [1]."
    assert prediction.trace.cited == [1]
    assert any("[16]" in warning and "1 source" in warning for warning in prediction.warnings)


def test_retriever_rank_is_not_relevance(scripted_lm: Callable[..., Any]) -> None:
    """Field case 15: junk that the retriever scores high stays out, whatever its score."""
    junk = Passage("A sandwich is made of bread.", score=99.0)
    program = CRAG(lambda query, k: [junk, RELEVANT], WordGrader())
    prediction = ask(program, scripted_lm({"answer": "1931"}), "sync", question=QUESTION)
    assert prediction.trace.scores == [-1.0, 0.9]
    assert [strip.passage.id for strip in prediction.evidence] == ["a"]


def test_grading_by_strips_reads_the_text_once(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm({"answer": "1931"})
    grader = WordGrader()
    program = CRAG([RELEVANT, OTHER], grader, grade_by="strips")
    prediction = ask(program, lm, "sync", question=QUESTION)
    assert prediction.action == "correct"
    assert prediction.trace.scores == [0.9, -1.0]
    assert len(grader.asked) == 1


def test_trace_is_plain_json_and_tells_the_story(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm({"answer": "1931", "query": "ardent bridge opened"})
    prediction = ask(
        CRAG([RELEVANT, OTHER], WordGrader(), Web()), lm, "async", question=QUESTION, action="ambiguous"
    )
    story = json.loads(json.dumps(prediction.trace.to_json(), allow_nan=False))
    assert story["question"] == QUESTION
    assert story["answer"] == "1931"
    assert story["forced"] is True
    assert story["scores"] == [0.9, -1.0]
    assert story["queries"] == ["ardent bridge opened"]
    assert [strip["origin"] for strip in story["kept"]] == ["internal", "web"]
    assert {strip["text"] for strip in story["dropped"]} >= {"It is painted green.", "Buy tickets."}
    assert story["lm_calls"] == 2
    assert set(story["seconds"]) == {"retrieve", "grade", "rewrite", "search", "generate"}


def test_copies_share_live_parts_and_not_settings() -> None:
    grader = WordGrader()
    program = CRAG([RELEVANT], grader)
    twin = program.deepcopy()
    twin.settings.upper = 0.9
    assert twin.corrective.retrieve.part is program.corrective.retrieve.part
    assert twin.settings.upper != program.settings.upper


def test_a_corrective_retriever_stands_alone(scripted_lm: Callable[..., Any]) -> None:
    found = ask(
        CorrectiveRetriever([RELEVANT, OTHER], WordGrader()), scripted_lm({}), "sync", question=QUESTION
    )
    assert found.passages == ["The Ardent Bridge opened in 1931."]
    assert found.action is Action.CORRECT


@pytest.mark.parametrize("question", ["", "  ", None, 3])
def test_a_question_must_be_text(question: Any) -> None:
    with pytest.raises(ConfigError, match="question"):
        CRAG([RELEVANT], WordGrader())(question=question)


def test_no_language_model_is_said_with_the_fix() -> None:
    with dspy.context(lm=None), pytest.raises(ConfigError, match=r"dspy\.configure\(lm="):
        CRAG([RELEVANT], WordGrader())(question=QUESTION)


def test_a_model_that_says_it_does_not_know_is_not_grounded(scripted_lm: Callable[..., Any]) -> None:
    prediction = ask(
        CRAG([RELEVANT], WordGrader()), scripted_lm({"answer": "I don't know."}), "sync", question=QUESTION
    )
    assert (prediction.answer, prediction.grounded) == ("I don't know.", False)


def test_an_endless_page_is_cut(scripted_lm: Callable[..., Any]) -> None:
    from crag_dspy.steps import MAX_CHARACTERS

    endless = "The Ardent Bridge opened in 1931. " + "x" * (3 * MAX_CHARACTERS)
    prediction = ask(
        CRAG(lambda query: [endless], WordGrader()),
        scripted_lm({"answer": "1931"}),
        "sync",
        question=QUESTION,
    )
    assert len(prediction.trace.passages[0].text) == MAX_CHARACTERS
    assert prediction.answer == "1931"


def test_verdicts_that_cannot_be_read_are_told_and_what_nobody_judged_grounds_nothing(
    scripted_lm: Any,
) -> None:
    lm = scripted_lm({"verdict": "Score: 7", "answer": "1931", "query": "bridge opened"})
    program = CRAG([RELEVANT], LMGrader(lm), strip_threshold=-1.0)
    with dspy.context(lm=lm):
        prediction = program(question=QUESTION, action="correct")
    assert prediction.evidence
    assert prediction.answer == "1931"
    assert not prediction.grounded
    told = [warning for warning in prediction.warnings if "gave no verdict that can be read" in warning]
    assert [re.findall(r"for (\d of \d) texts, such as 'Score: 7'", warning) for warning in told] == [
        ["1 of 1"],  # passages
        ["2 of 2"],  # strips
    ]
    assert (
        "no strip of the evidence was judged, so the answer does not count as grounded" in prediction.warnings
    )
