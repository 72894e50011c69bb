"""Refinement and queries take linear time, whatever a page holds."""

from __future__ import annotations

from typing import Any

import pytest
from linear_time import HOSTILE, assert_linear, repeated

from crag_dspy import Passage
from crag_dspy.knowledge import compose
from crag_dspy.refine import context_of, decompose, shown_of, strips_of, with_header
from crag_dspy.retrievers.chunking import chunk
from crag_dspy.text.markdown import title_of
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
    "title of a file": title_of,
    "graded": lambda text: [(shown_of(s), context_of(s)) for s in strips_of([Passage(text)], "web")],
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
    ">",
    "> a\n",
    "> > - ",
    "- ```\n",
    "- a\n\n",
    "a:\n- b\n\n",
    "1. a\n   - b\n\n",
    "a\n=\n",
    "---\n",
    "a: b\n---\n",
    "[a]: b\n",
    "<div>\n",
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


TOWERS = {
    "fences of falling length": lambda n: (
        "".join("`" * k + "\n" for k in range(60, 3, -1)) + "    ```a\n" * (n // 9)
    ),
    "fences in an item that are closed outside of it": lambda n: (
        "- a\n"
        + "".join("  " + "`" * k + "\n" for k in range(int(n**0.5), 3, -1))
        + "    \n" * (n // 12)
        + "".join("`" * k + "\n" for k in range(3, int(n**0.5)))
    ),
    "lists in lists": lambda n: "".join("  " * k + "- a\n" for k in range(int(n**0.5))),
    "lists in lists, again and again": lambda n: (
        "".join("  " * k + "- a\n" for k in range(18)) * (n // 200 + 1)
    )[:n],
    "quotes in quotes": lambda n: (">" * 19 + " # a\n- b\n\n") * (n // 30),
    "a table with many columns and short rows": lambda n: (
        "|a" * (n // 8) + "|\n" + "|-" * (n // 8) + "|\n" + "|\n" * (n // 4)
    ),
    "a front matter that does not end": lambda n: "---\n" + "a: b\n" * (n // 5),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("tower", TOWERS)
def test_what_is_built_to_nest_takes_linear_time(reader: str, tower: str) -> None:
    assert_linear(READERS[reader], TOWERS[tower])
