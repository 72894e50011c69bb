"""Rows of texts as a person reads them: lined up, or as a table of Markdown."""

from __future__ import annotations

import io
from collections.abc import Sequence


def lined_up(rows: Sequence[Sequence[str]], right: bool = False) -> list[str]:
    """A line a row, the columns under each other whatever the script; the first row is the header.

    Args:
        right: all columns but the first are figures and end under each other.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for column in range(len(rows[0])):
        table.add_column(justify="right" if right and column else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    wide = 4 * sum(len(cell) + 4 for row in rows for cell in row)  # nothing is cut off, nothing wrapped
    console = Console(file=io.StringIO(), width=wide, color_system=None, force_terminal=False)
    console.print(table)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """The same for a README; the first row is the header, the first column text and the others figures."""
    header, *others = rows
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *others]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)
