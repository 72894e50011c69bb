"""`crag-dspy compile`, `compare` and `report`, on a configuration whose parts are Python objects."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import run_command

from crag_dspy.commands import cli
from crag_dspy.commands import compile as compile_command
from crag_dspy.errors import ConfigError, StateError
from crag_dspy.optimize.prompts.optimizers import OPTIMIZERS

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
"""


@pytest.fixture
def command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capitals_program: Any,
    capitals_devset: Any,
    capitals_script: Any,
    scripted_lm: Any,
) -> Callable[..., Any]:
    """Run a command in a folder with crag.toml, train.jsonl and dev.jsonl; gives back the language model."""
    corrective = capitals_program().corrective
    parts = types.ModuleType("capitals_parts")
    parts.retrieve = corrective.retrieve.part  # type: ignore[attr-defined]
    parts.grader = corrective.grade.part  # type: ignore[attr-defined]
    parts.search = corrective.search.part  # type: ignore[attr-defined]

    def reply(field: str, request: Any) -> Any:
        if field in capitals_script:
            return capitals_script[field](request)
        return {"generate": "Name the city."} if field == "module_advice" else "Name the city."  # a proposal

    parts.lm = scripted_lm(reply)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "capitals_parts", parts)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crag.toml").write_text(CONFIG)
    rows = [json.dumps(example.toDict()) for example in capitals_devset]
    (tmp_path / "train.jsonl").write_text("\n".join(rows[:4]))
    (tmp_path / "dev.jsonl").write_text("\n".join(rows[4:]))

    def invoke(*arguments: str) -> Any:
        assert run_command(*arguments) == 0
        return parts.lm

    return invoke


COMPILE = ("train.jsonl", "--config", "crag.toml", "--heldout", "dev.jsonl", "--predictors", "generate")


def test_it_compiles_and_says_what_it_kept(command: Any, capsys: Any, tmp_path: Path) -> None:
    command("compile", *COMPILE, "--out", "crag.json")
    said = capsys.readouterr()
    assert "held-out contains_word on 2 questions" in said.out
    assert "the old program is kept" in said.out
    assert "up to about 15 LM calls" in said.err
    assert "Bootstrapped" not in said.out  # what DSPy prints is progress
    assert json.loads((tmp_path / "crag.json").read_text())["generate"]["demos"] == []
    assert (tmp_path / "runs" / "compile" / "report.html").exists()


def test_a_dry_run_calls_nothing_and_leaves_nothing(command: Any, capsys: Any, tmp_path: Path) -> None:
    lm = command("compile", *COMPILE, "--optimizer", "random_search", "--dry-run", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["optimizer"] == "random_search"
    assert told["lm_calls"] > 0
    assert lm.requests == []
    assert not (tmp_path / "runs").exists()


def test_json_is_one_object(command: Any, capsys: Any) -> None:
    command("compile", *COMPILE, "--json", "--set", "max_bootstrapped_demos=1", "--budget", "60")
    told = json.loads(capsys.readouterr().out)
    assert told["estimate"]["sizes"]["max_bootstrapped_demos"] == 1
    assert sum(told["lm_calls"].values()) <= told["estimate"]["budget"] == 60


def test_the_same_command_repeats_no_call_and_fresh_begins_again(command: Any) -> None:
    first = len(command("compile", *COMPILE).requests)
    assert len(command("compile", *COMPILE).requests) == first
    assert len(command("compile", *COMPILE, "--fresh").requests) == 2 * first


@pytest.mark.parametrize("name", ["mipro", "simba", "gepa", "copro"])
def test_optimizers_that_propose_instructions_run_from_the_command_line(
    name: str, command: Any, capsys: Any, tmp_path: Path
) -> None:
    lm = command("compile", *COMPILE, "--optimizer", name, "--budget", "150", "--out", "crag.json", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["optimizer"] == name
    assert not [note for note in told["notes"] if "failed" in note]
    assert len(lm.requests) == sum(told["lm_calls"].values()) <= told["estimate"]["lm_calls"] <= 150
    assert (tmp_path / "crag.json").exists()


def test_prompts_and_thresholds_in_turns_from_the_command_line(
    command: Any, capsys: Any, tmp_path: Path, capitals_program: Any
) -> None:
    """Begun with a program that was compiled and saved before."""
    command("compile", *COMPILE, "--out", "first.json", "--run", "runs/first")
    begun = ("--program", "first.json", "--alternate", "--run", "runs/turns")
    capsys.readouterr()
    before = len(sys.modules["capitals_parts"].lm.requests)  # type: ignore[attr-defined]
    command("compile", *COMPILE, *begun, "--dry-run")
    assert "thresholds, 3 turns" in capsys.readouterr().out
    lm = command("compile", *COMPILE, *begun, "--out", "turns.json", "--json")
    told = json.loads(capsys.readouterr().out)
    assert len(lm.requests) - before == sum(told["lm_calls"].values()) <= told["estimate"]["lm_calls"]
    assert told["lm_calls"]["thresholds"] > 0
    turned = capitals_program().load(tmp_path / "runs" / "turns" / "thresholds-1" / "program.json")
    assert turned.settings.grader == "capitals"
    assert (tmp_path / "turns.json").exists()


def test_a_share_is_held_out_when_nothing_is_named(command: Any, capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_text(
        (tmp_path / "train.jsonl").read_text() + "\n" + (tmp_path / "dev.jsonl").read_text()
    )
    command("compile", "all.jsonl", "--config", "crag.toml", "--dry-run")
    assert "3 to learn from, 0 to choose by, 3 held out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "demos"), "--set must be like"),
        (("--set", "demos=3"), "BootstrapFewShot has no option 'demos'"),
        (("--predictors", "generat"), "did you mean 'generate'"),
        (("--heldout", "none.jsonl"), r"none\.jsonl"),
        (("--heldout", "train.jsonl"), "both to learn from and held out"),
        (("--budget", "2"), "more than the budget of 2"),
        (("--out", "crag"), r"--out must be a \.json file, got crag"),
        (("--out", "made/crag.json"), "there is no folder made"),
    ],
)
def test_what_is_wrong_is_told(arguments: tuple[str, ...], message: str, command: Any) -> None:
    with pytest.raises(ConfigError, match=message):
        command("compile", *COMPILE, *arguments)
    assert sys.modules["capitals_parts"].lm.requests == []  # type: ignore[attr-defined]


def test_the_names_of_optimizers_are_those_of_the_table() -> None:
    """They are written twice, so that --help imports no optimizer."""
    assert {name: entry.kind.__name__ for name, entry in OPTIMIZERS.items()} == compile_command.OPTIMIZERS
    assert cli.parsed(["compile", "--optimizer", "MIPROv2"]).optimizer == "mipro"


def test_report_writes_the_page_of_a_run(command: Any, capsys: Any, tmp_path: Path) -> None:
    command("compare", "dev.jsonl", "--config", "crag.toml")
    capsys.readouterr()
    command("report", "runs/compare", "--out", "page.html")
    assert capsys.readouterr().out == "page.html\n"
    assert (tmp_path / "page.html").stat().st_size > 10_000
    with pytest.raises(ConfigError, match="not the folder of a run"):
        command("report", ".")


def test_a_saved_program_is_compiled_further(command: Any, tmp_path: Path) -> None:
    command("compile", *COMPILE, "--out", "crag.json")
    command("compile", *COMPILE, "--program", "crag.json", "--run", "runs/again")
    (tmp_path / "crag.json").write_text("{")
    with pytest.raises(StateError, match=r"crag\.json is not a complete JSON file"):
        command("compile", *COMPILE, "--program", "crag.json", "--run", "runs/third")
