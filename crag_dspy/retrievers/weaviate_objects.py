"""Between Weaviate's objects and passages: which property is what, and filters in plain data."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from crag_dspy.errors import ConfigError, RetrieverError
from crag_dspy.passages import Passage
from crag_dspy.retrievers.weaviate_values import UnfitError, stored_value
from crag_dspy.text.surrogates import encodable

# Metadata that has no property of its own is kept here, as JSON.
REST_PROPERTY = "metadata_json"
NAMESPACE = uuid5(NAMESPACE_URL, "crag-dspy")


@dataclass(frozen=True, slots=True)
class Properties:
    """Names of the properties of a collection's objects; `metadata` is None for all others."""

    text: str
    title: str | None
    url: str | None
    id: str | None
    metadata: Sequence[str] | None

    def wanted(self) -> list[str] | None:
        """The properties to ask for; None asks for all, as only that works without knowing which exist."""
        if self.metadata is None:
            return None
        named = [name for name in (self.text, self.title, self.url, self.id) if name is not None]
        return list(dict.fromkeys([*named, *self.metadata]))


def passages_of(
    objects: Sequence[Any],
    names: Properties,
    collection: str,
    unread: Collection[str] = (),
    *,
    has_text: bool = False,
) -> list[Passage]:
    """The objects that have a text, in their order; `unread` properties become no metadata.

    Args:
        has_text: the collection is known to have the text property.

    Raises:
        RetrieverError: no object has the text property, so its name must be wrong.
    """
    if objects and not has_text and not any(names.text in found.properties for found in objects):
        others = ", ".join(sorted(objects[0].properties)) or "none"
        raise RetrieverError(
            f"collection {collection!r} has no property {names.text!r} (it has: {others}): "
            f"name the one with the text, text_property="
        )
    passages = [_passage(found, names, unread) for found in objects]
    return [passage for passage in passages if passage.text.strip()]


def _passage(found: Any, names: Properties, unread: Collection[str]) -> Passage:
    properties = {name: value for name, value in found.properties.items() if name not in unread}

    def take(name: str | None) -> str:
        value = properties.pop(name, None) if name is not None else None
        if isinstance(value, list):
            return "\n".join(str(item) for item in value)
        return "" if value is None else str(value)

    text, title, url, own_id = take(names.text), take(names.title), take(names.url), take(names.id)
    metadata = _rest(properties.pop(REST_PROPERTY, None))
    metadata.update({name: as_json_value(value) for name, value in properties.items() if value is not None})
    if found.metadata.distance is not None:
        metadata["distance"] = found.metadata.distance
    score = found.metadata.score if found.metadata.distance is None else 1.0 - found.metadata.distance
    if score is not None and not math.isfinite(score):
        score = None
    return Passage(text, own_id or str(found.uuid), title, url, score, metadata)


def _rest(value: Any) -> dict[str, Any]:
    """Metadata kept as JSON. Another program's property of that name stays what it is."""
    if not isinstance(value, str) or not value:
        return {}
    try:
        kept = json.loads(value)
    except ValueError:
        return {REST_PROPERTY: value}
    return kept if isinstance(kept, dict) else {REST_PROPERTY: value}


def object_id(passage: Passage) -> UUID:
    """The UUID of a passage: its id when that is one, else made from its id, else from its content."""
    try:
        return UUID(passage.id)
    except ValueError:
        name = (
            passage.id
            or hashlib.sha256(
                encodable(f"{passage.title}\n{passage.url}\n{passage.text}").encode()
            ).hexdigest()
        )
        return uuid5(NAMESPACE, name)


def as_json_value(value: Any) -> Any:
    """Dates, UUIDs, places, phone numbers and what is made of them as JSON knows them."""
    if hasattr(value, "model_dump"):
        return as_json_value(value.model_dump(exclude_none=True))
    if isinstance(value, date):  # and datetime
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {name: as_json_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json_value(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def filter_of(filters: Any, kinds: Mapping[str, str]) -> Any:
    """A filter of weaviate.classes.query as it is; a mapping as "equal to, or one of", all together.

    Args:
        kinds: property -> its data type, so that a date may be given as a text, a number as an int.

    Raises:
        ConfigError: neither of the two, or a property without a value.
    """
    if filters is None:
        return None
    if not isinstance(filters, Mapping):
        if type(filters).__module__.startswith("weaviate."):
            return filters
        raise ConfigError(
            f'filters must be a mapping such as {{"lang": "en"}} or a filter of weaviate.classes.query, got '
            f"{filters!r}"
        )
    from weaviate.classes.query import Filter

    parts = []
    for name, value in filters.items():
        by_name = Filter.by_property(name)
        several = isinstance(value, (list, tuple, set, frozenset))
        values = [_asked(name, one, kinds.get(name, "")) for one in (value if several else [value])]
        if not values:
            raise ConfigError(f"filters[{name!r}] must be a value or a non-empty list of them, got {value!r}")
        parts.append(by_name.contains_any(values) if several else by_name.equal(values[0]))
    return Filter.all_of(parts) if parts else None


def _asked(name: str, value: Any, kind: str) -> Any:
    """A filter's value, as a property of its kind has it."""
    kind = kind.removesuffix("[]")
    if isinstance(value, date) and not kind:
        kind = "date"
    try:
        asked = stored_value(value, kind)
    except UnfitError as error:
        raise ConfigError(f"filters[{name!r}]: {error}") from None
    if kind == "number" and isinstance(asked, int) and not isinstance(asked, bool):
        return float(asked)
    if not isinstance(asked, (str, int, float, bool, datetime, UUID)):
        raise ConfigError(f"filters[{name!r}] must be a value or a non-empty list of them, got {value!r}")
    return asked
