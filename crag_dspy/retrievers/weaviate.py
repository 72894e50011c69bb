"""`WeaviateRetriever`: passages out of a Weaviate collection, the user's or one that was imported here.

    retriever = WeaviateRetriever.from_url("http://localhost:8080", "Articles", text_property="body")
    retriever("how tall is the tower", k=5)

`weaviate_import.py` makes collections and fills them. Needs weaviate-client v4 and a server from 1.27.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from crag_dspy.errors import ConfigError, RetrieverError
from crag_dspy.live.held import Held
from crag_dspy.live.retry import Retry
from crag_dspy.live.secret import Secret
from crag_dspy.retrievers.embedders import as_embedder
from crag_dspy.retrievers.weaviate_connect import (
    KEY_VARIABLE,
    Connection,
    Embedded,
    Given,
    Remote,
    client_library,
)
from crag_dspy.retrievers.weaviate_errors import explained, failures, in_a_thread, is_passing, too_late
from crag_dspy.retrievers.weaviate_facts import (
    Facts,
    check,
    forget,
    known,
    searched,
    unread,
    wanted,
    warn_of_filters,
)
from crag_dspy.retrievers.weaviate_objects import Properties, filter_of, passages_of
from crag_dspy.state.arguments import check_choice, check_number, check_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crag_dspy.passages import Passage

Mode = Literal["hybrid", "near_text", "near_vector", "bm25"]
Consistency = Literal["ONE", "QUORUM", "ALL"]

LOOKED_AT = 20  # objects, to see why nothing is found

_log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False, eq=False)
class WeaviateRetriever(Held):
    """Searches one collection, and one tenant of it where it has tenants. A `Retriever`, with `acall`.

    Made by `from_url`, `cloud`, `embedded` or `from_client`, which take the arguments below by name.
    Searching changes nothing in Weaviate. The score of a passage is Weaviate's: of hybrid and BM25 searches
    as it comes, of near-text and near-vector 1 - distance (with the cosine distance: the cosine). It ranks,
    and says nothing about relevance.

    Args:
        collection: its name; Weaviate begins it with a capital.
        connection: where the Weaviate is.
        mode: "hybrid" (words and vectors), "bm25" (words), "near_vector" (vectors of `embedder`) or
            "near_text" (vectors of the server's own vectorizer).
        alpha: of "hybrid": 0 is words only, 1 vectors only; None is the server's default.
        embedder: what turns a query into a vector, as in `as_embedder`; the one that made the collection's
            vectors. Needed by "near_vector"; without it "hybrid" uses the server's vectorizer. A query in a
            script that it cannot read is searched by words only in "hybrid", as in a `LocalIndex`.
        tenant: the one to search, on a collection with tenants: no other tenant's passages are seen.
        filters: `{"lang": "en", "year": [2025, 2026]}` (equal to, or one of), all of them together; or a
            filter of `weaviate.classes.query`.
        text_property: name of the property with the text.
        title_property: of the one with the title, or None for none.
        url_property: of the one with the address, or None.
        id_property: of the one with the passage's id, or None; a passage without has the object's UUID.
        metadata: names of the properties that become metadata; None is all others.
        query_properties: the properties that words are looked for in, such as ["title^2", "text"]; None is
            all.
        vector_name: of the vector, in a collection that has several.
        consistency: "ONE", "QUORUM" or "ALL" replicas are compared; None is the server's default. Weaviate answers
            a search even when fewer of them are up: what they do not agree on is told in a warning of the log.
        timeout: seconds for a search, its tries and pauses together.
        retries: further tries when a connection or a node fails.
        backoff: seconds before the second try.

    Raises:
        ConfigError: an argument out of range, when the object is made.
        RetrieverError: a search that failed; the message says what to change.
    """

    collection: str
    connection: Connection
    mode: Mode = "hybrid"
    alpha: float | None = None
    embedder: Any = None
    tenant: str | None = None
    filters: Any = None
    text_property: str = "text"
    title_property: str | None = "title"
    url_property: str | None = "url"
    id_property: str | None = "passage_id"
    metadata: Sequence[str] | None = None
    query_properties: Sequence[str] | None = None
    vector_name: str | None = None
    consistency: Consistency | None = None
    timeout: float = 10.0
    retries: int = 2
    backoff: float = 0.5
    _retry: Retry = field(init=False)
    _properties: Properties = field(init=False)

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, get_args(Mode))
        check_choice("consistency", self.consistency, (None, *get_args(Consistency)))
        if self.alpha is not None:
            check_number("alpha", self.alpha, 0, 1)
        for name in ("collection", "text_property"):
            _check_name(name, getattr(self, name))
        for name in ("tenant", "title_property", "url_property", "id_property", "vector_name"):
            if getattr(self, name) is not None:
                _check_name(name, getattr(self, name))
        for name in ("metadata", "query_properties"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(item, str) and item for item in value or ()):
                raise ConfigError(f"{name} must be a list of property names, or None, got {value!r}")
        if self.mode == "near_vector" and self.embedder is None:
            raise ConfigError('mode="near_vector" needs embedder=, the one that made the vectors')
        live = {
            "embedder": as_embedder(self.embedder),
            "_retry": Retry(self.timeout, self.retries, self.backoff),
            "_properties": Properties(
                self.text_property, self.title_property, self.url_property, self.id_property, self.metadata
            ),
        }
        for name, part in live.items():
            object.__setattr__(self, name, part)

    # Where it is.

    @classmethod
    def from_url(
        cls,
        url: str,
        collection: str,
        *,
        key: str | None = None,
        grpc_port: int = 50051,
        grpc_host: str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> WeaviateRetriever:
        """A Weaviate at an address, such as `http://localhost:8080`.

        Args:
            key: its API key; None reads WEAVIATE_API_KEY, and without either it is asked anonymously.
            headers: header -> name of an environment variable, for keys of the server's own vectorizers.
            options: the arguments of the class.
        """
        timeout = options.get("timeout", cls.timeout)
        secret = Secret(key, KEY_VARIABLE)
        return cls(
            collection, Remote(url, secret, False, grpc_port, grpc_host, headers or {}, timeout), **options
        )

    @classmethod
    def cloud(
        cls,
        url: str,
        collection: str,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> WeaviateRetriever:
        """A cluster of Weaviate Cloud, by its URL; the key from `key` or WEAVIATE_API_KEY."""
        timeout = options.get("timeout", cls.timeout)
        secret = Secret(key, KEY_VARIABLE)
        return cls(collection, Remote(url, secret, True, headers=headers or {}, timeout=timeout), **options)

    @classmethod
    def embedded(
        cls, collection: str, *, path: str | None = None, version: str | None = None, **options: Any
    ) -> WeaviateRetriever:
        """A Weaviate that the client downloads and starts on this machine; see `Embedded`."""
        return cls(collection, Embedded(path, version), **options)

    @classmethod
    def from_client(cls, client: Any, collection: str, **options: Any) -> WeaviateRetriever:
        """A client of weaviate-client v4, sync or async, that the caller made, connected, and will close.

        Raises:
            TypeError: a v3 client, or something else.
        """
        return cls(collection, Given(client), **options)

    def with_tenant(self, tenant: str | None) -> WeaviateRetriever:
        """The same search for another tenant, on the same connection."""
        return replace(self, tenant=tenant)

    def with_filters(self, filters: Any) -> WeaviateRetriever:
        """The same search with other filters, on the same connection."""
        return replace(self, filters=filters)

    def close(self) -> None:
        """Close this process's connection, unless the caller made it. The next search connects again."""
        self.connection.close()

    async def aclose(self) -> None:
        """Close this event loop's connection, unless the caller made it."""
        await self.connection.aclose()

    def __repr__(self) -> str:
        tenant = f", tenant={self.tenant!r}" if self.tenant else ""
        return f"WeaviateRetriever({self.collection!r}, {self.connection!r}, mode={self.mode!r}{tenant})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuilt, ({given.name: getattr(self, given.name) for given in fields(self) if given.init},))

    # Searching.

    def __call__(self, query: str, k: int = 10) -> list[Passage]:
        """The best `k` passages for `query`, best first; fewer when there are no more."""
        if not self._asks_something(query, k):
            return []
        query = _encodable(query)
        client_library()  # an import of seconds, once, which is not the service's time
        vector = self._vector(query)
        try:
            return in_a_thread(lambda: self._tried(query, k, vector)).result(self.timeout)
        except TimeoutError:
            raise RetrieverError(too_late(self.timeout)) from None

    async def acall(self, query: str, k: int = 10) -> list[Passage]:
        """`__call__` for asyncio: on an async client, or in a thread where there is only a sync one."""
        if not self._asks_something(query, k):
            return []
        query = _encodable(query)
        await asyncio.to_thread(client_library)
        try:
            async with asyncio.timeout(self.timeout):
                vector = None if self.embedder is None else await asyncio.to_thread(self._vector, query)
                return await self._atried(query, k, vector)
        except TimeoutError:
            raise RetrieverError(too_late(self.timeout)) from None

    def _tried(self, query: str, k: int, vector: list[float] | None) -> list[Passage]:
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            client = None
            try:
                client = self.connection.client()
                facts = self._facts(client)
                found = self._read(self._asked(self.opened(client), query, k, vector, facts), facts)
                return found or self._nothing(self.opened(client), facts)
            except Exception as error:
                closed = client is not None and not self.connection.holds(client)
                if not closed and not isinstance(error, failures()):
                    raise
                if closed and time.monotonic() - began < self.timeout:
                    tries -= 1  # somebody closed the connection meanwhile: the next try has another
                    continue
                failure, passing = self.explained(error), is_passing(error)
            time.sleep(self._pause(failure, passing, tries, time.monotonic() - began))

    async def _atried(self, query: str, k: int, vector: list[float] | None) -> list[Passage]:
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                client = await self.connection.aclient()
                if client is None:
                    return await asyncio.wrap_future(in_a_thread(lambda: self._tried(query, k, vector)))
                facts = await self._afacts(client)
                found = self._read(await self._asked(self.opened(client), query, k, vector, facts), facts)
                if not found and self._looks_closer(facts):
                    self._check_content(await self._content(self.opened(client)), facts)
                return found
            except failures() as error:
                failure, passing = self.explained(error), is_passing(error)
            await asyncio.sleep(self._pause(failure, passing, tries, time.monotonic() - began))

    def opened(self, client: Any) -> Any:
        """The client's collection object: of the tenant, and with the consistency, that were asked for."""
        collection = client.collections.get(self.collection)
        if self.tenant is not None:
            collection = collection.with_tenant(self.tenant)
        if self.consistency is not None:
            from weaviate.classes.config import ConsistencyLevel

            collection = collection.with_consistency_level(ConsistencyLevel[self.consistency])
        return collection

    def _facts(self, client: Any) -> Facts | None:
        """What is known of the collection, read with the first search; None where the key may not read it."""
        facts = known(self.connection)
        if self.collection not in facts:
            try:
                facts[self.collection] = Facts.of(client.collections.get(self.collection).config.get())
            except failures() as error:
                if is_passing(error):
                    raise
                facts[self.collection] = None
        return self._checked(facts[self.collection])

    async def _afacts(self, client: Any) -> Facts | None:
        facts = known(self.connection)
        if self.collection not in facts:
            try:
                facts[self.collection] = Facts.of(await client.collections.get(self.collection).config.get())
            except failures() as error:
                if is_passing(error):
                    raise
                facts[self.collection] = None
        return self._checked(facts[self.collection])

    def _checked(self, facts: Facts | None) -> Facts | None:
        if facts is not None:
            check(self, facts)
            warn_of_filters(facts, self.filters)
        return facts

    def _nothing(self, collection: Any, facts: Facts | None) -> list[Passage]:
        """An empty answer, unless the collection is such that there cannot be another."""
        if self._looks_closer(facts):
            self._check_content(self._content(collection), facts)
        return []

    def _looks_closer(self, facts: Facts | None) -> bool:
        return facts is not None and f"content {self.mode}" not in facts.told

    def _content(self, collection: Any) -> Any:
        """The first objects with their vectors: a result of a sync collection, something to await of an async one."""
        return collection.query.fetch_objects(limit=LOOKED_AT, include_vector=True)

    def _check_content(self, reply: Any, facts: Facts | None) -> None:
        objects = reply.objects
        if facts is None or not objects:
            return
        if not any(str(one.properties.get(self.text_property) or "").strip() for one in objects):
            raise RetrieverError(
                f"property {self.text_property!r} of collection {self.collection!r} is empty in all objects looked at: "
                f"name the one with the text, text_property="
            )
        if self.mode in ("near_vector", "near_text") and not any(one.vector for one in objects):
            raise RetrieverError(
                f'the objects of collection {self.collection!r} have no vectors: search by words, mode="bm25", or '
                f"import them again with embedder= and overwrite=True"
            )
        facts.told.add(f"content {self.mode}")

    def _asked(
        self, collection: Any, query: str, k: int, vector: list[float] | None, facts: Facts | None
    ) -> Any:
        """The search: a result of a sync collection, something to await of an async one."""
        from weaviate.classes.query import MetadataQuery

        near = self.mode in ("near_text", "near_vector")
        common = {
            "limit": k,
            "filters": filter_of(self.filters, {} if facts is None else facts.kinds),
            "return_metadata": MetadataQuery(
                distance=near, score=not near, is_consistent=self.consistency is not None
            ),
            "return_properties": wanted(self, facts, self._properties.wanted()),
        }
        words = searched(self, facts, query) if self.mode in ("bm25", "hybrid") else None
        # Of a query that our embedder cannot read there is no vector, and the server is not asked to make one.
        unread = self.mode == "hybrid" and self.embedder is not None and vector is None
        if self.mode == "bm25" or unread:
            return collection.query.bm25(query, query_properties=words, **common)
        if self.mode == "near_text":
            return collection.query.near_text(query, target_vector=self.vector_name, **common)
        if self.mode == "near_vector":
            return collection.query.near_vector(vector, target_vector=self.vector_name, **common)
        return collection.query.hybrid(
            query,
            alpha=self.alpha,
            vector=vector,
            target_vector=self.vector_name,
            query_properties=words,
            **common,
        )

    def _read(self, reply: Any, facts: Facts | None) -> list[Passage]:
        if self.consistency is not None and any(one.metadata.is_consistent is False for one in reply.objects):
            _log.warning(
                "Collection %r: replicas do not agree on what was found, or too few answered for consistency=%r; "
                "Weaviate answers a search all the same",
                self.collection,
                self.consistency,
            )
        names, has_text = unread(self, facts), facts is not None
        return passages_of(reply.objects, self._properties, self.collection, names, has_text=has_text)

    def _vector(self, query: str) -> list[float] | None:
        if self.embedder is None or self.mode in ("bm25", "near_text"):
            return None
        if self.mode == "hybrid" and not self.embedder.reads(query):
            return None
        vector: list[float] = self.embedder.embed_query(query).tolist()
        return vector

    def _asks_something(self, query: str, k: int) -> bool:
        check_whole("k", k)
        if not isinstance(query, str):
            raise ConfigError(f"query must be a str, got {type(query).__name__}")
        return bool(_encodable(query).strip())

    def _pause(self, failure: RetrieverError, passing: bool, tries: int, elapsed: float) -> float:
        """Seconds until the next try. Raises `failure` when another try cannot help, or there is no time.

        Called outside of the handler, so that `failure` does not lead to the client's error: that one refers
        to the request, and the request to the key.
        """
        wait = self._retry.pause(tries, elapsed) if passing else None
        if wait is None:
            raise failure
        _log.info("Search try %d failed, again in %.2f s: %s", tries, wait, failure)
        return wait

    def explained(self, error: BaseException) -> RetrieverError:
        """What failed, and what to change."""
        forget(self.connection, self.collection)
        key = self.connection.key if isinstance(self.connection, Remote) else Secret(None, KEY_VARIABLE)
        place = f"Weaviate ({self.connection!r}, collection {self.collection!r})"
        return explained(error, place, key, has_tenant=self.tenant is not None)


def _encodable(query: str) -> str:
    """Half a surrogate pair cannot be written as UTF-8."""
    return query.encode("utf-8", "ignore").decode()


def _check_name(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        # An empty tenant would be sent as none at all.
        raise ConfigError(f"{name} must be a non-empty str, got {value!r}")


def _rebuilt(given: dict[str, Any]) -> WeaviateRetriever:
    return WeaviateRetriever(**given)
