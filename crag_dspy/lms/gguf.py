"""The header of a GGUF file: what the engine has to know about a model before it loads it.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import hashlib
import mmap
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crag_dspy.errors import ArtefactError

# GGUF value types -> struct codes; 8 is a string and 9 an array.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_CONTROL = 3  # tokenizer.ggml.token_type

# llama.cpp's llama_ftype, the ones that files in circulation have.
_QUANTISATIONS = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL",
    26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0",
    37: "TQ2_0", 38: "MXFP4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """What a model file says about itself.

    `chat_template` is "" for a base model. `control_tokens` are the texts that the tokenizer would read as
    control tokens inside a prompt ("<eos>", "<|im_start|>"). `fingerprint` is 8 hex digits of the file's size and
    both ends: a name for caches, not a proof of integrity.
    """

    name: str
    architecture: str
    quantisation: str
    context_length: int
    chat_template: str
    control_tokens: frozenset[str]
    fingerprint: str


def read_gguf(path: str | Path) -> GGUFHeader:
    """Read the header of a model file. Raises `ArtefactError` for anything that has no whole GGUF header."""
    path = Path(path)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            fields, tokens, kinds = _read_fields(data)
            fingerprint = _fingerprint(data)
    except (struct.error, ValueError, LookupError, OverflowError, RecursionError) as error:
        raise ArtefactError(
            f"{path} is not a GGUF model file, or is cut short ({error}): download it again"
        ) from error
    architecture = str(fields.get("general.architecture", ""))
    template = str(fields.get("tokenizer.chat_template", ""))
    control = {token for token, kind in zip(tokens, kinds, strict=False) if kind == _CONTROL}
    # Some converters mark the turn markers as user-defined tokens: what the template writes is a marker too.
    control |= set(re.findall(r"<[^<>\s{}]{1,40}>|\[/?[A-Z_]+\]", template))
    file_type = int(fields.get("general.file_type", -1))
    return GGUFHeader(
        name=str(fields.get("general.name", "")) or path.stem,
        architecture=architecture,
        quantisation=_QUANTISATIONS.get(file_type, f"type{file_type}"),
        context_length=int(fields.get(f"{architecture}.context_length", 0)),
        chat_template=template,
        control_tokens=frozenset(control),
        fingerprint=fingerprint,
    )


def _fingerprint(data: mmap.mmap) -> str:
    end = 1 << 20
    digest = hashlib.sha256(str(len(data)).encode())
    digest.update(data[:end])
    digest.update(data[-end:])
    return digest.hexdigest()[:8]


def _read_fields(data: mmap.mmap) -> tuple[dict[str, Any], list[str], list[int]]:
    """The scalar and string fields, the vocabulary and the kind of each token. Other arrays are skipped."""
    magic, version, _, count = struct.unpack_from("<4sIQQ", data, 0)
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(f"it starts with {magic!r}, version {version}")
    position = 24
    fields: dict[str, Any] = {}
    tokens: list[str] = []
    kinds: list[int] = []
    for _ in range(count):
        key, position = _string(data, position)
        (kind,) = struct.unpack_from("<I", data, position)
        position += 4
        if kind != _ARRAY:
            fields[key], position = _value(data, position, kind)
        elif key == "tokenizer.ggml.tokens":
            tokens, position = _array(data, position)
        elif key == "tokenizer.ggml.token_type":
            kinds, position = _array(data, position)
        else:
            _, position = _array(data, position, wanted=False)
    return fields, tokens, kinds


def _string(data: mmap.mmap, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, position)
    start, end = position + 8, position + 8 + length
    if end > len(data):
        raise ValueError("a text reaches past the end of the file")
    return data[start:end].decode("utf-8", "replace"), end


def _value(data: mmap.mmap, position: int, kind: int) -> tuple[Any, int]:
    if kind == _STRING:
        return _string(data, position)
    code = "<" + _SCALARS[kind]
    return struct.unpack_from(code, data, position)[0], position + struct.calcsize(code)


def _array(data: mmap.mmap, position: int, wanted: bool = True) -> tuple[list[Any], int]:
    """The items of an array and where it ends; no items when they are not wanted."""
    kind, count = struct.unpack_from("<IQ", data, position)
    position += 12
    items: list[Any] = []
    if kind == _STRING:
        # Written out, without `_string`: a vocabulary has a quarter of a million texts.
        length_at = struct.Struct("<Q").unpack_from
        for _ in range(count):
            start = position + 8
            position = start + length_at(data, position)[0]
            if wanted:
                items.append(data[start:position].decode("utf-8", "replace"))
        if position > len(data):
            raise ValueError("a text reaches past the end of the file")
    elif kind == _ARRAY:
        for _ in range(count):
            item, position = _array(data, position, wanted)
            items.append(item)
    else:
        code = f"<{count}{_SCALARS[kind]}"
        if wanted:
            items = list(struct.unpack_from(code, data, position))
        position += struct.calcsize(code)
    return items, position
