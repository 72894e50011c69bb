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

from crag_dspy.commands.status import OK, SOME_FAILED
from crag_dspy.errors import BudgetSpentError, ConfigError, StateError

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
    assert "at most 16 LM calls" in said.err
    assert "Bootstrapped" not in said.out  # what DSPy prints is progress
    assert json.loads((tmp_path / "crag.json").read_text())["generate"]["demos"] == []
    assert (tmp_path / "runs" / "compile" / "report.html").exists()


def test_failed_questions_are_counted_and_end_with_another_status(command: Any, capsys: Any) -> None:
    lm = sys.modules["capitals_parts"].lm  # type: ignore[attr-defined]
    lm.engine.raises = {0: ConnectionError("refused")}
    assert run_command("compile", *COMPILE) == SOME_FAILED
    told = capsys.readouterr().out
    assert "failed: before 1" in told
    assert "intervals are over" in told
    assert run_command("compile", *COMPILE) == OK
    assert "failed:" not in capsys.readouterr().out


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
    assert "thresholds and choosing 100" in capsys.readouterr().out
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
        (("--budget", "2"), "more than the third of the budget of 2"),
        (("--out", "crag"), r"--out must be a \.json file, got crag"),
        (("--out", "made/crag.json"), "there is no folder made"),
    ],
)
def test_what_is_wrong_is_told(arguments: tuple[str, ...], message: str, command: Any) -> None:
    with pytest.raises(ConfigError, match=message):
        command("compile", *COMPILE, *arguments)
    assert sys.modules["capitals_parts"].lm.requests == []  # type: ignore[attr-defined]


def test_dspys_names_of_optimizers_are_taken(command: Any, capsys: Any) -> None:
    command("compile", *COMPILE, "--optimizer", "BootstrapFewShotWithRandomSearch", "--dry-run", "--json")
    assert json.loads(capsys.readouterr().out)["optimizer"] == "random_search"


def test_the_test_split_judges_and_the_dev_split_never_does(
    command: Any, capsys: Any, tmp_path: Path
) -> None:
    """A file whose questions name splits; the sample's do too."""
    rows = [row for name in ("train", "dev") for row in read_rows_of(tmp_path / f"{name}.jsonl")]
    for row, split in zip(rows, ["train", "train", "dev", "dev", "test", "test"], strict=True):
        row["split"] = split
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, rows)))
    command("compile", "all.jsonl", "--config", "crag.toml", "--predictors", "generate")
    held = read_rows_of(tmp_path / "runs/compile/before/results.jsonl")
    assert {row["question"] for row in held} == {row["question"] for row in rows if row["split"] == "test"}
    assert "4 to learn from, 0 to choose by, 2 held out" in capsys.readouterr().err


VERBS = [
    ("compile", *COMPILE, "--budget", "90"),
    ("thresholds", "dev.jsonl", "--config", "crag.toml"),
    ("compare", "dev.jsonl", "--config", "crag.toml"),
]


LIMITS = [
    (("--max-calls", "3"), "3 LM calls"),
    (("--max-tokens", "200"), "200 tokens"),
    (("--max-cost", "0.0002", "--token-price", "1,1"), r"\$0\.0002"),
]


@pytest.mark.parametrize(("limit", "named"), LIMITS, ids=["calls", "tokens", "dollars"])
@pytest.mark.parametrize("verb", VERBS, ids=[verb[0] for verb in VERBS])
def test_a_limit_ends_the_command_and_the_next_one_goes_on(
    verb: tuple[str, ...], limit: tuple[str, ...], named: str, command: Any, capsys: Any
) -> None:
    whole = len(command(*verb, "--run", "runs/whole").requests)
    requests = sys.modules["capitals_parts"].lm.requests  # type: ignore[attr-defined]
    with pytest.raises(BudgetSpentError, match=f"the limit of {named} is spent"):
        command(*verb, "--run", "runs/limited", *limit)
    paid = len(requests) - whole
    assert 0 < paid < whole
    assert f"spent: {paid} LM calls" in capsys.readouterr().err
    command(*verb, "--run", "runs/limited")
    assert len(requests) <= 2 * whole + 1  # the question that was cut off is asked again, and no other


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_is_recorded_and_repeated_without_its_model(
    verb: tuple[str, ...], command: Any, capsys: Any
) -> None:
    command(*verb, "--run", "runs/first", "--record", "replies", "--json")
    first = json.loads(capsys.readouterr().out)
    engine = sys.modules["capitals_parts"].lm.engine  # type: ignore[attr-defined]
    engine.script, calls = {}, engine.calls  # a model that knows nothing any more
    command(*verb, "--run", "runs/again", "--replay", "replies", "--json")
    again = json.loads(capsys.readouterr().out)
    assert engine.calls == calls > 0
    assert _without_seconds(again) == _without_seconds(first)


def read_rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _without_seconds(told: Any) -> Any:
    if isinstance(told, dict):
        return {name: _without_seconds(item) for name, item in told.items() if "second" not in name}
    return [_without_seconds(item) for item in told] if isinstance(told, list) else told


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
