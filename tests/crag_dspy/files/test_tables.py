"""CSV and TSV as people have them."""

from __future__ import annotations

import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.files.tables import as_markdown, read_table, records
from crag_dspy.text.markdown import blocks


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("a,b\n1,2\n", ".csv"),
        ("a;b\n1;2\n", ".csv"),
        ("a\tb\r\n1\t2\r\n", ".tsv"),
        ('a,b\n\n"1","2"', ".csv"),
    ],
)
def test_a_table_is_read_whatever_parts_its_cells(text: str, suffix: str) -> None:
    table = read_table(text, suffix)
    assert (table.header, [row for _, row in table.rows]) == (["a", "b"], [["1", "2"]])


def test_cells_hold_anything() -> None:
    odd = "a | b\u2028c\x0cd\x85e\nf"
    table = read_table(f'name,text\nx,"{odd}"\ny,{"long " * 50_000}\n', ".csv")
    rows = dict(records(table))
    assert rows[3] == {"name": "x", "text": odd}
    assert len(rows[4]["text"] or "") > 200_000
    assert "a \\| b c d e f" in as_markdown(table)


def test_a_table_is_markdown_of_one_line_a_row() -> None:
    text = as_markdown(read_table("Plan,Price\nFree,0\nPro,49,extra\n", ".csv"))
    assert text == "| Plan | Price |  |\n|---|---|---|\n| Free | 0 |\n| Pro | 49 | extra |\n"
    assert [block.kind for block in blocks(text)] == ["row", "row"]


def test_what_is_no_csv_is_named_by_its_line() -> None:
    with pytest.raises(ConfigError, match="line 2: no CSV"):
        read_table('a,b\n"open,1\n', ".csv")
