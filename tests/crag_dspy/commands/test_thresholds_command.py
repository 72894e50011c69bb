"""`crag-dspy thresholds`, on a configuration whose parts are Python objects."""

from __future__ import annotations

import json
import re
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command

from crag_dspy.errors import ConfigError, StaleOutcomesError

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
[retriever]
kind = "python:capitals_parts:retrieve"
[grader]
kind = "python:capitals_parts:grader"
[search]
kind = "python:capitals_parts:search"
[lm]
kind = "python:capitals_parts:lm"
[settings]
k = 1
web_results = 1
strip_threshold = -1.0
upper = -0.95
lower = -0.95
"""


@pytest.fixture
def command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capitals_program: Any,
    capitals_devset: Any,
    capitals_script: Any,
    scripted_lm: Any,
) -> Any:
    """Run the command in a folder that has crag.toml and dev.jsonl; gives back the language model."""
    corrective = capitals_program().corrective
    parts = types.ModuleType("capitals_parts")
    parts.retrieve = corrective.retrieve.part  # type: ignore[attr-defined]
    parts.grader = corrective.grade.part  # type: ignore[attr-defined]
    parts.search = corrective.search.part  # type: ignore[attr-defined]
    parts.lm = scripted_lm(capitals_script)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "capitals_parts", parts)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crag.toml").write_text(CONFIG)
    rows = [json.dumps(example.toDict()) for example in capitals_devset]
    (tmp_path / "dev.jsonl").write_text("\n".join(rows))

    def invoke(*arguments: str) -> Any:
        assert run_command("thresholds", "dev.jsonl", "--config", "crag.toml", *arguments) == 0
        return parts.lm  # type: ignore[attr-defined]

    return invoke


def test_it_prints_the_optimum_the_interval_the_frontier_and_the_runs(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command("--folds", "3")
    out = capsys.readouterr().out
    assert "upper 0.4000  (anything from 0.2000 to 0.6000 is as good)" in out
    assert "contains_word 1.000 on the 6 questions that chose them, the best of all thresholds" in out
    assert "cross-validated" in out
    assert "6 questions find a difference of " in out
    assert "the old thresholds are kept." in out
    assert "runs of the program: 18 for 6 questions (18 now)" in out
    assert "a 50 x 50 grid would have taken 15000 runs" in out
    frontier = out[out.index("bought by web searches") :].splitlines()[3:]
    assert frontier[0].split()[:3] == ["0", "(0%)", "0.333"]
    assert frontier[-1].split()[:3] == ["4", "(67%)", "1.000"]


def test_the_same_command_runs_nothing_again(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    calls = len(command().requests)
    assert len(command("--price-search", "0.4").requests) == calls
    assert "(0 now)" in capsys.readouterr().out


def test_without_a_language_model_the_evidence_chooses_and_the_whole_program_is_saved(
    command: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lm = command("--no-lm", "--out", "found.json")
    assert not lm.requests
    assert "answer_in_evidence 1.000 on the 6 questions" in capsys.readouterr().out
    saved = json.loads((tmp_path / "found.json").read_text())
    assert saved["corrective.settings"]["rewrite"] is True  # of the program as it will be used
    assert "generate" in saved


def test_json_is_one_object_and_the_program_is_saved(
    command: Any, capitals_program: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command("--json", "--out", "crag.json", "--run", "elsewhere", "--policy", "vote")
    found = json.loads(capsys.readouterr().out)
    assert (found["value"], found["searches"], found["policy"]) == (1.0, 4, "vote")
    assert json.loads((tmp_path / "elsewhere" / "metrics.json").read_text()) == found
    loaded = capitals_program()
    loaded.load("crag.json")
    kept = {name: getattr(loaded.settings, name) for name in found["kept"]}
    assert kept == found["kept"]  # six questions change nothing
    assert (found["improved"], found["kept"]["policy"]) == (False, "max")
    assert loaded.settings.grader_fingerprint == "v1"


def test_by_says_which_questions_belong_together(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command("--by", "answers", "--json")
    assert (
        "intervals are over 6 questions, no two of one document"
        in json.loads(capsys.readouterr().out)["note"]
    )


def test_a_grid_over_two_settings(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command("--grid", "strip-threshold=-1,0.8", "--grid", "top_n=1,3")
    out = capsys.readouterr().out
    assert "contains_word by strip_threshold (down) and top_n (across)" in out
    assert "best: strip_threshold -1, top_n 1" in out
    assert re.search(r"cross-validated [01]\.\d+ \[.*what to expect of the best on new questions", out)
    assert "runs of the program: 72 (72 now), failed 0" in out


def test_a_changed_configuration_is_refused_until_told_otherwise(
    command: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command()
    (tmp_path / "crag.toml").write_text(CONFIG + "top_n = 2\n")
    with pytest.raises(StaleOutcomesError, match=r"settings.top_n \(5 -> 2\).*--fresh"):
        command()
    command("--fresh")
    assert "(18 now)" in capsys.readouterr().out


def test_several_metrics_are_weighed(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command("--metric", "contains_word=3", "--metric", "grounded")
    assert "contains_word+grounded 1.000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metric", "contain_word"], "--metric 'contain_word' is unknown: did you mean 'contains_word'"),
        (["--metric", "grounded=x"], "the weight must be a number, got 'x'"),
        (["--metric", "python:json:dumpz"], "json has no dumpz"),
        (["--limit", "0"], "--limit must be at least 1"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--folds", "1"], "--folds must be at least 2"),
        (["--price-search", "-1"], "price of a search must be a number, at least 0"),
        (["--grid", "top_n"], "--grid must be like top_n=2,5"),
        (["--grid", "top_n=1"], "--grid is given twice"),
        (["--lang", "en"], "--lang is for the sample's questions"),
        (["--grader", "mini"], "--grader is for the sample: with --config, set it in the file"),
        (["--split", "test"], "dev.jsonl has no rows with split 'test'"),
    ],
)
def test_mistakes_are_named_and_nothing_is_run(command: Any, arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        command(*arguments)
    assert not sys.modules["capitals_parts"].lm.requests  # type: ignore[attr-defined]
