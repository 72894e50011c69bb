"""What is known of a collection before it is searched, read once a process: its properties, vectors and tokenization.

Weaviate answers a search that cannot find anything with nothing, or in its own words; knowing the collection, each is
one message that names the argument to change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from crag_dspy.errors import RetrieverError
from crag_dspy.retrievers.weaviate_record import SECOND, Remembered
from crag_dspy.text.scripts import language_of

if TYPE_CHECKING:
    from crag_dspy.retrievers.weaviate import WeaviateRetriever
    from crag_dspy.retrievers.weaviate_connect import Connection

# LlamaIndex keeps the whole node there, as JSON, beside its text.
NODE_PROPERTY = "_node_content"
# Those that find no words in a script without spaces. `trigram` and the ones for Chinese and Japanese do.
SPACED = ("word", "lowercase", "whitespace", "field")
UNSPACED_LANGUAGES = {"zh": "Chinese", "ja": "Japanese"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Facts:
    """A collection, as its configuration says it."""

    name: str
    kinds: Mapping[str, str]
    tokenizations: Mapping[str, str]
    searchable: frozenset[str]
    vectors: tuple[str, ...]
    remembered: Remembered | None
    told: set[str] = field(default_factory=set)  # what was warned of, or looked at: once is enough

    @classmethod
    def of(cls, config: Any) -> Facts:
        """Out of what the client's `collection.config.get()` returns."""
        cuts = {one.name: one.tokenization for one in config.properties}
        return cls(
            config.name,
            {one.name: str(one.data_type.value) for one in config.properties},
            {name: str(cut.value) for name, cut in cuts.items() if cut is not None},
            frozenset(one.name for one in config.properties if one.index_searchable),
            tuple(config.vector_config or ()),
            Remembered.of(config.description),
        )

    @property
    def seconds(self) -> dict[str, str]:
        """Property -> the one with the same text, cut for scripts without spaces."""
        if self.remembered is None or self.remembered.second is None:
            return {}
        return {name: name + SECOND for name in self.kinds if name + SECOND in self.kinds}

    def warn_once(self, about: str, text: str, *values: Any) -> None:
        if about not in self.told:
            self.told.add(about)
            _log.warning(text, *values)

    def warn_of_script(self, text: str, name: str, what: str) -> None:
        """Once a collection: `text` is in a script in which the words of property `name` are not found."""
        cut = self.tokenizations.get(name, "word")
        language = UNSPACED_LANGUAGES.get(language_of(text))
        if language is not None and cut in SPACED and name not in self.seconds:
            self.warn_once(
                "script",
                "%s is %s, and the property %r of collection %r is cut by %r, which finds no words in it: make a "
                "collection with the tokenization 'both', gse_ch, kagome_ja or trigram",
                what,
                language,
                name,
                self.name,
                cut,
            )
        elif language is None and cut.startswith("gse"):
            self.warn_once(
                "script",
                "%s is not Chinese, and the property %r of collection %r is cut by %r, which cuts words into letters: "
                "make a collection with the tokenization 'both'",
                what,
                name,
                self.name,
                cut,
            )


_KNOWN: WeakKeyDictionary[Any, dict[str, Facts | None]] = WeakKeyDictionary()


def known(connection: Connection) -> dict[str, Facts | None]:
    """Collection -> what is known of it; None where it could not be read, and absent before it was asked for."""
    return _KNOWN.setdefault(connection, {})


def forget(connection: Connection, collection: str) -> None:
    """After a failure: the collection may have been made anew."""
    _KNOWN.get(connection, {}).pop(collection, None)


def check(store: WeaviateRetriever, facts: Facts) -> None:
    """Raise RetrieverError for a search that `facts` say cannot be answered, naming the argument."""
    _named(facts, [store.text_property], "name the one with the text, text_property=")
    _named(facts, store.metadata or (), "name its properties, metadata=")
    if store.mode != "near_text" and store.mode != "near_vector":
        asked = [name.split("^")[0] for name in store.query_properties or ()]
        _named(facts, asked, "name those with words, query_properties=")
        for name in asked or ([store.text_property] if store.mode == "bm25" else []):
            if name not in facts.searchable:
                words = ", ".join(sorted(facts.searchable)) or "none"
                argument = "query_properties=" if asked else "text_property= or query_properties="
                raise RetrieverError(
                    f"property {name!r} of collection {facts.name!r} is not searched by words (indexSearchable is "
                    f"off; searched are: {words}): change {argument}, or the mode"
                )
    if store.mode == "bm25":
        return
    if store.vector_name is None and len(facts.vectors) > 1:
        raise RetrieverError(
            f"collection {facts.name!r} has several vectors ({', '.join(sorted(facts.vectors))}): name one, "
            f"vector_name="
        )
    if store.vector_name is not None and facts.vectors and store.vector_name not in facts.vectors:
        raise RetrieverError(
            f"collection {facts.name!r} has no vector {store.vector_name!r} (it has: "
            f"{', '.join(sorted(facts.vectors))}): change vector_name="
        )
    _check_embedder(store, facts)


def _check_embedder(store: WeaviateRetriever, facts: Facts) -> None:
    mark = facts.remembered.embedder if facts.remembered is not None else None
    if mark is None or store.mode == "near_text":
        return
    if store.embedder is None:
        raise RetrieverError(
            f"the vectors of collection {facts.name!r} are of the embedder {mark.name!r}, which mode={store.mode!r} "
            f'needs for the query: pass {mark.argument}, or mode="bm25"'
        )
    seen = f"embedder {id(store.embedder)}"
    if seen not in facts.told:
        mark.check(store.embedder, facts.name)
        facts.told.add(seen)


def _named(facts: Facts, names: Iterable[str], fix: str) -> None:
    for name in names:
        if name not in facts.kinds:
            has = ", ".join(sorted(facts.kinds)) or "none"
            raise RetrieverError(f"collection {facts.name!r} has no property {name!r} (it has: {has}): {fix}")


def wanted(store: WeaviateRetriever, facts: Facts | None, names: Sequence[str] | None) -> list[str] | None:
    """The properties to ask for, of `names`: those that are there; None is all, less what only a program reads."""
    if facts is None:
        return list(names) if names is not None else None
    if names is not None:
        return [name for name in names if name in facts.kinds]
    hidden = unread(store, facts)
    if any(kind.startswith("object") for kind in facts.kinds.values()):
        return None  # what is nested would have to be named as well
    return [name for name in facts.kinds if name not in hidden] if hidden & set(facts.kinds) else None


def unread(store: WeaviateRetriever, facts: Facts | None) -> frozenset[str]:
    """The properties that are no metadata: second texts, and what only LlamaIndex reads."""
    second = () if facts is None else facts.seconds.values()
    return frozenset({NODE_PROPERTY, *second} - {store.text_property, *(store.metadata or ())})


def searched(store: WeaviateRetriever, facts: Facts | None, query: str) -> list[str] | None:
    """The properties to look for words in: those asked for, else of texts kept twice those that fit the query."""
    if store.query_properties is not None:
        return list(store.query_properties)
    if facts is None:
        return None
    facts.warn_of_script(query, store.text_property, "The query")
    hidden = {NODE_PROPERTY} - {store.text_property}
    if facts.seconds:
        unspaced = language_of(query) in UNSPACED_LANGUAGES
        hidden |= set(facts.seconds if unspaced else facts.seconds.values())
    return sorted(facts.searchable - hidden) if hidden & facts.searchable else None


def warn_of_filters(facts: Facts, filters: Any) -> None:
    """A text that is cut into words is "equal" to all that share them: "red" to "not red", "C" to "C++"."""
    for name, value in filters.items() if isinstance(filters, Mapping) else ():
        values = value if isinstance(value, (list, tuple, set)) else [value]
        cut = facts.tokenizations.get(name, "field")
        if cut != "field" and any(isinstance(one, str) for one in values):
            facts.warn_once(
                f"filter {name}",
                "filters: the property %r of collection %r is cut into words (%s), so a filter also finds what only "
                "shares them; equal texts only need a property with the tokenization field",
                name,
                facts.name,
                cut,
            )
