"""The command line as a whole: fast, and every ending has its status."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import crag_dspy
from crag_dspy.commands import cli, parsing, table
from crag_dspy.errors import ConfigError

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = ROOT / "crag_dspy" / "commands"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[argparse.Namespace], int]], None]:
    """Puts a command `try` into the table, with the given `run`."""

    def install(run: Callable[[argparse.Namespace], int]) -> None:
        module = types.ModuleType("crag_dspy.commands.under_test")
        module.run = run  # type: ignore[attr-defined]
        module.EXAMPLE = "crag-dspy try words"  # type: ignore[attr-defined]
        module.add_arguments = lambda parser: parser.add_argument("words", nargs="*")  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(table.COMMANDS, "try", table.Command("under_test", "tries something"))

    return install


def help_of(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main([*name.split(), "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_overview_is_a_screen_that_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of("", capsys)
    assert len(shown.splitlines()) <= 18
    assert all(re.search(rf"(^|[ ,]){word}(,|  )", shown) for word in table.first_words())
    assert max(map(len, shown.splitlines())) <= parsing.COLUMNS


def test_a_group_names_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    shown = help_of("grader", capsys)
    assert re.findall(r"^  (\w+)  ", shown, re.M) == list(table.members("grader"))


@pytest.mark.parametrize("columns", ["60", "100", "250"])
@pytest.mark.parametrize("name", table.COMMANDS)
def test_every_command_explains_itself_with_its_defaults_and_an_example(
    name: str, columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = help_of(name, capsys)
    assert f"usage: crag-dspy {name}" in shown
    assert max(map(len, shown.splitlines())) <= parsing.COLUMNS
    whole, parser = " ".join(shown.split()), cli.parser(name)
    for action in parser._actions:
        nothing = (
            action.default is None or action.default is False or action.default in (argparse.SUPPRESS, [])
        )
        if action.option_strings and not nothing:
            shown_default = action.default
            if isinstance(shown_default, list):
                shown_default = ",".join(map(str, shown_default))
            assert f"default: {shown_default}" in whole, action.option_strings
        assert action.help, f"{action.dest} is not explained"
    (example,) = re.findall(r"^example:\n  (crag-dspy .+)$", shown, re.M)
    assert cli.parsed(shlex.split(example)[1:]).command == name


@pytest.mark.parametrize("name", table.COMMANDS)
def test_one_thing_has_one_name_in_all_commands(name: str) -> None:
    """What is written is --out, the folder of a run is --run, and a list has commas."""
    for action in cli.parser(name)._actions:
        assert not {"--to", "--save", "--output", "--folder", "--resume", "--option"} & set(
            action.option_strings
        )
        assert not (action.option_strings and action.nargs in ("+", "*")), "lists have commas"
        assert action.metavar == "FOLDER" or "--run" not in action.option_strings
        if action.metavar == "A,B" and name.startswith("grader"):
            assert isinstance(action, parsing.Listed)


def test_a_module_that_is_a_command_is_in_the_table() -> None:
    found = {
        path.relative_to(COMMANDS).with_suffix("").as_posix().replace("/", ".")
        for path in COMMANDS.rglob("*.py")
        if re.search(r"^EXAMPLE = ", path.read_text(encoding="utf-8"), re.M)
    }
    assert found == {command.module for command in table.COMMANDS.values()}


@pytest.mark.parametrize("name", [*table.RENAMED, *table.SCRIPTS])
def test_a_name_of_before_leads_to_the_new_one(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    new = table.RENAMED.get(name) or table.SCRIPTS[name]
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--out", "x"])
    assert ended.value.code == 2
    assert new in capsys.readouterr().err
    if name in table.RENAMED:
        assert " ".join(new.split()[:2]) in table.COMMANDS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "docs", "--outt", "x"], "no option '--outt': did you mean '--out'?"),
        (["grader", "train", "--piars=x"], "no option '--piars': did you mean '--pairs'?"),
        (["index", "docs", "--to", "x"], "no option '--to': it is called --out now"),
        (["compile", "--save", "x.json"], "no option '--save': it is called --out now"),
        (["ask", "--quux"], "no option '--quux' (crag-dspy ask --help lists them)"),
        (["grader", "train", "--recipe", "mini", "--pairs", "a", "b"], "no place for 'b' (a list has commas"),
        (
            ["grader", "time", "--pairs", "a", "--precision", "fp32,fp8"],
            "must be of fp32, bf16, int8, got 'fp8'",
        ),
    ],
)
def test_a_wrong_option_names_the_right_one(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: object = cli.main(arguments)
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert message in capsys.readouterr().err


def test_lists_have_commas_and_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b.jsonl", "a.jsonl", "one,two.jsonl"):
        Path(name).touch()

    def given(*arguments: str) -> argparse.Namespace:
        return cli.parsed(["grader", "benchmark", *arguments])

    args = given("--grader", "mini, lm", "--grader", "embedding", "--pairs", "?.jsonl,one.tsv")
    assert (args.grader, args.pairs) == (["mini", "lm", "embedding"], ["a.jsonl", "b.jsonl", "one.tsv"])
    assert given("--grader", "x", "--pairs", "one,two.jsonl").pairs == ["one,two.jsonl"]
    assert cli.parsed(["grader", "time", "--pairs", "a", "--precision", "int8"]).precision == ["int8"]


def test_python_m_is_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "crag_dspy", "--version"], capture_output=True, text=True, check=True
    )
    assert ended.stdout == f"crag-dspy {crag_dspy.__version__}\n"


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
        (["zzzz"], "no command 'zzzz': use demo, doctor, index, ask"),
        ([], "say which command"),
        (["grader"], "say which command of grader"),
        (["grader", "tran"], "no command 'grader tran': did you mean 'grader train'?"),
        (["grader", "zzzz"], "no command 'grader zzzz': use grader pairs, train"),
        (["index", "docs"], "--out"),
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


def test_what_a_user_can_mend_is_one_line(
    command: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(args: argparse.Namespace) -> int:
        raise ConfigError("k must be\n  an integer")

    command(wrong)
    assert cli.main(["try"]) == 2
    assert capsys.readouterr() == ("", "crag-dspy: k must be an integer\n")
    for arguments in (["try", "--debug"], ["--debug", "try"]):
        assert cli.main(arguments) == 2
        assert "Traceback" in capsys.readouterr().err


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
    "arguments", [["--help"], ["index", "docs.jsonl", "--out", "out", "--embedder", "none", "--json"]]
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
            "--out",
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
