"""Long documents cut into passages, between sentences.

A passage is the unit that is retrieved, graded and cited, so it should hold a thought: sentences stay whole,
a Markdown heading opens a new chunk, and only a sentence longer than a whole chunk is cut inside, between
words. What a chunk cannot be understood without (the headings above it, the header of its table, the sentence
before its list) is repeated in it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from crag_dspy.refine import cut
from crag_dspy.state.arguments import check_whole
from crag_dspy.text.markdown import Block, read_blocks
from crag_dspy.text.scripts import UNSPACED

# A character of a script written without spaces counts as a word, and so do each 40 characters of a run
# without any space (a URL, base64): a chunk is bounded in characters too.
_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]{{1,40}}")


class Chunk(NamedTuple):
    """A part of a text: its characters, and what is repeated before them, which ends with a line break or is empty."""

    start: int
    end: int
    context: str = ""


def count_words(text: str) -> int:
    """Words of `text`; each character of a script written without spaces (Chinese, Japanese, Thai) is one."""
    return sum(1 for _ in _WORD.finditer(text))


def chunk(text: str, max_words: int | None = 200) -> list[tuple[int, int]]:
    """The spans (start, end) of `text`'s chunks: in order, without overlap, every non-space character in one.

    Args:
        text: any text, Markdown included (tables and fenced code are kept together while they fit).
        max_words: the most words in a chunk, >= 1 (see `count_words`); None keeps the text whole.

    Returns:
        Spans without white space at their ends; none for a text without any other character.
    """
    return [(start, end) for start, end, _ in chunks(text, max_words)]


def chunks(text: str, max_words: int | None = 200, title: str = "") -> list[Chunk]:
    """The same, each with what is repeated before it so that it can be read alone.

    What is repeated has at most half of `max_words`, and counts: only a chunk of one sentence or row may be longer
    with it. A heading that says what `title` says is not repeated, as the title is told of anyway.
    """
    if max_words is not None:
        check_whole("chunk_words", max_words)
    if max_words is None or count_words(text) <= max_words:
        return [Chunk(*span) for span in [_trimmed(text, 0, len(text))] if span is not None]
    found: list[Chunk] = []
    start, end, words, only_headings, context = 0, 0, 0, True, ""
    for unit_start, unit_end, block in _units(text, max_words):
        size, heading = count_words(text[unit_start:unit_end]), block.kind == "heading"
        # Headings in a row stay together: a chunk of headings only would say nothing.
        if words and (words + size > max_words or (heading and not only_headings)):
            found.append(Chunk(start, end, context))
            words, only_headings = 0, True
        if not words:
            start, context = unit_start, _context(text, unit_start, block, max_words // 2, title)
            words = count_words(context)
        end, words, only_headings = unit_end, words + size, only_headings and heading
    if words:
        found.append(Chunk(start, end, context))
    return found


def _context(text: str, start: int, block: Block, most: int, title: str) -> str:
    """The headings above a chunk's first block and what leads to it, outermost headings left out where it is too long.

    It is Markdown, so that the chunk is cut into strips as the document would be.
    """
    named = " ".join(title.split()).casefold()
    headings = [
        "#" * heading.level + " " + " ".join(text[heading.start : heading.end].split()) + "\n\n"
        for heading in block.headings
        if " ".join(text[heading.start : heading.end].split()).casefold() != named
    ]
    leads = [_lines(text, *span) for span in block.lead if span[1] <= start]
    line = text.rfind("\n", 0, start) + 1
    indentation = text[line:start] if not text[line:start].strip() else ""
    kept: list[str] = []
    room = most
    for part in reversed([*headings, *leads]):
        room -= count_words(part)
        if room < 0:
            break
        kept.insert(0, part)
    return "".join([*kept, indentation]) if kept else ""


def _lines(text: str, start: int, end: int) -> str:
    """What leads to a list or a table, as it stands: an item with its mark, a sentence as a paragraph."""
    line = text.rfind("\n", 0, start) + 1
    before = text[line:start]
    if start == line or before.strip(" \t>-*+0123456789.)"):
        return text[start:end].strip() + ("\n" if "|" in text[start:end] else "\n\n")
    return before + text[start:end].rstrip() + "\n"


def _units(text: str, max_words: int) -> list[tuple[int, int, Block]]:
    """Sentences, trimmed, with their blocks; those of more than `max_words` words in pieces of that many."""
    units: list[tuple[int, int, Block]] = []
    for (start, end), block in cut(text, read_blocks(text)):
        words = [match.span() for match in _WORD.finditer(text, start, end)]
        units.extend(
            (words[first][0], words[min(first + max_words, len(words)) - 1][1], block)
            for first in range(0, len(words), max_words)
        )
    return units


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    kept = text[start:end].strip()
    if not kept:
        return None
    first = text.index(kept, start)
    return first, first + len(kept)
