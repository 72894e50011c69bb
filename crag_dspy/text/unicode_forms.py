"""Unicode's normal forms, for text that somebody else wrote."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

# Python sorts marks that are piled on one letter by insertion, so 20,000 of them take seconds. The standard's own way
# out (UAX 15, stream-safe text) is that no letter has more than 30.
_MOST = 30
_PILE = re.compile(r"[^\w\s!-~]{31,}")


def normal_form(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """`unicodedata.normalize`, in linear time: marks above the thirtieth on one letter are dropped."""
    return text if text.isascii() else unicodedata.normalize(form, _PILE.sub(_thinned, text))


def _thinned(pile: re.Match[str]) -> str:
    kept, marks = [], 0
    for char in pile[0]:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= _MOST:
            kept.append(char)
    return "".join(kept)
