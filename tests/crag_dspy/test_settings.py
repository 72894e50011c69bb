"""Settings: checked when they are set, saved and loaded with the program, at any depth."""

from __future__ import annotations

import json
import math
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy import CRAG
from crag_dspy.errors import ConfigError, StateError
from crag_dspy.settings import Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("upper", 1.2),
        ("upper", math.nan),
        ("lower", "low"),
        ("lower", True),
        ("k", 0),
        ("k", 2.5),
        ("k", True),
        ("top_n", -1),
        ("policy", "mean"),
        ("strip_mode", "word"),
        ("no_evidence", "guess"),
        ("rewrite", "yes"),
        ("grader", 3),
    ],
)
def test_a_bad_value_never_gets_in(name: str, value: Any) -> None:
    settings = Settings()
    before = settings.to_json()
    with pytest.raises(ConfigError, match=name):
        setattr(settings, name, value)
    with pytest.raises(ConfigError, match=name):
        settings.update({"strip_size": 3, name: value})
    assert settings.to_json() == before


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'strip_threshold'"):
        CRAG([], lambda question, texts: [], strip_treshold=0.1)


def test_both_cuts_move_together() -> None:
    settings = Settings(upper=0.5, lower=-0.5)
    settings.update({"upper": 0.9, "lower": 0.7})
    with pytest.raises(ConfigError, match="lower must not be above upper"):
        settings.update({"upper": 0.6})
    assert (settings.upper, settings.lower) == (0.9, 0.7)


def test_cuts_set_one_by_one_may_cross_meanwhile_but_are_not_saved_so(tmp_path: Any) -> None:
    program = CRAG([], lambda question, texts: [], upper=0.5, lower=-0.5)
    program.settings.upper = -0.7
    with pytest.raises(ConfigError, match="lower must not be above upper"):
        program.save(tmp_path / "crag.json")
    assert not list(tmp_path.iterdir())
    program.settings.lower = -0.9
    program.save(tmp_path / "crag.json")


class Outer(dspy.Module):
    """A user's program that holds ours."""

    def __init__(self) -> None:
        super().__init__()
        self.crag = CRAG([], lambda question, texts: [])
        self.polish = dspy.Predict("draft -> answer")


@given(
    st.tuples(st.floats(-1, 1), st.floats(-1, 1)).map(sorted),
    st.integers(1, 50),
    st.sampled_from(["max", "vote"]),
)
def test_state_survives_json_in_a_nested_program(cuts: list[float], k: int, policy: str) -> None:
    outer = Outer()
    outer.crag.settings.update({"lower": cuts[0], "upper": cuts[1], "k": k, "policy": policy})
    state = json.loads(json.dumps(outer.dump_state()))
    again = Outer()
    again.load_state(state)
    assert again.crag.settings.to_json() == outer.crag.settings.to_json()


def test_an_older_file_gets_defaults_for_what_it_lacks() -> None:
    settings = Settings(k=3)
    settings.load_state({"upper": 0.3, "lower": -0.3})
    assert (settings.upper, settings.k) == (0.3, Settings().k)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"upper": None}, "upper"),  # orjson writes NaN as null
        ({"upper": -0.5, "lower": 0.5}, "lower must not be above upper"),
        ({"policy": "mean"}, "policy"),
        ({"thresholds": [0.1, 0.2]}, "thresholds"),
        ([], "mapping"),
    ],
)
def test_a_wrong_state_is_refused_and_changes_nothing(state: Any, message: str) -> None:
    settings = Settings(k=3)
    with pytest.raises(StateError, match=message):
        settings.load_state(state)
    assert settings.k == 3


def test_optimizers_keep_settings() -> None:
    program = CRAG([], lambda question, texts: [], k=4)
    assert program.reset_copy().settings.k == 4
    assert all(isinstance(predictor, dspy.Predict) for _, predictor in program.named_predictors())
