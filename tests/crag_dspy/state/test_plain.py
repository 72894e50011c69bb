"""Plain data for JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.actions import Action, Thresholds
from crag_dspy.state.plain import DEEPEST, Plain, plain


@dataclass(frozen=True, slots=True)
class Point(Plain):
    x: float
    y: tuple[int, ...] = ()


@dataclass
class Shown(Plain):
    SHOWN: ClassVar[str] = "hidden twice point"

    hidden: int
    secret: str
    point: Point | None = None

    @property
    def twice(self) -> int:
        return 2 * self.hidden


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_fields_or_what_is_shown_in_that_order() -> None:
    assert Point(1.5, (1, 2)).to_json() == {"x": 1.5, "y": [1, 2]}
    shown = Shown(3, "s", Point(0.5)).to_json()
    assert list(shown.items()) == [("hidden", 3), ("twice", 6), ("point", {"x": 0.5, "y": []})]


def test_what_json_has_no_word_for() -> None:
    given = {
        Action.CORRECT: [float("nan"), float("inf"), date(2024, 1, 2), Thresholds(0.5, -0.5), {1}, Rude()]
    }
    assert plain(given) == {
        "correct": [
            None,
            None,
            "2024-01-02",
            {"upper": 0.5, "lower": -0.5},
            [1],
            "(Rude without a text: RuntimeError)",
        ]
    }


def test_what_contains_itself_ends() -> None:
    """What refers to itself is shown once; what is only deep, as far as anybody reads."""
    endless: dict[str, Any] = {}
    endless["again"] = endless
    assert plain(endless) == {"again": "..."}
    deep: dict[str, Any] = {}
    for _ in range(2 * DEEPEST):
        deep = {"again": deep}
    assert json.dumps(plain(deep)).count("again") == DEEPEST


data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(data)
def test_json_data_stays_as_it_is(value: Any) -> None:
    assert plain(value) == value
