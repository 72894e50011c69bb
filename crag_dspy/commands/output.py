"""The one place where commands print: answers to stdout, everything else to stderr.

What documents, file names and errors hold may move a terminal's cursor or rename its window: `printable` shows such
characters instead of sending them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

# C0 without tab and newline, DEL, and C1: what a terminal obeys instead of showing.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
PIPE_COLUMNS = 160  # into a file or a pipe, lines need not be as short as the terminal that is not there


def printable(text: str) -> str:
    """`text` with control characters as escapes (`\\x1b`), but for tabs and newlines."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def answer(text: str) -> None:
    """A line, or several, of what was asked for."""
    _write(sys.stdout, printable(text))


def answer_json(plain: Any) -> None:
    """One JSON line. What a terminal would obey is escaped as JSON does it, so nothing is lost."""
    line = json.dumps(plain, ensure_ascii=False)
    _write(sys.stdout, _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line))


def note(text: str) -> None:
    """A line on stderr: progress, hints, warnings."""
    _write(sys.stderr, printable(text))


def show(renderable: Any, columns: int = PIPE_COLUMNS) -> None:
    """A rich table or tree as an answer; `columns` wide where stdout is no terminal."""
    from rich.console import Console
    from rich.segment import Segment, Segments

    console = Console(width=None if sys.stdout.isatty() else columns, highlight=False)
    # Per piece of text, because the escapes between the pieces are rich's own colours.
    pieces = (
        segment if segment.control else Segment(printable(segment.text), segment.style)
        for segment in console.render(renderable)
    )
    console.print(Segments(pieces), end="", soft_wrap=True)
    sys.stdout.flush()


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, narrow: bool = False
) -> Any:
    """A table to `show`: the first column is text, the others are figures.

    Args:
        narrow: without lines between the columns, where a figure that is cut off would be no figure.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    named = None if title is None else escape(title)
    made = Table(
        title=named, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0) if narrow else (0, 1)
    )
    for number, name in enumerate(columns):
        justify: Any = "right" if number else "left"
        made.add_column(escape(name), justify=justify, no_wrap=bool(number), overflow="fold")
    for row in rows:
        made.add_row(*(escape(cell) for cell in row))
    return made


def pairs(summary: Mapping[str, Any]) -> str:
    """`name value  name value`, for a person."""
    return "  ".join(f"{name} {value}" for name, value in summary.items())


def _write(stream: TextIO, text: str) -> None:
    stream.write(text + "\n")
    stream.flush()
