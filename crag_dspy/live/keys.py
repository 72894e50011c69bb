"""Keys are taken out of every text that an error becomes: a warning, a log line, a result, a report.

Services and HTTP libraries repeat what they were sent: whole, cut short, masked in the middle, or escaped.
"""

from __future__ import annotations

import base64
import os
import re
import string
import sys
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

# What a variable, an option or a table is called that holds a key.
SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:keys?|api_?keys?|access_key_id|(?<!max_)token|secrets?|passwords?|passwd|passphrase|authorization"
    r"|bearer|credentials?|(?:extra_)?headers)$",
    re.I,
)
# A piece of so many characters is a key's: fewer would also take words out that are nobody's secret.
PIECE = 6
SHORTEST = 8  # a shorter value of the environment is more likely a flag than a key
_TOLD = "[key]"
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # keeps every character's place
# What masking leaves beside a piece: the stars, and the last few characters.
_MASKED = re.compile(r"(?:\[key\])+(?:[*.•…xX]{2,}[\w-]{0,8})?")
_given: set[str] = set()


def remember(key: str) -> None:
    """A key that came as an argument, so that only the program knows it."""
    _given.add(key)


def without_keys(text: str, *parts: Any) -> str:
    """`text` with `[key]` for every known key, and for every piece of one of at least `PIECE` characters.

    Known are the keys given to parts of this library, those of environment variables named like a key, those of
    DSPy's language model, and those of `parts`: language models, or modules that have some.
    """
    hidden = bytearray(len(text))
    lower = text.translate(_LOWER)
    for key in _known(parts):
        for form in _forms(key):
            _mark(lower, form.translate(_LOWER), hidden)
    if not any(hidden):
        return text
    shown, place = [], 0
    while place < len(text):
        end = place
        while end < len(text) and hidden[end] == hidden[place]:
            end += 1
        shown.append(_TOLD if hidden[place] else text[place:end])
        place = end
    return _MASKED.sub(_TOLD, "".join(shown))


def _mark(text: str, key: str, hidden: bytearray) -> None:
    size = min(PIECE, len(key))
    pieces = {key[start : start + size] for start in range(len(key) - size + 1)}
    for start in range(len(text) - size + 1):
        if text[start : start + size] in pieces:
            hidden[start : start + size] = b"\1" * size


def _known(parts: Iterable[Any]) -> set[str]:
    found = set(_given)
    for name, value in os.environ.items():
        if SECRET_NAME.search(name) and len(value.strip()) >= SHORTEST and not os.path.exists(value.strip()):
            found.add(value)
    dspy = sys.modules.get("dspy")
    models = [] if dspy is None else [dspy.settings.lm]
    for part in parts:
        predictors = getattr(part, "predictors", None)
        models += [part] if predictors is None else [predictor.lm for predictor in predictors()]
    for model in models:
        options = getattr(model, "kwargs", None)
        if isinstance(options, Mapping):
            found.update(_values(options))
    return {key for key in found if len(key.strip()) >= 4}


def _values(options: Mapping[str, Any], named: bool = False) -> Iterable[str]:
    """The keys among a model's options, headers included."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _values(value, SECRET_NAME.search(str(name)) is not None)
        elif isinstance(value, str) and (named or SECRET_NAME.search(str(name))):
            yield value


def _forms(key: str) -> set[str]:
    """A key as texts show it: as it is, its lines, escaped for addresses and in Base64 of whatever comes before it."""
    key = key.strip()
    forms = {key, quote(key, safe=""), *(piece for piece in re.split(r"\s+", key) if len(piece) >= 4)}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + key.encode("utf-8", "replace")).decode()
        forms.add(encoded.rstrip("=")[4 if before else 0 : -1])
    return {form for form in forms if len(form) >= 4}
