"""What a language model calls a search query, made into one.

Models wrap queries in code fences, JSON, quotes and labels, or explain them. A search engine takes the
wrapping as words, and refuses what is too long. Pure, and the same for every engine.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple

# Tavily refuses longer queries with a 400; other engines cut them without saying so.
QUERY_LIMIT = 400

_FENCE = re.compile(r"```(?:[\w+-]*[ \t]*\n)?(.*?)(?:```|\Z)", re.DOTALL)
_JSON_FIELDS = (
    "query",
    "search_query",
    "rewritten_query",
    "q",
    "keywords",
    "queries",
    "search",
    "text",
)
# JSON that was cut short or written with single quotes does not parse; its query can still be read.
_BROKEN_JSON = re.compile(
    rf"""["'](?:{"|".join(_JSON_FIELDS)})["']\s*:\s*\[?\s*["'](.+?)(?:["']\s*[\]}},]|["']?\s*\Z)""", re.DOTALL
)
_LABEL = re.compile(
    r"""^[\s*_#>]*(?:
        (?:sure|here\ is|here's|here\ are|this\
        is)\b[^:：\n]{0,60}?\b(?:quer|keyword|search|terms)[^:：\n]{0,40}
      | (?:the\ )?(?:re-?written\ |refined\ |improved\ |optimi[sz]ed\ |final\ |original\ )?
        (?:(?:web\ |google\ )?search\ )?(?:query|queries|keywords?|terms|question)
      | (?:web\ )?search
      | (?:改写后的|重写后的|优化后的)?(?:搜索|检索|查询)?(?:查询|关键词|关键字|词|语句|问题)
      | 搜索 | 检索
    )[\s*_]*[:：][\s*_]*""",
    re.IGNORECASE | re.VERBOSE,
)
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "「": "」", "『": "』", "«": "»"}
_EMPTY_WORDS = frozenset({"none", "null", "n/a", "nil", "无"})
_MARKER = re.compile(r"^(?:[-*•]|\d{1,2}[.)])\s+")
# Zero-width and direction controls: invisible, and never part of what is looked for. ZWNJ and ZWJ (200C, 200D)
# stay: Persian and Indic words are spelled with them. Half a surrogate pair is taken by no encoder.
_DROPPED = "\u200b\u200e\u200f\u2060\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_CONTROLS: dict[int, str | None] = {
    **dict.fromkeys((*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029), " "),
    **dict.fromkeys((*map(ord, _DROPPED), *range(0xD800, 0xE000)), None),
    ord("\n"): "\n",
}
# Thai, Lao, Burmese, Khmer, kana, Han and full-width forms.
_SPACELESS = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
    r"\U00020000-\U0003ffff]"
)


class CleanedQuery(NamedTuple):
    """A query that can be sent, and what was done to it, as sentences for the trace."""

    text: str
    notes: list[str]


def clean_query(raw: Any, original: str, limit: int = QUERY_LIMIT) -> CleanedQuery:
    """Make what a model wrote into a search query of at most `limit` characters, on one line.

    Unwraps code fences, JSON, labels ("Search query:") and quotes, keeps the first paragraph, removes control
    characters, and cuts at a word boundary (between characters in scripts written without spaces).

    Args:
        raw: what the model wrote; None counts as nothing.
        original: the user's question, sent instead when nothing is left.
        limit: most characters, at least 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1 character, got {limit}")
    notes: list[str] = []
    text = _unwrapped("" if raw is None else str(raw)[: limit * 50])
    if not _says_something(text):
        notes.append("The rewritten query was empty: the original question was sent.")
        text = _one_line(_without_controls(original))
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


def _unwrapped(text: str) -> str:
    """Peel until nothing changes: a fence around JSON around quotes is common. No step lengthens the text."""
    while True:
        peeled = text
        for peel in _PEELS:
            peeled = peel(peeled).strip()
        if peeled == text:
            return _one_line(text)
        text = peeled


def _without_controls(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


def _out_of_fence(text: str) -> str:
    match = _FENCE.search(text)
    return match.group(1) if match else text


def _out_of_json(text: str) -> str:
    if not text.startswith(("{", "[")):
        return text
    try:
        return _from_json(json.loads(text))
    except (ValueError, RecursionError):
        match = _BROKEN_JSON.search(_one_line(text))
        return match.group(1) if match else text


def _from_json(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        for name in _JSON_FIELDS:
            if name in value:
                return _from_json(value[name])
        return next((item for item in value.values() if isinstance(item, str)), "")
    if isinstance(value, list):
        return " ".join(item for item in value if isinstance(item, str))
    return ""


def _without_label(text: str) -> str:
    while match := _LABEL.match(text):
        text = text[match.end() :]
    return text


def _first_paragraph(text: str) -> str:
    """What follows an empty line explains the query; the lines before it are one query, or its terms."""
    lines = re.split(r"\n\s*\n", text, maxsplit=1)[0].splitlines()
    if len(lines) > 1:
        lines = [_MARKER.sub("", line.strip()) for line in lines]
    return " ".join(lines)


def _without_quotes(text: str) -> str:
    """Quotes around everything go, as does one left open; quotes around a part are search syntax."""
    while len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        inside = text[1:-1]
        if text[0] in inside or text[-1] in inside:
            return text
        text = inside.strip()
    return text.strip('"') if text.count('"') == 1 else text


_PEELS = (_without_controls, _out_of_fence, _out_of_json, _without_label, _first_paragraph, _without_quotes)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _says_something(text: str) -> bool:
    return text.strip(".").lower() not in _EMPTY_WORDS and any(char.isalnum() for char in text)
