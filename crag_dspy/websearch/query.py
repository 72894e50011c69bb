"""What a language model calls a search query, made into one.

Models wrap queries in code fences, JSON, quotes and labels, or explain them (see `text/replies/envelopes.py`). A search
engine takes the wrapping as words, and refuses what is too long. Pure, and the same for every engine.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, NamedTuple

from crag_dspy.text.common_words import says_something
from crag_dspy.text.replies import one_line, unwrapped
from crag_dspy.text.scripts import CJK_MARKS, UNSPACED

# Tavily refuses longer queries with a 400; other engines cut them without saying so.
QUERY_LIMIT = 400

_EMPTY_WORDS = frozenset({"none", "null", "n/a", "nil", "无"})
_SPACELESS = re.compile(f"[{UNSPACED}{CJK_MARKS}]")


class CleanedQuery(NamedTuple):
    """A query that can be sent, and what was done to it, as sentences for the trace."""

    text: str
    notes: list[str]


def clean_query(raw: Any, original: str, limit: int = QUERY_LIMIT) -> CleanedQuery:
    """Make what a model wrote into a search query of at most `limit` characters, on one line.

    Unwraps thinking, code fences, JSON, tool calls, labels ("Search query:") and quotes, keeps the first paragraph,
    removes control characters, and cuts at a word boundary (between characters in scripts written without spaces).

    Args:
        raw: what the model wrote; None counts as nothing.
        original: the user's question, sent instead when nothing is left, or no word to search for.
        limit: most characters, at least 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1 character, got {limit}")
    notes: list[str] = []
    asked = one_line(original)
    text = unwrapped("" if raw is None else str(raw)[: limit * 50])
    if text != asked and (problem := _problem(text)):
        notes.append(f"The rewritten query {problem}: the original question was sent.")
        text = asked
    cut = cut_at_word(text, limit)
    if cut != text:
        notes.append(f"The query was cut from {len(text)} to {len(cut)} characters (limit {limit}).")
    return CleanedQuery(cut, notes)


def cut_at_word(text: str, limit: int) -> str:
    """The longest prefix of whole words within `limit` characters; a very long word is cut inside.

    In scripts written without spaces every character ends a word; a combining mark stays with its letter.
    """
    if len(text) <= limit:
        return text
    for end in range(limit, limit // 2, -1):
        if _is_boundary(text, end):
            return text[:end].rstrip()
    end = limit
    while end > 1 and unicodedata.combining(text[end]):
        end -= 1
    return text[:end].rstrip()


def _is_boundary(text: str, at: int) -> bool:
    if unicodedata.combining(text[at]):
        return False
    return text[at].isspace() or text[at - 1].isspace() or bool(_SPACELESS.match(text[at - 1]))


def _problem(text: str) -> str | None:
    """What makes a query useless; None when it can be searched for."""
    if text.strip(".").lower() in _EMPTY_WORDS or not any(char.isalnum() for char in text):
        return "was empty"
    return None if says_something(text) else f"{text[:80]!r} has no word to search for"
