"""Published question files: one reader for what measures and what trains."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.questions import read_corpus, read_known
from crag_dspy.files.squad import by_article, read_squad
from crag_dspy.optimize.questions.datasets import load

TOWER = "  Smeaton built the tower. It was of stone.\n"
ASKED = {"id": "q1", "question": "Who built it?", "answers": [{"text": "Smeaton", "answer_start": 2}]}
EMPTY = {"id": "q2", "question": " ", "answers": []}
ARTICLES = [
    {"title": "Tower", "paragraphs": [{"context": TOWER, "qas": [ASKED, EMPTY]}, {"context": "A quay."}]},
    {"title": "Tower", "paragraphs": [{"id": "own", "context": "Another tower.", "qas": []}]},
    {"paragraphs": [{"context": "没有标题。", "qas": [{"question": "有标题吗？", "answers": []}]}]},
]


def written(folder: Path, data: Any) -> Path:
    path = folder / "set.json"
    path.write_text(json.dumps(data), encoding="utf-8-sig")
    return path


def test_a_paragraph_is_read_as_it_stands(tmp_path: Path) -> None:
    first, second, third, last = read_squad(written(tmp_path, {"data": ARTICLES}))
    (answer,) = first.questions[0]["answers"]
    assert first.text[answer["answer_start"] :].startswith(answer["text"])  # places in it still hold
    assert [each.id for each in (first, second, third, last)] == ["Tower#0", "Tower#1", "own", "2#0"]
    assert [each.document for each in (first, third, last)] == ["Tower", "Tower", "2#0"]
    assert [len(article) for article in by_article([first, second, third, last])] == [2, 1, 1]


def test_a_question_that_asks_nothing_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = read_squad(written(tmp_path, {"data": ARTICLES}))[0]
    with caplog.at_level(logging.WARNING):
        assert [row["id"] for row in first.asked()] == ["q1"]
    assert "paragraph Tower#0: question q2 is empty" in caplog.text


def test_measuring_and_training_read_the_same_questions_and_passages(tmp_path: Path) -> None:
    path = written(tmp_path, {"data": ARTICLES})
    measured, known, corpus = load(path), read_known(path), {each.id: each for each in read_corpus(path)}
    assert [(each.question, tuple(each.answers), tuple(each.relevant_ids)) for each in measured] == [
        (each.question, each.answers, each.relevant_ids) for each in known
    ]
    assert [corpus[each.relevant_ids[0]].metadata["document"] for each in measured] == [
        each.document for each in measured
    ]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ([], "a list `data` of articles"),
        ({"data": [{"paragraphs": {}}]}, r"data\[0\] has no list `paragraphs`"),
        ({"data": [{"paragraphs": [{"context": " "}]}]}, r"data\[0\]\.paragraphs\[0\]\.context .* got ' '"),
        (
            {"data": [{"paragraphs": [{"context": "a", "qas": ["q"]}]}]},
            r"paragraphs\[0\]\.qas .* got \['q'\]",
        ),
    ],
)
def test_what_is_not_squad_is_refused_with_its_place(tmp_path: Path, data: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=f"set.json: .*{named}"):
        read_squad(written(tmp_path, data))


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_squad(tmp_path / "none.json")
    (tmp_path / "set.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 0"):
        read_squad(tmp_path / "set.json")
