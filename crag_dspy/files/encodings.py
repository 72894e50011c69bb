"""Bytes to text, whatever they were written in: what is not UTF-8 is recognised, and said."""

from __future__ import annotations

import codecs
from typing import NamedTuple

from crag_dspy.errors import ConfigError

# UTF-32 begins with the mark of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What people's files are in. Rare ones are left out: short texts would pass for them.
_KNOWN = [
    *("gb18030", "big5", "cp932", "euc_jp", "cp949", "koi8_r"),
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
]
_LIKELY = ("gb18030", "big5", "cp1252", "cp1251")  # of those that fit equally well, the first
_NEAR = 0.1  # of the detector's coherence, in [0, 1]
MOST_DAMAGED = 0.2  # of the characters beyond ASCII
SAMPLE = 100_000  # bytes that are looked at


class Decoded(NamedTuple):
    """A text, and the name of its encoding."""

    text: str
    encoding: str


def decoded(raw: bytes) -> Decoded:
    """The text of some bytes.

    Raises:
        ConfigError: no encoding fits all of them.
    """
    encoding = encoding_of(raw)
    try:
        return Decoded(raw.decode(encoding), encoding.removesuffix("-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"not UTF-8, nor all {encoding} (byte {error.start}): convert it to UTF-8"
        ) from error


def encoding_of(raw: bytes) -> str:
    """The name of the encoding of some bytes, for `bytes.decode`; "utf-8-sig" for UTF-8 with a mark.

    Raises:
        ConfigError: it is not recognised.
    """
    for mark, name in _MARKS:
        if raw.startswith(mark):
            return name
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        sample = _sample(raw, error.start)
        found = None if _is_mostly("utf-8", sample) else _recognised(sample)
        if found is None:
            raise ConfigError(
                f"not UTF-8 (byte {error.start}), and its encoding is not recognised: convert it to UTF-8"
            ) from error
        return found
    return "utf-8"


def _sample(raw: bytes, wrong: int) -> bytes:
    """Some lines around the first byte that is not UTF-8: the rest may be all ASCII."""
    if len(raw) <= SAMPLE:
        return raw
    start = raw.rfind(b"\n", 0, wrong) + 1
    start = start if wrong - start < SAMPLE else wrong
    end = raw.rfind(b"\n", start, start + SAMPLE)
    return raw[start : end if end > start else start + SAMPLE]


def _is_mostly(encoding: str, raw: bytes) -> bool:
    """Most of what is not ASCII is in this encoding: to read the rest in another one would spoil all of it."""
    beyond = [char for char in raw.decode(encoding, "replace") if not char.isascii()]
    return beyond.count("\ufffd") < len(beyond) * MOST_DAMAGED


def _recognised(raw: bytes) -> str | None:
    from charset_normalizer import from_bytes

    if b"\0" in raw:  # of these encodings none has it: a picture, or a program
        return None
    found = list(from_bytes(raw, cp_isolation=_KNOWN))
    if not found:  # it takes Chinese with many foreign names for noise, and wants every byte to fit
        return "gb18030" if _is_mostly("gb18030", raw) else None
    best = found[0]
    near = [
        one for one in found if one.chaos <= best.chaos + 0.01 and one.coherence >= best.coherence - _NEAR
    ]
    names = {name for one in near for name in (one.encoding, *one.could_be_from_charset)}
    return next((name for name in _LIKELY if name in names), best.encoding)
