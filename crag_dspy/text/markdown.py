"""What stands where in a text that may be Markdown: headings, lists, tables, code, and the prose between them.

`markdown-it-py` finds the blocks. A text without any mark of Markdown is one block of prose, and so is whatever only
looks like Markdown: a paragraph above a line of dashes, or all that follows a fence that nothing closes.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

Span = tuple[int, int]
Kind = Literal["prose", "code", "row", "item", "heading", "rule"]

MOST_NESTED = 20  # lists in lists and quotes; what is deeper is read as text
LONGEST_HEADING = 200  # characters; what is longer says something by itself
LONGEST_ITEM = 400  # characters; a longer item of a list is cut into sentences
LONGEST_LEAD = 300  # characters of a lead-in, or of the item that a list belongs to
LONGEST_HEADER = 600  # characters of a table's header; it is shown with every row
MOST_LEADS = 4  # of nested lists, the nearest

_LINE = re.compile(r"\r\n?|\n")
# Where a line can begin a block that is no prose. Without one the parser need not read the text.
_MARK = re.compile(r"^[ \t>]*+(?:[#*+=-]|\d{1,9}[.)]|```|~~~|[^\n|]*+\|)", re.M)
_FENCE = re.compile(r"(`{3,}(?=[^`\n]*$)|~{3,})", re.M)
_BEFORE_FENCE = re.compile(r"[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)*+")
_BEFORE_CLOSING = re.compile(r"[ \t>]*+")
_BEFORE_TEXT = re.compile(r"[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])(?:[ \t]++|$))*+")
_SENTENCE_END = re.compile(r"[.。!！?？…;；,，][\"'”’」』）)]*$")
_FIELD = re.compile(r"[\w-]+[ \t]*+:(?:\s|$)")
_FIELD_GOES_ON = re.compile(r"\s|[-#]|$")
_TITLE = re.compile(r"title[ \t]*+:[ \t]*+([^\n]++)", re.I)
NEAR_START = 20_000  # characters in which a text says what it is called
MOST_FIELDS = 200  # lines of a front matter


class Heading(NamedTuple):
    """A heading: its level, from 1, and the characters of its words."""

    level: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a text.

    Attributes:
        start, end: its characters.
        kind: "row" is a row of a table (the first has the header), or a field of a front matter; "rule" says nothing.
        headings: those above it, outermost first.
        lead: what it cannot be understood without: the header of its table, the sentence that leads to its list, the
            items that its list is part of.
    """

    start: int
    end: int
    kind: Kind
    headings: tuple[Heading, ...] = ()
    lead: tuple[Span, ...] = ()


@dataclass(slots=True)
class _List:
    lead: Span | None  # the sentence before it
    several: bool  # items
    item: Span | None = None  # the first paragraph of the present item


@lru_cache(maxsize=64)  # asked once a strip, and the row of a long table must not read the whole text again
def blocks(text: str) -> tuple[Block, ...]:
    """The blocks of a text: they cover it, in order. None for an empty text."""
    return tuple(read_blocks(text))


def block_at(text: str, position: int) -> Block:
    """The block that a character is in."""
    found = blocks(text)
    return found[max(0, bisect_right(found, position, key=lambda block: block.start) - 1)]


def read_blocks(text: str) -> list[Block]:
    """`blocks` of a text that nobody will ask for again."""
    if not text:
        return []
    if not _MARK.search(text):
        return [Block(0, len(text), "prose")]
    return _Reading(text).blocks()


def title_of(text: str) -> str:
    """What a text calls itself: the title of its front matter, else its first heading; "" for neither."""
    if not _MARK.search(text, 0, NEAR_START):
        return ""
    reading = _Reading(text[:NEAR_START])
    for block in reading.blocks():
        if (
            text.startswith("---")
            and block.kind == "row"
            and (named := _TITLE.match(text, block.start, block.end))
        ):
            return named[1].strip().strip("'\"").strip()
    return reading.first_heading


class _Reading:
    """One text as it is read: the headings and lists that are open, and the blocks found so far."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in _LINE.finditer(text))]
        if self._starts[-1] < len(text):
            self._starts.append(len(text))
        self._headings: list[Heading] = []
        self._lists: list[_List] = []
        self._before: Span | None = None  # the paragraph just before
        self._found: list[Block] = []
        self._line = 0
        self.first_heading = ""

    def blocks(self) -> list[Block]:
        lines = [self._text[a:b] for a, b in zip(self._starts, self._starts[1:], strict=False)]
        after = self._front_matter(lines)
        source = "\n" * after + "\n".join(line.rstrip("\r\n") for line in lines[after:])
        tokens = _parser().parse(source, {"closings": _closings(lines), "outside": {}})
        several = _of_several(tokens)
        for place, token in enumerate(tokens):
            self._take(token, tokens[place + 1].content if place + 1 < len(tokens) else "", place in several)
        self._fill(len(lines))
        return self._found

    def _take(self, token: Token, content: str, several: bool) -> None:
        kind = token.type
        if kind in ("bullet_list_open", "ordered_list_open"):
            self._lists.append(_List(self._lead_in() if not self._lists else None, several))
        elif kind in ("bullet_list_close", "ordered_list_close"):
            self._lists.pop()
            self._before = None
        elif kind == "list_item_open":
            self._lists[-1].item = None
        if token.map is None:
            return
        first, last = token.map
        if kind == "heading_open" and self._is_heading(token, content):
            self._heading(int(token.tag[1:]), first, last, content)
        elif kind in ("heading_open", "paragraph_open"):
            self._paragraph(first, last)
        elif kind == "table":
            self._table(first, last)
        elif kind == "hr":
            self._add(first, last, "rule")
        elif kind == "fence" or (kind == "code_block" and self._lists):
            self._add(first, last, "code", (*self._leads(), *self._here()))

    def _is_heading(self, token: Token, content: str) -> bool:
        """Not what is part of a list or a quote, nor a paragraph that happens to stand above dashes."""
        if token.level or not content or len(content) > LONGEST_HEADING:
            return False
        return token.markup.startswith("#") or not ("\n" in content or _SENTENCE_END.search(content))

    def _heading(self, level: int, first: int, last: int, content: str) -> None:
        while self._headings and self._headings[-1].level >= level:
            self._headings.pop()
        self._add(first, last, "heading")
        self.first_heading = self.first_heading or content
        start = max(self._text.find(content, self._starts[first], self._starts[last]), self._starts[first])
        self._headings.append(Heading(level, start, min(start + len(content), self._starts[last])))

    def _paragraph(self, first: int, last: int) -> None:
        words = self._words(first, last)
        if not self._lists:
            self._add(first, last, "prose")
            self._before = words
            return
        inner = self._lists[-1]
        leads, begins = self._leads(), inner.item is None
        if begins:
            inner.item = words[0], min(words[1], words[0] + LONGEST_LEAD)
        else:
            leads = (*leads, *self._here())
        whole = begins and words[1] - words[0] <= LONGEST_ITEM and (inner.several or leads)
        self._add(first, last, "item" if whole else "prose", leads)

    def _table(self, first: int, last: int) -> None:
        leads = (*self._leads(), *(self._here() if self._lists else ()))
        self._add(first, min(first + 3, last), "row", leads)
        start, end = self._starts[first], self._starts[first + 2]
        header = start, min(end, start + LONGEST_HEADER)
        for row in range(first + 3, last):
            self._add(row, row + 1, "row", (*leads, header))

    def _leads(self) -> tuple[Span, ...]:
        """What the present item of the innermost list hangs on."""
        found = [span for each in self._lists[:-1] for span in (each.lead, each.item) if span]
        found += [self._lists[-1].lead] if self._lists and self._lists[-1].lead else []
        return tuple(found[-MOST_LEADS:])

    def _here(self) -> tuple[Span, ...]:
        """What a block within an item, or below a paragraph, hangs on beside."""
        near = self._lists[-1].item if self._lists else self._lead_in()
        return (near,) if near else ()

    def _lead_in(self) -> Span | None:
        """The last sentence of the paragraph just before, where it leads on: it ends with a colon, or does not end."""
        from crag_dspy.text.sentences import sentence_spans

        if self._before is None:
            return None
        start, end = max(self._before[0], self._before[1] - LONGEST_LEAD), self._before[1]
        near = self._text[start:end]
        return None if _SENTENCE_END.search(near) or not near else (start + sentence_spans(near)[-1][0], end)

    def _add(self, first: int, last: int, kind: Kind, lead: tuple[Span, ...] = ()) -> None:
        self._fill(first)
        self._before = None
        first = max(first, self._line)
        if first < last:
            self._append(
                Block(self._starts[first], self._starts[last], kind, tuple(self._headings), tuple(lead))
            )
            self._line = last

    def _fill(self, line: int) -> None:
        """What stands between the blocks: blank lines belong to the block before them, and all else is prose."""
        while self._line < line:
            start, end = self._starts[self._line], self._starts[self._line + 1]
            if self._found and not self._text[start:end].strip():
                last = self._found[-1]
                self._found[-1] = Block(last.start, end, last.kind, last.headings, last.lead)
            else:
                self._append(Block(start, end, "prose", tuple(self._headings)))
            self._line += 1

    def _append(self, block: Block) -> None:
        last = self._found[-1] if self._found else None
        if last and not self._text[last.start : last.end].strip():  # the text begins with blank lines
            self._found[-1] = Block(last.start, block.end, block.kind, block.headings, block.lead)
        elif (
            last
            and last.kind == block.kind == "prose"
            and (last.headings, last.lead) == (block.headings, block.lead)
        ):
            self._found[-1] = Block(last.start, block.end, "prose", block.headings, block.lead)
        else:
            self._found.append(block)

    def _words(self, first: int, last: int) -> Span:
        """The characters of some lines without list marks before them and white space around them."""
        mark = _BEFORE_TEXT.match(self._text, self._starts[first], self._starts[last])
        start = mark.end() if mark else self._starts[first]
        return start, start + len(self._text[start : self._starts[last]].rstrip())

    def _front_matter(self, lines: Sequence[str]) -> int:
        """Takes the fields between two lines of dashes at the very start; returns the line after them, or 0."""
        if lines[0].strip("\ufeff \t\r\n") != "---":
            return 0
        fields = []
        for number, line in enumerate(lines[1 : MOST_FIELDS + 2], 1):
            if line.strip() in ("---", "..."):
                break
            if _FIELD.match(line):
                fields.append(number)
            elif not (fields and _FIELD_GOES_ON.match(line)):
                return 0
        else:
            return 0
        if not fields:
            return 0
        self._add(0, 1, "rule")
        for start, end in zip(fields, [*fields[1:], number], strict=True):
            self._add(start, end, "row")
        self._add(number, number + 1, "rule")
        return number + 1


def _of_several(tokens: Sequence[Token]) -> set[int]:
    """Which tokens open a list of more than one item."""
    found: set[int] = set()
    open_lists: list[list[int]] = []
    for place, token in enumerate(tokens):
        if token.type.endswith("_list_open"):
            open_lists.append([place, 0])
        elif token.type == "list_item_open":
            open_lists[-1][1] += 1
        elif token.type.endswith("_list_close"):
            opened, items = open_lists.pop()
            if items > 1:
                found.add(opened)
    return found


def _closings(lines: Sequence[str]) -> dict[int, int]:
    """Of each line that may open a fence, the line after the one that closes it: the same mark, at least as often.

    Markdown would take all that follows a fence without an end for code: a page cut at its limit, or a quoted fence,
    would then be one strip.
    """
    found: dict[int, int] = {}
    waiting: dict[str, list[tuple[int, int]]] = {"`": [], "~": []}  # (marks, line), fewest marks first
    for number, line in enumerate(lines):
        if "```" not in line and "~~~" not in line:
            continue
        closing = line[_BEFORE_CLOSING.match(line).end() :].strip()  # type: ignore[union-attr]
        if closing and not closing.strip(closing[0]) and closing[0] in waiting:
            opened = waiting[closing[0]]
            while opened and opened[0][0] <= len(closing):
                found[heapq.heappop(opened)[1]] = number + 1
        if opening := _FENCE.match(line, _BEFORE_FENCE.match(line).end()):  # type: ignore[union-attr]
            heapq.heappush(waiting[opening[0][0]], (len(opening[0]), number))
    return found


def _fence(state: Any, start: int, end: int, silent: bool) -> bool:
    """The parser's rule for fenced code, for fences that something closes."""
    after = state.env["closings"].get(start)
    if after is None or after > end or state.is_code_block(start):
        return False
    if not _FENCE.match(state.src, state.bMarks[start] + state.tShift[start], state.eMarks[start]):
        return False
    if state.blkIndent and after > _outside(state, start, end):
        return False
    if not silent:
        state.line = after
        state.push("fence", "code", 0).map = [start, after]
    return True


def _outside(state: Any, start: int, end: int) -> int:
    """The first line after `start` outside of the item of a list that `start` is in. Each line is looked at once."""
    known, place = state.env["outside"], (state.blkIndent, end)
    since, line = known.get(place, (0, 0))
    if not since <= start < line:
        line = start + 1
        while line < end and (state.sCount[line] >= state.blkIndent or state.isEmpty(line)):
            line += 1
        known[place] = start, line
    return int(line)


def _table(state: Any, start: int, end: int, silent: bool) -> bool:
    """The parser's rule for tables, which makes tokens of every cell, without them. Each row has a bar."""
    from markdown_it.rules_block import table

    if not table(state, start, end, True):
        return False
    if silent:
        return True
    others = state.md.block.ruler.getRules("blockquote")
    last = start + 2
    while (
        last < end
        and state.sCount[last] >= state.blkIndent
        and "|" in state.src[state.bMarks[last] : state.eMarks[last]]
        and not any(rule(state, last, end, True) for rule in others)
    ):
        last += 1
    state.line = last
    state.push("table", "table", 0).map = [start, last]
    return True


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"maxNesting": MOST_NESTED}).enable("table")
    made.disable(["html_block", "reference"])  # they are text
    made.core.ruler.enableOnly(["normalize", "block"])  # where blocks are, not what is bold in them
    made.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    made.block.ruler.at("fence", _fence, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    return made


def texts_of(text: str, spans: Sequence[Span]) -> Iterator[str]:
    """What some spans say, each line without the white space around it."""
    for start, end in spans:
        yield "\n".join(line.strip() for line in text[start:end].strip().splitlines())
