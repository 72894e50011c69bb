"""Knowledge refinement: decompose, filter, recompose (arXiv 2401.15884, section 4.4).

A passage that is relevant as a whole is mostly irrelevant in detail. It is cut into strips, the strips are graded, and
the best are put back together in the order in which they stood.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, get_args

from crag_dspy.passages import Origin, Passage, Strip
from crag_dspy.state.arguments import check_choice, check_whole
from crag_dspy.text.scripts import UNSPACED
from crag_dspy.text.sentences import sentence_spans

StripMode = Literal["sentence", "window", "passage"]
STRIP_MODES: tuple[StripMode, ...] = get_args(StripMode)

Span = tuple[int, int]

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)", re.M)
# With a bar: a line of dashes alone underlines a heading or parts two paragraphs.
_TABLE_RULE = re.compile(
    r"^ {0,3}(?=[^|]*\|)\|?+[ \t]*+:?+-++:?+[ \t]*+(?:\|[ \t]*+:?+-++:?+[ \t]*+)*+\|?+[ \t]*+$"
)
# One unit of a window: a word with the white space after it, or one character of a script without spaces.
_UNIT = re.compile(rf"[{UNSPACED}]\s*|[^\s{UNSPACED}]+\s*")


def decompose(text: str, mode: StripMode | str = "sentence", group: int = 1) -> list[Span]:
    """Cut a text into strips.

    Args:
        text: any string.
        mode: "sentence": groups of `group` sentences. Rows of a Markdown table stay whole, and the first keeps the
            header; fenced code stays whole. "window": groups of `group` words, or characters where words are not
            spaced. "passage": the whole text.
        group: at least 1.

    Returns:
        Character spans `(start, end)`: they cover the text, in order, without overlap. None for an empty text.
    """
    check_choice("strip_mode", mode, STRIP_MODES)
    check_whole("strip_size", group)
    if not text:
        return []
    if mode == "passage":
        return [(0, len(text))]
    if mode == "window":
        return _grouped(_units(text), group)
    spans: list[Span] = []
    for start, end, kind in _blocks(text):
        if kind == "code":
            spans.append((start, end))
        elif kind == "table":
            spans += [(start + a, start + b) for a, b in _rows(text[start:end])]
        else:
            sentences = [(start + a, start + b) for a, b in sentence_spans(text[start:end])]
            spans += _grouped(sentences, group)
    return _without_blank(text, spans)


def strips_of(
    passages: Iterable[Passage], origin: Origin, mode: StripMode | str = "sentence", group: int = 1
) -> list[Strip]:
    """The strips of some passages, not yet scored: trimmed of outer white space, empty ones left out."""
    strips = []
    for passage in passages:
        for start, end in decompose(passage.text, mode, group):
            cut = passage.text[start:end]
            start += len(cut) - len(cut.lstrip())
            text = cut.strip()
            if text:
                strips.append(Strip(text, start, start + len(text), None, passage, origin))
    return strips


def select(strips: Sequence[Strip], threshold: float, top_n: int) -> list[Strip]:
    """Keep at most `top_n` strips that score at least `threshold`, in the order in which they came.

    Of strips that say the same, the first of the best is kept. A strip whose score is None was not judged: it is
    kept only where judged ones leave room.
    """
    ranked = sorted(
        (i for i, strip in enumerate(strips) if strip.score is None or strip.score >= threshold),
        key=lambda i: (strips[i].score is None, -(strips[i].score or 0.0), i),
    )
    best = distinct([strips[i] for i in ranked])[:top_n]
    chosen = {id(strip) for strip in best}
    return [strip for strip in strips if id(strip) in chosen]


def distinct(strips: Iterable[Strip]) -> list[Strip]:
    """Of strips that say the same under the same title, but for case and white space, the first."""
    firsts: dict[str, Strip] = {}
    for strip in strips:
        firsts.setdefault(" ".join(titled(strip.passage, strip.text).split()).casefold(), strip)
    return list(firsts.values())


def titled(passage: Passage, text: str) -> str:
    """What the grader reads: a strip often says "it", and only the title says what "it" is."""
    title = passage.title.strip()
    return (
        f"{title}: {text}" if title and title.casefold() not in text[: len(title) + 20].casefold() else text
    )


def with_header(strip: Strip) -> str:
    """What the grader and the generator read of a strip: a row of a Markdown table comes with its table's header."""
    if "|" not in strip.text:
        return strip.text
    header = table_header(strip.passage.text, strip.start)
    return strip.text if header is None else f"{header}\n{strip.text}"


def table_header(text: str, position: int) -> str | None:
    """The two header lines above `position` in its Markdown table; None outside of tables and within a header."""
    tables = _tables(text)
    i = bisect_right(tables, position, key=lambda table: table[0]) - 1
    return tables[i][2] if i >= 0 and position < tables[i][1] else None


@lru_cache(maxsize=64)  # asked once a row, and the row of a long table must not read the whole text again
def _tables(text: str) -> list[tuple[int, int, str]]:
    """The rows below the header of every table, as a span, and that header."""
    tables = []
    for start, end, kind in _blocks(text):
        if kind == "table":
            head = text[start:end].splitlines(keepends=True)[:2]
            tables.append((start + len("".join(head)), end, "\n".join(line.strip() for line in head)))
    return tables


def _units(text: str) -> list[Span]:
    spans = [match.span() for match in _UNIT.finditer(text)]
    if not spans:
        return [(0, len(text))]
    return [(0, spans[0][1]), *spans[1:]]  # leading white space goes with the first unit


def _grouped(spans: Sequence[Span], group: int) -> list[Span]:
    return [(spans[i][0], spans[min(i + group, len(spans)) - 1][1]) for i in range(0, len(spans), group)]


def _blocks(text: str) -> list[tuple[int, int, str]]:
    """Code, tables and prose, covering the text in order."""
    blocks: list[tuple[int, int, str]] = []
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def add(first: int, last: int, kind: str) -> None:
        if first == last:
            return
        if kind == "prose" and blocks and blocks[-1][2] == "prose":
            blocks[-1] = (blocks[-1][0], starts[last], "prose")
        else:
            blocks.append((starts[first], starts[last], kind))

    closers = _fence_ends(lines)
    i = 0
    while i < len(lines):
        if _FENCE.match(lines[i]) and (end := closers.get(i)):
            add(i, end, "code")
            i = end
        elif i + 1 < len(lines) and "|" in lines[i] and _TABLE_RULE.match(lines[i + 1].rstrip()):
            end = i + 2
            while end < len(lines) and "|" in lines[end]:
                end += 1
            add(i, end, "table")
            i = end
        else:
            add(i, i + 1, "prose")
            i += 1
    return blocks


def _fence_ends(lines: Sequence[str]) -> dict[int, int]:
    """Of each line that is a fence, the line after the next one that closes it: the same mark, at least as often.

    A fence that nothing closes is not in it, and its text is prose. Markdown would take all that follows for code: a
    page cut at its limit, or a quoted fence, would then be one strip.
    """
    ends: dict[int, int] = {}
    waiting: dict[str, list[tuple[int, int]]] = {"`": [], "~": []}  # (marks, line), fewer marks to the end
    for number, line in enumerate(lines):
        bare = line.strip()
        if not bare.startswith(("```", "~~~")):
            continue
        marks = len(bare) - len(bare.lstrip(bare[0]))
        opened = waiting[bare[0]]
        while opened and opened[-1][0] <= marks:
            ends[opened.pop()[1]] = number + 1
        opened.append((marks, number))
    return ends


def _rows(table: str) -> list[Span]:
    """One span a row; the header and its rule go with the first."""
    spans, position = [], 0
    for line in table.splitlines(keepends=True):
        spans.append((position, position + len(line)))
        position += len(line)
    head = spans[: min(3, len(spans))]
    return [(head[0][0], head[-1][1]), *spans[len(head) :]]


def _without_blank(text: str, spans: Sequence[Span]) -> list[Span]:
    """A span of white space alone joins the one before it (or after it, at the start)."""
    merged: list[Span] = []
    for start, end in spans:
        if merged and (not text[start:end].strip() or not text[merged[-1][0] : merged[-1][1]].strip()):
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged
