"""`crag-dspy ask`, whole: a configuration file, an index on disk and a scripted language model."""

from __future__ import annotations

import io
import json
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from crag_dspy.commands import cli
from crag_dspy.retrievers.local import LocalIndex

QUESTION = "When was the tower begun?"
FIELDS = (
    "question",
    "answer",
    "failed",
    "action",
    "grounded",
    "confidence",
    "supported_by",
    "evidence",
    "knowledge",
    "queries",
    "warnings",
    "trace",
)


def by_words(question: str, texts: Sequence[str]) -> list[float]:
    words = [word.strip("?").lower() for word in question.split() if len(word) > 4]
    return [1.0 if any(word in text.lower() for word in words) else -1.0 for text in texts]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripted_lm: Any) -> Path:
    LocalIndex.create(tmp_path / "docs", embedder=None).add(
        [{"id": "t", "title": "Tower", "text": "The tower was begun in 1173. [red]It leans.[/red]"}]
    )
    parts = types.ModuleType("parts_for_ask")
    parts.by_words = by_words  # type: ignore[attr-defined]
    parts.lm = scripted_lm({"answer": "1173 [1]"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "parts_for_ask", parts)
    path = tmp_path / "crag.toml"
    path.write_text(
        "[retriever]\npath = 'docs'\n[grader]\nkind = 'python:parts_for_ask:by_words'\n"
        "[lm]\nkind = 'python:parts_for_ask:lm'\n[settings]\nupper = 0.5\nlower = -0.5\n",
        encoding="utf-8",
    )
    return path


def test_one_json_object_a_question(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ask", QUESTION, "Wer war das?", "--config", str(config), "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert tuple(first) == FIELDS == tuple(second)
    assert (first["answer"], first["action"], first["grounded"]) == ("1173 [1]", "correct", True)
    assert first["evidence"][0]["text"] == "The tower was begun in 1173."
    assert first["trace"]["cited"] == [1]
    assert (second["action"], second["grounded"]) == ("incorrect", False)
    assert "no web search is configured" in second["warnings"][0]


def test_a_person_reads_what_happened(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ask", QUESTION, "--config", str(config)]) == 0
    shown = capsys.readouterr().out
    for part in (QUESTION, "action CORRECT", "[1] +1.00", "The tower was begun in 1173.", "answer 1173 [1]"):
        assert part in shown
    assert "[red]It leans.[/red]" in shown  # a document cannot style the terminal


def test_questions_are_read_from_stdin_a_line_each(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"\n{QUESTION}\n   \n{QUESTION}\n"))
    assert cli.main(["ask", "--config", str(config), "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_branch_can_be_given(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ask", QUESTION, "--config", str(config), "--action", "incorrect", "--json"]) == 0
    answered = json.loads(capsys.readouterr().out)
    assert (answered["action"], answered["trace"]["forced"]) == ("incorrect", True)


def test_a_saved_program_brings_its_settings(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from crag_dspy.config.reading import build, load_config

    crag = build(load_config(config))
    crag.settings.update({"upper": 1.0, "lower": 1.0, "k": 1, "strip_threshold": 1.0})
    crag.save(str(config.parent / "crag.json"))
    arguments = [
        "ask",
        QUESTION,
        "--config",
        str(config),
        "--program",
        str(config.parent / "crag.json"),
        "--json",
    ]
    assert cli.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["trace"]["thresholds"] == {"upper": 1.0, "lower": 1.0}


def test_an_index_on_the_command_line_takes_the_place_of_the_configured_one(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    LocalIndex.create(tmp_path / "others", embedder=None).add(
        [{"id": "o", "text": "Another tower, begun in 1902."}]
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["ask", QUESTION, "--config", str(config), "--index", "others", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evidence"][0]["id"] == "o"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([QUESTION], "nothing to retrieve from: give --config FILE"),
        ([QUESTION, "--index", "nowhere", "--lm", "openai/x"], "nowhere holds no index"),
        ([QUESTION, "--index", "docs"], "no language model: add"),
        (["When", "was", "it", "--index", "docs"], 'put a question in quotes, "When was it"'),
        ([" ", "--index", "docs"], "a question is empty"),
        ([QUESTION, "--config", "nothing.toml"], "cannot read the configuration nothing.toml"),
        ([QUESTION, "--config", "crag.toml", "--program", "none.json"], "none.json"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_asked(
    config: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(config.parent)
    assert cli.main(["ask", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_a_language_model_that_cannot_be_reached_is_no_refusal(
    config: Path, model_server: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evidence was found; who should read it was not there: status 1 and the cause."""
    parts = sys.modules["parts_for_ask"]
    monkeypatch.setattr(parts, "lm", model_server.lm())
    assert cli.main(["ask", QUESTION, "Wer war das?", "--config", str(config)]) == 1
    printed = capsys.readouterr()
    assert "FAILED language model: LMTransportError" in printed.out
    assert f"{QUESTION!r} failed: language model: LMTransportError" in printed.err
    assert (
        "1 of 2 questions failed" in printed.err
    )  # nothing was found for the other, so nothing had to be read

    assert cli.main(["ask", QUESTION, "--config", str(config), "--json"]) == 1
    answered = json.loads(capsys.readouterr().out)
    assert answered["failed"].startswith("language model: LMTransportError: ")
    assert answered["failed"] == answered["trace"]["failed"]
    assert answered["grounded"] is False

    model_server.open()
    assert cli.main(["ask", QUESTION, "--config", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] is None


def test_a_question_that_is_declined_did_not_fail(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ask", "Wer war das?", "--config", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] is None
