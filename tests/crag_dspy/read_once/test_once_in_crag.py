"""`grade_by="once"` in the whole program, with the shipped grader: stored, fresh and web passages alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest

from crag_dspy import CRAG, IndexSearch, LocalIndex, Passage
from crag_dspy.errors import ConfigError

QUESTION = "When was the Ardent Bridge finished?"
DOCUMENTS = [
    Passage(
        "The Ardent Bridge crosses the Mill near Holm. Joseph Aland designed it. It was finished in 1931.",
        id="bridge",
        title="Ardent Bridge",
    ),
    Passage("霍尔姆大桥横跨密尔河。它于一九三一年建成通车。桥上有四条车道。", id="zh", title="霍尔姆大桥"),
    Passage("Cats sleep for most of the day. They hunt at dusk.", id="cats", title="Cat"),
]
WEB = IndexSearch(
    [Passage("The toll of the Ardent Bridge is 3 crowns.", id="w", title="Tolls", url="https://w.example/")]
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> LocalIndex:
    return LocalIndex.build(tmp_path_factory.mktemp("once") / "index", DOCUMENTS, embedder="mini")


def test_a_strip_is_read_with_its_neighbours(index: LocalIndex, scripted_lm: Callable[..., Any]) -> None:
    """ "It was finished in 1931." says nothing of a bridge when it is read alone."""
    program = CRAG(index, grade_by="once", top_n=1, strip_threshold=-1.0, k=3)
    with dspy.context(lm=scripted_lm({"answer": "1931"})):
        found = program(question=QUESTION)
        again = asyncio.run(program.acall(question=QUESTION))
    assert [strip.text for strip in found.evidence] == ["It was finished in 1931."]
    assert [strip.score for strip in again.evidence] == [strip.score for strip in found.evidence]
    assert found.trace.passages[0].id == "bridge"
    assert max(found.trace.scores) == found.trace.scores[0]


def test_chinese_questions_find_and_grade_chinese(index: LocalIndex, scripted_lm: Callable[..., Any]) -> None:
    program = CRAG(index, grade_by="once", top_n=1, strip_threshold=-1.0, k=3)
    with dspy.context(lm=scripted_lm({"answer": "一九三一年"})):
        found = program(question="霍尔姆大桥是哪一年建成通车的？")
    assert [strip.text for strip in found.evidence] == ["它于一九三一年建成通车。"]


def test_what_is_stored_gives_what_reading_now_gives(
    index: LocalIndex, scripted_lm: Callable[..., Any]
) -> None:
    def bare(query: str) -> list[Passage]:
        return [replace(passage, vectors=None) for passage in index(query, k=3)]

    def foreign(query: str) -> list[Passage]:
        return [
            replace(p, vectors=replace(p.vectors, maker="another")) for p in index(query, k=3) if p.vectors
        ]

    scores = []
    for retrieve in (index, bare, foreign):
        program = CRAG(retrieve, grade_by="once", k=3)
        with dspy.context(lm=scripted_lm({"answer": "1931"})):
            trace = program(question=QUESTION).trace
        scores.append((trace.scores, [strip.score for strip in trace.kept]))
    assert scores[0] == scores[1] == scores[2]


def test_pages_of_the_web_are_read_once_too(index: LocalIndex, scripted_lm: Callable[..., Any]) -> None:
    program = CRAG(index, search=WEB, grade_by="once", strip_threshold=-1.0, top_n=1)
    with dspy.context(lm=scripted_lm({"answer": "3 crowns", "query": "toll Ardent Bridge"})):
        found = program(question="What is the toll of the Ardent Bridge?", action="incorrect")
    assert [(strip.origin, strip.passage.id) for strip in found.evidence] == [("web", "w")]
    assert all(strip.score is not None for strip in found.evidence)


def test_a_grader_that_cannot_is_named(scripted_lm: Callable[..., Any]) -> None:
    def grade(question: str, texts: list[str]) -> list[float]:
        return [0.5] * len(texts)

    program = CRAG(["a text"], grader=grade, grade_by="once")
    with (
        dspy.context(lm=scripted_lm({"answer": "x"})),
        pytest.raises(ConfigError, match="needs a grader that reads passages once"),
    ):
        program(question="What?")


def test_settings_with_it_are_saved_and_loaded(index: LocalIndex, tmp_path: Path) -> None:
    CRAG(index, grade_by="once").save(tmp_path / "crag.json")
    program = CRAG(index)
    program.load(tmp_path / "crag.json")
    assert program.settings.grade_by == "once"
