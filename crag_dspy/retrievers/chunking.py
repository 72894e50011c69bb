"""Long documents cut into passages, between sentences.

A passage is the unit that is retrieved, graded and cited, so it should hold a thought: sentences stay whole,
a Markdown heading opens a new chunk, and only a sentence longer than a whole chunk is cut inside, between
words.
"""

from __future__ import annotations

import re

from crag_dspy.refine import decompose
from crag_dspy.state.arguments import check_whole
from crag_dspy.text.scripts import UNSPACED

# A character of a script written without spaces counts as a word, and so do each 40 characters of a run
# without any space (a URL, base64): a chunk is bounded in characters too.
_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]{{1,40}}")
_HEADING = re.compile(r"\s*#{1,6}\s+\S[^\n]*")


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
    if max_words is not None:
        check_whole("chunk_words", max_words)
    if max_words is None or count_words(text) <= max_words:
        return [span for span in [_trimmed(text, 0, len(text))] if span is not None]
    chunks: list[tuple[int, int]] = []
    start, end, words, only_headings = 0, 0, 0, True
    for unit_start, unit_end in _units(text, max_words):
        unit = text[unit_start:unit_end]
        size, heading = count_words(unit), bool(_HEADING.fullmatch(unit.rstrip()))
        # Headings in a row stay together: a chunk of headings only would say nothing.
        if words and (words + size > max_words or (heading and not only_headings)):
            chunks.append((start, end))
            start, words, only_headings = unit_start, 0, True
        elif not words:
            start = unit_start
        end, words, only_headings = unit_end, words + size, only_headings and heading
    if words:
        chunks.append((start, end))
    return chunks


def _units(text: str, max_words: int) -> list[tuple[int, int]]:
    """Sentences, trimmed; those of more than `max_words` words in pieces of that many."""
    units: list[tuple[int, int]] = []
    for start, end in decompose(text, mode="sentence"):
        words = [match.span() for match in _WORD.finditer(text, start, end)]
        units.extend(
            (words[first][0], words[min(first + max_words, len(words)) - 1][1])
            for first in range(0, len(words), max_words)
        )
    return units


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    kept = text[start:end].strip()
    if not kept:
        return None
    first = text.index(kept, start)
    return first, first + len(kept)
