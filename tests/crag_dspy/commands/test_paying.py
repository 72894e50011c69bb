"""Limits and recorded replies, as the commands take them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import dspy
import pytest

from crag_dspy.commands import compare, compile, thresholds
from crag_dspy.commands.paying import add_paying_arguments, paying
from crag_dspy.errors import BudgetSpentError, ConfigError


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_paying_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize("command", [compare, compile, thresholds])
def test_every_command_that_pays_can_be_limited_recorded_and_replayed(command: Any) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    args = parser.parse_args(["--max-calls", "3", "--max-tokens", "9", "--max-cost", "0.5", "--record", "r"])
    assert (args.max_calls, args.max_tokens, args.max_cost, args.record) == (3, 9, 0.5, "r")


def test_a_limit_holds_and_what_was_spent_is_told(scripted_lm: Any, capsys: Any) -> None:
    program = dspy.Predict("question -> answer")
    given = parsed("--max-calls", "1", "--token-price", "scripted/by-field=1,2", "--token-price", "m=3,4")
    with dspy.context(lm=scripted_lm({"answer": "yes"})), paying(given):
        program(question="a")
        with pytest.raises(BudgetSpentError):
            program(question="b")
    assert capsys.readouterr().err.startswith("spent: 1 LM calls, ")


def test_replies_are_recorded_and_replayed(scripted_lm: Any, tmp_path: Path) -> None:
    program = dspy.Predict("question -> answer")
    with dspy.context(lm=scripted_lm({"answer": "yes"})), paying(parsed("--record", str(tmp_path))):
        program(question="a")
    silent = scripted_lm({"answer": RuntimeError("a model was called")})
    with dspy.context(lm=silent), paying(parsed("--replay", str(tmp_path))):
        assert program(question="a").answer == "yes"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--token-price", "cheap"), "must be like"),
        (("--token-price", "1,2", "--token-price", "m=1,2"), "not both"),
        (("--max-calls", "-1"), "max_calls must be a whole number"),
        (("--replay", "nothing"), "no recorded replies"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message), paying(parsed(*arguments)):
        pass
