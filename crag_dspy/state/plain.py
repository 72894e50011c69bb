"""Results as plain data, for JSON: one way for everything that a command prints or a run keeps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar

# Nobody nests what they mean to read so deep; metadata that does is a fault, or refers to itself.
DEEPEST = 50


class Plain:
    """A dataclass that `to_json` shows: its fields, or the attributes `SHOWN` names, words as in `namedtuple`."""

    __slots__ = ()
    SHOWN: ClassVar[str] = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data: dicts, lists, texts, numbers, true, false and null."""
        names = self.SHOWN.split() or [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {name: plain(getattr(self, name)) for name in names}


def plain(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """What JSON can hold of `value`.

    Dataclasses become objects, enumerations their values, tuples and sets lists, NaN and infinity null, and what JSON
    has no word for, dates and arrays and the like, its text. What is nested too deep, or in itself, is left
    out; `inside` is for the function's own calls.
    """
    if value is None or isinstance(value, (bool, int)):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return value
    if len(inside) >= DEEPEST or id(value) in inside:
        return "..."
    deeper = (*inside, id(value))
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item, deeper) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, deeper) for item in value]
    if hasattr(value, "to_json"):
        return value.to_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), deeper) for field in dataclasses.fields(value)}
    return _text(value)


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - whatever a stranger's object does when it is asked for its text
        return f"({type(value).__name__} without a text: {type(error).__name__})"
