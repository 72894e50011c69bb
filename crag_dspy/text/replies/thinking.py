"""What a language model wrote around its answer: its thinking, and the markers of the format it was asked in."""

from __future__ import annotations

import re
from typing import Any

_CLOSED = re.compile(r"<(think|thinking)>.*?</\1>", re.I | re.S)
_OPENED = re.compile(r"\s*<think(?:ing)?>", re.I)
_CLOSING = re.compile(r"</think(?:ing)?>", re.I)
# DSPy's header of a field, on a line of its own or, from small models, at the end of the answer's.
_MARKER = re.compile(r"\[\[ {0,3}## {0,3}(\w{1,64}) {0,3}## {0,3}\]\]")


def without_thinking(text: str) -> str:
    """`text` without what stands between <think> and </think>.

    Where the prompt opened the thinking, the reply has only its end; where the reply was cut, only its beginning.
    """
    if "think" not in text.lower():
        return text
    said = _CLOSED.sub(" ", text) if _CLOSING.search(text) else text
    ends = list(_CLOSING.finditer(said))
    if ends:
        said = said[ends[-1].end() :]
    return "" if _OPENED.match(said) else said


def without_markers(text: str, field: str | None = None) -> str:
    """The value in `text`, without the markers of fields: what stands before the first that follows it.

    Args:
        field: the name of the field that is read; what stands under its own marker goes before what stands elsewhere.
    """
    if "[[" not in text:
        return text
    parts = _MARKER.split(text)  # text, name, text, name, text
    values = [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]
    named = [value for name, value in values if name == field and value.strip()]
    return next((value for value in [*named, *(value for _, value in values)] if value.strip()), "").strip()


def reply_text(said: Any, field: str | None = None) -> str:
    """What a language model said, as text, without its thinking and without markers of fields; "" for None."""
    return "" if said is None else without_markers(without_thinking(str(said)), field).strip()
