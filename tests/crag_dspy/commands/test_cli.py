"""The command line as a whole: fast, and every ending has its status."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import crag_dspy
from crag_dspy.commands import cli
from crag_dspy.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[argparse.Namespace], int]], None]:
    """Puts a command `try` into the table, with the given `run`."""

    def install(run: Callable[[argparse.Namespace], int]) -> None:
        module = types.ModuleType("command_under_test")
        module.run = run  # type: ignore[attr-defined]
        module.add_arguments = lambda parser: parser.add_argument("words", nargs="*")  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(cli.COMMANDS, "try", (module.__name__, "tries something"))

    return install


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_of_the_table_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: crag-dspy {name}" in capsys.readouterr().out
    assert callable(importlib.import_module(cli.COMMANDS[name][0]).run)


def test_every_module_that_is_a_command_is_in_the_table() -> None:
    folders = {"crag_dspy/commands": "crag_dspy.commands", "optimize": "crag_dspy.optimize"}
    folders["evaluator_train"] = "crag_dspy.evaluator_train"
    found = set()
    for folder, package in folders.items():
        for path in (ROOT / folder).glob("*.py"):
            body = ast.parse(path.read_text(encoding="utf-8")).body
            if {"add_arguments", "run"} <= {node.name for node in body if isinstance(node, ast.FunctionDef)}:
                found.add(f"{package}.{path.stem}")
    assert found == {module for module, _ in cli.COMMANDS.values()}


def test_help_costs_nothing() -> None:
    """No dspy, no command's module, and within 0.3 s (of the processor) of starting Python."""
    code = "import sys; from crag_dspy.commands.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "crag_dspy.commands.cli" in modules.split()
    assert not {"dspy", "torch", "rich", "numpy", "crag_dspy.commands.demo"} & set(modules.split())

    def seconds(*command: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, *command], capture_output=True, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    bare = min(seconds("-c", "pass") for _ in range(3))
    assert min(seconds("-m", "crag_dspy.commands.cli", "--help") for _ in range(3)) < bare + 0.3


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"crag-dspy {crag_dspy.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["indx", "docs"], "no command 'indx': did you mean 'index'?"),
        (["zzzz"], "no command 'zzzz': use demo, ask, index"),
        ([], "the following arguments are required: COMMAND"),
        (["index", "docs", "--too", "x"], "--to"),
    ],
)
def test_a_wrong_command_line_ends_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert message in printed.err
    assert "usage: crag-dspy" in printed.err


def test_what_a_user_can_mend_is_one_line(
    command: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(args: argparse.Namespace) -> int:
        raise ConfigError("k must be\n  an integer")

    command(wrong)
    assert cli.main(["try"]) == 2
    assert capsys.readouterr() == ("", "crag-dspy: k must be an integer\n")
    for arguments in (["try", "--debug"], ["--debug", "try"]):
        with pytest.raises(ConfigError):
            cli.main(arguments)


def test_a_file_that_is_not_there_is_one_line_too(
    command: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command(lambda args: len((tmp_path / "none.txt").read_text()))
    assert cli.main(["try"]) == 2
    assert "none.txt" in capsys.readouterr().err


def test_a_fault_of_ours_keeps_its_traceback(command: Callable[..., None]) -> None:
    command(lambda args: {}["nothing"])
    with pytest.raises(KeyError):
        cli.main(["try"])


def test_an_interruption_ends_with_130(
    command: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    command(interrupted)
    assert cli.main(["try"]) == 130
    assert capsys.readouterr().err == "\ninterrupted\n"


def test_the_status_of_a_command_is_the_status(command: Callable[..., None]) -> None:
    command(lambda args: len(args.words))
    assert cli.main(["try", "a", "b", "c"]) == 3


@pytest.mark.parametrize(
    "arguments", [["--help"], ["index", "docs.jsonl", "--to", "out", "--embedder", "none", "--json"]]
)
def test_a_reader_that_goes_away_is_not_an_error(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text('{"text": "a text"}\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "crag_dspy.commands.cli", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": ""},  # argparse ignores an unbuffered write that fails
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), errors) == (141, "")


def test_output_reaches_a_terminal_without_unicode(tmp_path: Path) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text(json.dumps({"id": "a", "text": "长江"}) + "\n")
    index = tmp_path / "索引"
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "crag_dspy.commands.cli",
            "index",
            source,
            "--to",
            index,
            "--embedder",
            "none",
        ],
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert b"\\u7d22\\u5f15: 1 passages" in ended.stdout
