"""Importing passages into a Weaviate collection.

    store = WeaviateRetriever.from_url("http://localhost:8080", "Articles", embedder="minilm")
    create_collection(store, properties={"lang": "text", "year": "int"})
    report = import_passages(store, LocalIndex.open("my-index").passages_with_vectors())

An import that was interrupted is run again: what is there and equal is left alone.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, UUID, uuid5

from crag_dspy.errors import ConfigError, RetrieverError, message_of
from crag_dspy.live.retry import Retry
from crag_dspy.passages import Passage
from crag_dspy.retrievers.weaviate_errors import failures, is_passing
from crag_dspy.retrievers.weaviate_objects import REST_PROPERTY, plain
from crag_dspy.state.arguments import check_whole

if TYPE_CHECKING:
    from crag_dspy.retrievers.weaviate import WeaviateRetriever

# A server takes messages of 100 MB by default, but some take 10; vectors and JSON come on top of the texts.
BATCH_CHARS = 2_000_000
# What a batch may wait for a node that restarts.
BATCH_TIMEOUT = 300.0
NAMESPACE = uuid5(NAMESPACE_URL, "crag-dspy")


@dataclass(frozen=True, slots=True)
class FailedPassage:
    """A passage that was not stored, and why."""

    id: str
    error: str


@dataclass(slots=True)
class ImportReport:
    """What an import did. `left_out` names metadata for which the collection has no property."""

    written: int = 0
    unchanged: int = 0
    failed: list[FailedPassage] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)


class ImportInterruptedError(RetrieverError):
    """An import that could not go on. `report` says how far it came; run again, it continues from there."""

    def __init__(self, message: str, report: ImportReport) -> None:
        super().__init__(message)
        self.report = report


def import_passages(
    store: WeaviateRetriever,
    passages: Iterable[Passage | tuple[Passage, Sequence[float] | None]],
    *,
    batch: int = 200,
    overwrite: bool = False,
    progress: bool | None = None,
    total: int | None = None,
) -> ImportReport:
    """Store passages in the collection, and for the tenant, of `store`; a tenant that is missing is made.

    An object's UUID is made from the passage's id (from its content where it has none), so a passage that is
    imported again replaces itself. Vectors are those given, else of `store.embedder`, else the server's.

    Args:
        passages: any iterable, read as a stream; pairs bring their vectors.
        batch: most passages a request.
        overwrite: write passages that are there and equal as well, for instance to give them vectors.
        progress: a bar on stderr; None shows one on a terminal only.
        total: number of passages, for the bar.

    Returns:
        Numbers, and every passage that was refused, with the reason: one does not stop the others.

    Raises:
        ConfigError: no such collection, no text property in it, or a tenant where there are none.
        ImportInterruptedError: the connection failed for good; its `report` says how far the import came.
    """
    from tqdm import tqdm

    check_whole("batch", batch)
    report = ImportReport()
    target = _Target(store, report)
    hidden = None if progress is None else not progress  # tqdm: None hides it unless on a terminal
    with tqdm(total=total, desc="importing", unit="passage", disable=hidden) as bar:
        for items in _batches(passages, batch):
            target.store(items, overwrite)
            bar.update(len(items))
    return report


def object_id(passage: Passage) -> UUID:
    """The UUID of a passage: its id when that is one, else made from its id, else from its content."""
    try:
        return UUID(passage.id)
    except ValueError:
        name = (
            passage.id
            or hashlib.sha256(f"{passage.title}\n{passage.url}\n{passage.text}".encode()).hexdigest()
        )
        return uuid5(NAMESPACE, name)


Item = tuple[Passage, Sequence[float] | None]


def _batches(passages: Iterable[Any], most: int) -> Iterator[list[Item]]:
    batch: list[Item] = []
    chars = 0
    for number, given in enumerate(passages):
        passage, vector = given if isinstance(given, tuple) else (given, None)
        if not isinstance(passage, Passage):
            raise ConfigError(f"passages[{number}] must be a Passage, got {type(passage).__name__}")
        if batch and chars + len(passage.text) > BATCH_CHARS:
            yield batch
            batch, chars = [], 0
        batch.append((passage, vector))
        chars += len(passage.text)
        if len(batch) == most:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


class _Target:
    """A collection that takes passages, with what is known of its properties."""

    def __init__(self, store: WeaviateRetriever, report: ImportReport) -> None:
        self._store = store
        self._report = report
        self._seen: set[UUID] = set()
        self._vector_name = store.vector_name
        self._names = self._tried(self._prepared)
        if store.text_property not in self._names:
            raise ConfigError(
                f"collection {store.collection!r} has no property {store.text_property!r} "
                f"(it has: {', '.join(sorted(self._names)) or 'none'}): name the one for the text, text_property="
            )

    def store(self, items: Sequence[Item], overwrite: bool) -> None:
        new = self._each_once(items)
        objects = {uuid: self._properties(passage) for uuid, (passage, _) in new.items()}
        if not overwrite:
            for uuid in self._tried(lambda: self._unchanged(objects)):
                del objects[uuid], new[uuid]
                self._report.unchanged += 1
        if new:
            vectors = self._vectors(list(new.values()))
            errors = self._tried(lambda: self._write(objects, vectors))
            self._report.written += len(new) - len(errors)
            uuids = list(new)
            self._report.failed += [
                FailedPassage(_name(new[uuids[at]][0]), errors[at]) for at in sorted(errors)
            ]

    def _each_once(self, items: Sequence[Item]) -> dict[UUID, Item]:
        new: dict[UUID, Item] = {}
        for item in items:
            uuid = object_id(item[0])
            if uuid not in self._seen:
                self._seen.add(uuid)
                new[uuid] = item
            elif item[0].id:
                self._report.failed.append(
                    FailedPassage(item[0].id, "another passage of this import has the id")
                )
            else:
                self._report.unchanged += 1  # without an id the content is the id
        return new

    def _prepared(self) -> set[str]:
        store = self._store
        collections = store.connection.client().collections
        if not collections.exists(store.collection):
            raise ConfigError(f"there is no collection {store.collection!r}: make it with create_collection")
        collection = collections.get(store.collection)
        config = collection.config.get()
        if config.multi_tenancy_config.enabled != (store.tenant is not None):
            wrong = (
                "has tenants: pass tenant=" if store.tenant is None else "has no tenants: pass tenant=None"
            )
            raise ConfigError(f"collection {store.collection!r} {wrong}")
        if store.tenant is not None and not collection.tenants.exists(store.tenant):
            collection.tenants.create([store.tenant])
        if self._vector_name is None and len(config.vector_config or ()) == 1:
            (self._vector_name,) = config.vector_config
        return {prop.name for prop in config.properties}

    def _properties(self, passage: Passage) -> dict[str, Any]:
        """What is stored of a passage: only properties that the collection has, none is ever added."""
        store = self._store
        own = (
            (store.title_property, passage.title),
            (store.url_property, passage.url),
            (store.id_property, passage.id),
        )
        stored = {name: value for name, value in own if name in self._names and name is not None}
        stored[store.text_property] = passage.text
        rest = {}
        for name, value in passage.metadata.items():
            if name in self._names and name not in stored and name != REST_PROPERTY:
                stored[name] = value
            else:
                rest[name] = plain(value)
        if REST_PROPERTY in self._names:
            stored[REST_PROPERTY] = json.dumps(rest, ensure_ascii=False, sort_keys=True) if rest else ""
        else:
            self._report.left_out.update(rest)
        return stored

    def _unchanged(self, objects: Mapping[UUID, Mapping[str, Any]]) -> list[UUID]:
        collection = self._store.opened(self._store.connection.client())
        found = collection.query.fetch_objects_by_ids(list(objects), limit=len(objects))
        return [
            UUID(str(there.uuid)) for there in found.objects if _equal(objects[UUID(str(there.uuid))], there)
        ]

    def _vectors(self, items: Sequence[Item]) -> list[Any]:
        embedder, vectors = self._store.embedder, [vector for _, vector in items]
        missing = [at for at, vector in enumerate(vectors) if vector is None]
        if embedder is not None and missing:
            passages = [items[at][0] for at in missing]
            # The title belongs to what is searched, as it does in a LocalIndex.
            rows = embedder.embed([f"{one.title}\n{one.text}" if one.title else one.text for one in passages])
            for at, row in zip(missing, rows, strict=True):
                vectors[at] = row.tolist()
        named = self._vector_name
        return [{named: vector} if named and vector is not None else vector for vector in vectors]

    def _write(self, objects: Mapping[UUID, dict[str, Any]], vectors: Sequence[Any]) -> dict[int, str]:
        from weaviate.classes.data import DataObject
        from weaviate.exceptions import WeaviateInsertManyAllFailedError

        pairs = zip(objects.items(), vectors, strict=True)
        data = [DataObject(properties=stored, uuid=uuid, vector=vector) for (uuid, stored), vector in pairs]
        try:
            reply = self._store.opened(self._store.connection.client()).data.insert_many(data)
        except WeaviateInsertManyAllFailedError as error:
            return dict.fromkeys(range(len(data)), message_of(error))
        return {at: error.message for at, error in reply.errors.items()}

    def _tried(self, work: Any) -> Any:
        """Do `work`, again while it fails in a way that passes."""
        retry = Retry(BATCH_TIMEOUT, self._store.retries, self._store.backoff)
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                return work()
            except failures() as error:
                failure, passing = self._store.explained(error), is_passing(error)
            wait = retry.pause(tries, time.monotonic() - began) if passing else None
            if wait is None:
                done = self._report.written + self._report.unchanged
                raise ImportInterruptedError(
                    f"{str(failure).rstrip('.')}. {done} passages are stored: run the import again, which leaves them",
                    self._report,
                )
            time.sleep(wait)


def _equal(stored: Mapping[str, Any], there: Any) -> bool:
    """An absent property and an empty text are the same: Weaviate keeps neither."""
    return all(
        (plain(there.properties.get(name)) or None) == (plain(value) or None)
        for name, value in stored.items()
    )


def _name(passage: Passage) -> str:
    return passage.id or str(object_id(passage))
