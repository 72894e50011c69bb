"""LMGrader: one verdict a text, and one text's failure is that text's alone."""

from __future__ import annotations

import copy
import logging
import threading
from typing import Any

import dspy
import pytest

from crag_dspy.contracts import Grader
from crag_dspy.errors import GraderError
from crag_dspy.graders.lm import LMGrader
from crag_dspy.live.notes import notes


def about_cats(request: Any) -> str:
    return "Yes." if "cat" in request.inputs["passage"] else "No, unrelated"


def test_scores_follow_the_verdicts_in_order(scripted_lm: Any) -> None:
    grader = LMGrader(scripted_lm({"verdict": about_cats}))

    assert isinstance(grader, Grader)
    assert grader.score("what do cats eat", ["dogs", "a cat", "birds", "cats"]) == [-1.0, 1.0, -1.0, 1.0]


def test_an_unreadable_verdict_is_unknown_and_not_irrelevant(scripted_lm: Any) -> None:
    replies = {"a": "I think so", "b": "42 degrees", "c": "否"}
    grader = LMGrader(scripted_lm({"verdict": lambda request: replies[request.inputs["passage"]]}))

    with notes() as told:
        assert grader.score("q", ["a", "b", "c"]) == [1.0, None, -1.0]
    assert told == [
        "grader lm:scripted/by-field gave no verdict that can be read for 1 of 3 texts, such as '42 degrees': "
        "they count as not judged"
    ]


def test_the_model_of_the_settings_is_used_in_every_thread(scripted_lm: Any) -> None:
    lm = scripted_lm({"verdict": about_cats})
    grader = LMGrader(threads=4)

    with dspy.context(lm=lm):
        assert grader.name == "lm:scripted/by-field"
        assert grader.score("q", [f"text {i}" for i in range(12)]) == [-1.0] * 12
    assert len(lm.requests) == 12


def test_texts_are_asked_about_at_the_same_time(scripted_lm: Any) -> None:
    together = threading.Barrier(3, timeout=30)  # passes only when three calls wait at once

    def verdict(request: Any) -> str:
        together.wait()
        return "yes"

    assert LMGrader(scripted_lm({"verdict": verdict}), threads=3).score("q", ["a", "b", "c"]) == [1.0] * 3


def test_equal_texts_are_asked_about_once_and_empty_ones_never(scripted_lm: Any) -> None:
    lm = scripted_lm({"verdict": "yes"})

    assert LMGrader(lm).score("q", ["a", "  ", "a", ""]) == [1.0, -1.0, 1.0, -1.0]
    assert len(lm.requests) == 1


def test_a_text_that_fails_is_unknown_and_the_rest_is_judged(
    scripted_lm: Any, caplog: pytest.LogCaptureFixture
) -> None:
    lm = scripted_lm({"verdict": "yes"}, raises={1: RuntimeError("connection reset")})

    with caplog.at_level(logging.WARNING):
        scores = LMGrader(lm, threads=1).score("q", ["a", "b", "c"])

    assert sorted(scores, key=str) == [1.0, 1.0, None]
    assert "failed on 1 of 3 texts" in caplog.text


def test_when_every_text_fails_it_raises_and_says_why(scripted_lm: Any) -> None:
    lm = scripted_lm({"verdict": RuntimeError("no such model")})

    with pytest.raises(GraderError, match="no such model"):
        LMGrader(lm).score("q", ["a", "b"])


def test_without_any_model_it_says_what_to_do() -> None:
    with dspy.context(lm=None), pytest.raises(GraderError, match=r"dspy\.configure"):
        LMGrader().score("q", ["a"])


def test_its_prompt_belongs_to_the_program_that_holds_it_and_is_saved_with_it(tmp_path: Any) -> None:
    grader = LMGrader()
    before = grader.fingerprint
    grader.judge.signature = grader.judge.signature.with_instructions("Is the passage of use?")

    assert [name for name, _ in grader.named_predictors()] == ["judge"]
    assert grader.fingerprint != before
    assert copy.deepcopy(grader).fingerprint == grader.fingerprint
    grader.save(tmp_path / "grader.json")
    loaded = LMGrader()
    loaded.load(tmp_path / "grader.json")
    assert loaded.judge.signature.instructions == "Is the passage of use?"


def test_it_is_a_tool(scripted_lm: Any) -> None:
    tool = LMGrader(scripted_lm({"verdict": about_cats})).as_tool()

    assert tool.name == "grade_relevance"
    assert tool(question="q", texts=["a cat", "a dog"]) == [1.0, -1.0]
