"""Rows of texts, lined up for a terminal and as Markdown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.optimize.report.lines import lined_up, markdown_table

ROWS = [["system", "right", "p"], ["RAG", "0.500 [0.4, 0.6]", "-"], ["CRAG without x", "0.6", "0.012"]]


def test_columns_stand_under_each_other() -> None:
    assert lined_up(ROWS) == [
        "system          right             p",
        "RAG             0.500 [0.4, 0.6]  -",
        "CRAG without x  0.6               0.012",
    ]
    assert lined_up(ROWS, right=True) == [
        "system                     right      p",
        "RAG             0.500 [0.4, 0.6]      -",
        "CRAG without x               0.6  0.012",
    ]


def test_wide_characters_take_two_columns() -> None:
    assert lined_up([["名字", "n"], ["a", "1"]]) == ["名字  n", "a     1"]


@given(
    st.lists(
        st.lists(st.text("ab[/]* ", min_size=1, max_size=200), min_size=3, max_size=3), min_size=1, max_size=5
    )
)
def test_nothing_is_cut_off_wrapped_or_taken_for_markup(rows: list[list[str]]) -> None:
    lines = lined_up(rows)
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert all(cell.strip() in line for cell in row)


def test_markdown() -> None:
    assert markdown_table(ROWS[:2]) == (
        "| system | right | p |\n| --- | ---: | ---: |\n| RAG | 0.500 [0.4, 0.6] | - |"
    )
