"""Refinement and queries take linear time, whatever a page holds."""

from __future__ import annotations

from typing import Any

import pytest
from linear_time import HOSTILE, assert_linear, repeated

from crag_dspy import Passage
from crag_dspy.knowledge import compose
from crag_dspy.refine import decompose, strips_of, with_header
from crag_dspy.retrievers.chunking import chunk
from crag_dspy.retrievers.documents import _TITLE
from crag_dspy.websearch.query import clean_query, cut_at_word


def refined(text: str) -> Any:
    return compose([strip for strip in strips_of([Passage(text)], "web") if with_header(strip)])


READERS = {
    "decompose": decompose,
    "windows": lambda text: decompose(text, "window", 5),
    "refined": refined,
    "chunk": lambda text: chunk(text, 20),
    "clean_query": lambda text: clean_query(text, "question"),
    "cut_at_word": lambda text: cut_at_word(text, len(text) // 2),
    "title of a file": _TITLE.search,
}
UNITS = [
    "a | b\n",
    "|-|-",
    "|:-:",
    "```\n",
    "~~~\n",
    "# a ",
    "#",
    "# a #",
    "{'query': '",
    "search query: ",
    "- ",
]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("unit", sorted({*HOSTILE, *UNITS}))
def test_it_takes_linear_time(reader: str, unit: str) -> None:
    assert_linear(READERS[reader], repeated(unit))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("head", ["A", "a | b\n|-", "# a", "[9]", "<", '"query": "'])
@pytest.mark.parametrize("space", [" ", "\n", "\t"])
def test_long_white_space_takes_linear_time(reader: str, head: str, space: str) -> None:
    assert_linear(READERS[reader], lambda n: head + space * n + "x")


def test_fences_of_every_length_take_linear_time() -> None:
    assert_linear(
        decompose, lambda n: "".join("`" * k + "\n" for k in range(60, 3, -1)) + "    ```a\n" * (n // 9)
    )
