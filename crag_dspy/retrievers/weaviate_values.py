"""What is sent to Weaviate of a passage's values and vectors, in the form in which they come back.

Sent otherwise, a value is refused with the client's bare error, rounded in silence, or taken for a change at every
later run: a date that ends in Z, a UUID without dashes, a number of numpy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.text.surrogates import encodable

# Numbers travel as 64-bit floats: whole numbers above are rounded on the way.
LARGEST_EXACT = 2**53


class UnfitError(ConfigError):
    """A value that the collection cannot hold as it is."""


class InexactError(UnfitError):
    """A whole number that Weaviate would round."""


def stored_value(value: Any, kind: str) -> Any:
    """`value` as a property of the data type `kind` ("text", "date[]", ...) takes it and gives it back.

    Raises:
        InexactError: a whole number beyond 2^53, which Weaviate would round.
        UnfitError: what no property can hold: bytes, NaN, a list of mixed kinds.
    """
    if isinstance(value, np.ndarray) or (
        isinstance(value, np.generic) and not isinstance(value, np.datetime64)
    ):
        value = value.tolist()
    elif isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)
    if isinstance(value, (list, tuple)):
        items = [stored_value(item, kind.removesuffix("[]")) for item in value]
        kinds = {_family(item) for item in items}
        if len(kinds) > 1:
            raise UnfitError(f"a list of mixed kinds ({', '.join(sorted(kinds))}): give it one kind")
        return [float(item) for item in items] if kinds == {"number"} and kind == "number[]" else items
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise UnfitError("bytes are no value of a property: decode them, or leave them out")
    if kind == "date":
        return _instant(value)
    if kind == "uuid":
        return _uuid(value)
    if isinstance(value, date):  # and datetime, in a property of another kind
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_EXACT:
        raise InexactError(f"{value} is beyond 2^53, and would be rounded")
    if isinstance(value, float) and not math.isfinite(value):
        raise UnfitError(f"{value} is not a number that can be stored: leave it out")
    if isinstance(value, Mapping):
        return {str(name): stored_value(item, "") for name, item in value.items()}
    if value is None or isinstance(value, (bool, int, float)) or hasattr(value, "model_dump"):
        return value
    raise UnfitError(f"{type(value).__name__} is no value of a property: make it a text or a number")


def comparable(value: Any) -> Any:
    """A value sent and the one that came back, so that equal ones are equal. Absent and empty are one."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if hasattr(value, "model_dump"):  # places and phone numbers
        value = value.model_dump(exclude_none=True)
    if isinstance(value, (list, tuple)):
        return [comparable(item) for item in value] or None
    if isinstance(value, Mapping):
        return {name: comparable(item) for name, item in value.items()}
    return None if value == "" else value


def stored_vector(vector: Any, dimension: int | None) -> list[float]:
    """A vector as it is sent.

    Raises:
        UnfitError: it is empty, has NaN or infinity, or not the `dimension` of the collection. Weaviate takes all of
            them; the last is then never found, and NaN scrambles the order of the others.
    """
    try:
        row = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UnfitError(f"its vector is no list of numbers ({error})") from None
    if row.ndim != 1 or not row.size:
        raise UnfitError(f"its vector must be a non-empty list of numbers, got one of shape {row.shape}")
    if not np.isfinite(row).all():
        raise UnfitError("its vector holds NaN or infinity")
    if dimension is not None and row.size != dimension:
        raise UnfitError(f"its vector has {row.size} dimensions, and the collection's have {dimension}")
    return [float(number) for number in row]


def common_length(vectors: Iterable[Any]) -> int | None:
    """The length that most of the vectors have, where a collection has none yet to tell."""
    lengths = Counter(
        len(vector) for vector in vectors if isinstance(vector, (Sequence, np.ndarray)) and len(vector)
    )
    return lengths.most_common(1)[0][0] if lengths else None


def _family(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def _instant(value: Any) -> Any:
    """A date as a moment with a time zone: one without is taken for UTC, as Weaviate does."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return value  # the server says what is wrong with it
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return value
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _uuid(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return UUID(value)
    except ValueError:
        return value  # the server says what is wrong with it
