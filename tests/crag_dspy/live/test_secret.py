"""`Secret` and the argument checks."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.live.secret import Secret
from crag_dspy.state.arguments import check_choice, check_number, check_whole


def test_the_argument_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_KEY", " from-environment\n")
    assert Secret(None, "SERVICE_KEY").value() == "from-environment"
    assert Secret("given", "SERVICE_KEY").value() == "given"


def test_an_empty_variable_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_KEY", "  ")
    assert Secret(None, "SERVICE_KEY").value() is None


def test_it_prints_and_pickles_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret("planted", "SERVICE_KEY")
    pickled = pickle.dumps(secret)
    assert b"planted" not in pickled
    assert "planted" not in f"{secret!r} {secret}"
    monkeypatch.setenv("SERVICE_KEY", "zq7-xw41-kv")
    assert pickle.loads(pickled).value() == "zq7-xw41-kv"  # noqa: S301


def test_it_is_removed_from_a_message() -> None:
    assert Secret("abc", "SERVICE_KEY").removed_from("bad key abc, abc") == "bad key [key], [key]"


@pytest.mark.parametrize("value", [True, 0, 4, 1.5, "2", None])
def test_a_whole_number_is_an_int_in_range(value: Any) -> None:
    with pytest.raises(ConfigError, match="retries must be a whole number, from 1 to 3"):
        check_whole("retries", value, 1, 3)


@pytest.mark.parametrize("value", [False, -0.1, 1.1, float("nan"), float("inf"), "0.5", None])
def test_a_number_is_finite_and_in_range(value: Any) -> None:
    with pytest.raises(ConfigError, match="alpha must be a number, from 0 to 1"):
        check_number("alpha", value, 0, 1)


def test_a_choice_names_what_is_allowed() -> None:
    with pytest.raises(ConfigError, match="mode must be one of a, None, got 'c'"):
        check_choice("mode", "c", ["a", None])
