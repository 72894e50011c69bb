"""CSV and TSV: documents, where there is a column `text`; else one table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from crag_dspy.errors import ConfigError

DELIMITERS = ",;\t|"


class Table(NamedTuple):
    """The header, and each row with the number of the line that it ends in."""

    header: list[str]
    rows: list[tuple[int, list[str]]]


def read_table(text: str, suffix: str) -> Table:
    """The rows of a CSV or TSV file that are not empty; fields may be quoted, and hold line breaks.

    Raises:
        ConfigError: naming the line of what is no CSV.
    """
    first = text.split("\n", 1)[0]
    delimiter = "\t" if suffix == ".tsv" else max(DELIMITERS, key=first.count)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # otherwise 131,072 characters
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[tuple[int, list[str]]] = []
    try:
        rows += [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ConfigError(f"line {reader.line_num}: no CSV: {error}") from error
    if not rows:
        return Table([], [])
    return Table([name.strip() for name in rows[0][1]], rows[1:])


def records(table: Table) -> Iterator[tuple[int, Mapping[str, str | None]]]:
    """Each row by the names of its columns, empty cells left out, with its line."""
    for line, row in table.rows:
        yield line, {name: cell for name, cell in zip(table.header, row, strict=False) if name and cell}


def as_markdown(table: Table) -> str:
    """The table as Markdown, one line a row."""
    width = max([len(table.header), *(len(row) for _, row in table.rows)])
    header = [*table.header, *[""] * (width - len(table.header))]
    lines = [_row(header), "|" + "---|" * width, *(_row(row) for _, row in table.rows)]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
