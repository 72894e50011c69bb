"""The one place where commands print: answers to stdout, everything else to stderr.

What documents, file names and errors hold may move a terminal's cursor or rename its window: `printable` shows such
characters instead of sending them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

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
        Segment(printable(segment.text), _without_escapes(segment.style))
        for segment in console.render(renderable)
        if not segment.control
    )
    console.print(Segments(pieces), end="", soft_wrap=True)
    sys.stdout.flush()


def _without_escapes(style: Any) -> Any:
    """A link's address is sent as it is, so one that a terminal would obey is no link."""
    return style.update_link(None) if style and style.link and _CONTROL.search(style.link) else style


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """A table: the first column is text, the others are figures, which are never cut off."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for number, name in enumerate(columns):
        justify: Any = "right" if number else "left"
        made.add_column(escape(name), justify=justify, no_wrap=bool(number), overflow="fold")
    for row in rows:
        made.add_row(*(escape(cell) for cell in row))
    if title is not None:
        answer(title)
    show(made)


def pairs(summary: Mapping[str, Any]) -> str:
    """`name value  name value`, for a person."""
    return "  ".join(f"{name} {value}" for name, value in summary.items())


def tell(args: argparse.Namespace, found: Any) -> None:
    """A result as the options say: JSON with --json, Markdown with --markdown, else for a person."""
    if args.json:
        answer_json(found.to_json())
    else:
        answer(found.markdown() if getattr(args, "markdown", False) else str(found))


def kept_in(run: str | Path, page: str | None = None) -> None:
    """Where the folder of a run is, and its page."""
    note(f"Kept in {run}" + (f": open {run}/{page}" if page else ""))


def _write(stream: TextIO, text: str) -> None:
    stream.write(text + "\n")
    stream.flush()
