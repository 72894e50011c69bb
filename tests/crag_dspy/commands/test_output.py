"""Commands print in one place, which sends nothing to a terminal that would move or rename it."""

from __future__ import annotations

import ast
import json
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from rich.tree import Tree

from crag_dspy.commands import cli, output

COMMANDS = Path(output.__file__).parent
HOSTILE = "\x1b]0;owned\x07 \x1b[2J\x9b2J \u009d8;;http://a\x9c \r\x08\x7f"


def obeyed(text: str) -> set[str]:
    """Characters of `text` that a terminal would obey."""
    return {mark for mark in text if (mark < " " and mark not in "\n\t") or "\x7f" <= mark <= "\x9f"}


@given(st.text())
def test_no_control_character_is_left_and_the_rest_stays(text: str) -> None:
    shown = output.printable(text)
    assert obeyed(shown) == set()
    if not obeyed(text):
        assert shown == text


@given(st.dictionaries(st.text(), st.text()))
def test_json_lines_are_safe_and_lossless(plain: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []
        stream = types.SimpleNamespace(write=written.append, flush=lambda: None)
        patch.setattr(output.sys, "stdout", stream)
        output.answer_json(plain)
    assert obeyed("".join(written)) == set()
    assert json.loads("".join(written)) == plain


def test_every_way_of_printing_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    output.answer(HOSTILE)
    output.note(HOSTILE)
    output.answer_json({HOSTILE: HOSTILE})
    output.show_table(("name", "n"), [(HOSTILE, HOSTILE)], title=HOSTILE)
    tree = Tree(Text(HOSTILE))
    tree.add(Text(HOSTILE))
    output.show(tree)
    printed = capsys.readouterr()
    assert obeyed(printed.out) == obeyed(printed.err) == set()
    assert "\\x1b]0;owned" in printed.out


def test_colours_stay_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    output.show(Text(f"red {HOSTILE}", style="red"))
    shown = capsys.readouterr().out
    assert "\x1b[31m" in shown
    assert "\x1b]0" not in shown
    assert "\x1b[2J" not in shown


def test_a_link_cannot_carry_an_escape(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.style import Style

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    output.show(Text("page", style=Style(link="http://a/\x1b\\\x1b[2J")))
    assert "\x1b[2J" not in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(COMMANDS.rglob("*.py")), ids=lambda path: path.stem)
def test_only_this_place_prints(path: Path) -> None:
    if path == COMMANDS / "output.py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        assert called not in {"print", "Console", "sys.stdout.write", "sys.stderr.write"}, node.lineno


@pytest.mark.parametrize("wrong", [["index", "docs", f"--{HOSTILE}"], [HOSTILE], ["report", HOSTILE]])
def test_errors_name_what_was_given_without_sending_it(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: Any = cli.main(wrong)
    except SystemExit as ended:
        status = ended.code
    printed = capsys.readouterr()
    assert status == 2
    assert obeyed(printed.err) == obeyed(printed.out) == set()


def test_the_log_is_safe_too(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    record = logging.LogRecord("crag_dspy", logging.WARNING, "", 0, "%s", (HOSTILE,), None)
    assert obeyed(cli.Plain("%(levelname)s: %(message)s").format(record)) == set()
