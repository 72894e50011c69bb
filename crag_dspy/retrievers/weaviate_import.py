"""Importing passages into a Weaviate collection.

    store = WeaviateRetriever.from_url("http://localhost:8080", "Articles", embedder="minilm")
    create_collection(store, properties={"lang": "text", "year": "int"})
    report = import_passages(store, LocalIndex.open("my-index").passages_with_vectors())

An import that was interrupted is run again: what is there and equal is left alone, but for the last batch before
the first passage that is missing. A server that is killed may keep a batch in its object store and not in its vector
index, for ever, and writing the same again does not mend it: such objects are deleted before they are written again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from uuid import UUID

from crag_dspy.errors import ConfigError, RetrieverError, cause_of, message_of
from crag_dspy.live.keys import without_keys
from crag_dspy.passages import Passage
from crag_dspy.retrievers.weaviate_client_log import client_log
from crag_dspy.retrievers.weaviate_errors import StartingError, failures, is_passing, is_too_large
from crag_dspy.retrievers.weaviate_facts import Facts
from crag_dspy.retrievers.weaviate_objects import REST_PROPERTY, as_json_value, object_id
from crag_dspy.retrievers.weaviate_values import (
    InexactError,
    UnfitError,
    common_length,
    comparable,
    stored_value,
    stored_vector,
)
from crag_dspy.retrievers.weaviate_verify import Verification, verify_objects
from crag_dspy.state.arguments import check_number, check_whole
from crag_dspy.text.surrogates import encodable

if TYPE_CHECKING:
    from crag_dspy.retrievers.weaviate import WeaviateRetriever

_log = logging.getLogger(__name__)
T = TypeVar("T")

# A server takes messages of 100 MB by default, but some take 10.
BATCH_CHARS = 2_000_000
FLOAT_CHARS = 4  # of a vector's number on the way
# What a batch may wait for a node that restarts, and the longest pause before another try, in seconds.
BATCH_TIMEOUT = 300.0
LONGEST_PAUSE = 10.0
# A batch of so many that is refused whole, for one reason, says that the next would be too: a server or a key that
# may only read, a disk that is full.
TELLING_REFUSALS = 10


@dataclass(frozen=True, slots=True)
class FailedPassage:
    """A passage that was not stored, and why."""

    id: str
    error: str


@dataclass(slots=True)
class ImportReport:
    """What an import did.

    `unchanged` were there and equal; `rewritten` of them were deleted and written again, since a server that was
    killed may have lost their vectors. `left_out` names metadata for which the collection has no property.
    `verified` is what `verify=True` found, else None.
    """

    written: int = 0
    unchanged: int = 0
    rewritten: int = 0
    failed: list[FailedPassage] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    verified: Verification | None = None


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
    patience: float = BATCH_TIMEOUT,
    verify: bool = False,
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
        patience: seconds that each batch waits for a server that is away or starting.
        verify: look for every passage afterwards, and for its vector by itself; see `verify_passages`.

    Returns:
        Numbers, and every passage that was refused, with the reason: one does not stop the others.

    Raises:
        ConfigError: no such collection, no text property in it, or a tenant where there are none.
        ImportInterruptedError: the connection failed for good, or a whole batch was refused for one reason; its
            `report` says how far the import came.
    """
    from tqdm import tqdm

    check_whole("batch", batch)
    check_number("patience", patience, 0)
    report = ImportReport()
    target = _Target(store, report, patience)
    hidden = None if progress is None else not progress  # tqdm: None hides it unless on a terminal
    with tqdm(total=total, desc="importing", unit="passage", disable=hidden) as bar:
        for items in _batches(passages, batch):
            target.store(items, overwrite)
            bar.update(len(items))
    if verify:
        report.verified = verify_objects(store, target.stored)
    return report


Item = tuple[Passage, Sequence[float] | None]


def _batches(passages: Iterable[Any], most: int) -> Iterator[list[Item]]:
    batch: list[Item] = []
    chars = 0
    for number, given in enumerate(passages):
        passage, vector = given if isinstance(given, tuple) else (given, None)
        if not isinstance(passage, Passage):
            raise ConfigError(f"passages[{number}] must be a Passage, got {type(passage).__name__}")
        size = (
            len(passage.text)
            + len(repr(passage.metadata) if passage.metadata else "")
            + FLOAT_CHARS * len(() if vector is None else vector)
        )
        if batch and chars + size > BATCH_CHARS:
            yield batch
            batch, chars = [], 0
        batch.append((passage, vector))
        chars += size
        if len(batch) == most:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


@dataclass(slots=True)
class _Row:
    """A passage on its way: what is stored of it, and its vector."""

    passage: Passage
    properties: dict[str, Any]
    vector: Any

    @property
    def name(self) -> str:
        return self.passage.id or str(object_id(self.passage))


Rows = dict[UUID, _Row]


class _Target:
    """A collection that takes passages, with what is known of its properties."""

    def __init__(self, store: WeaviateRetriever, report: ImportReport, patience: float) -> None:
        self._store = store
        self._report = report
        self._patience = patience
        self._seen: set[UUID] = set()
        self.stored: list[UUID] = []
        self._before: Rows | None = {}  # the last batch, while nothing was missing yet
        self._vector_name = store.vector_name
        self._dimension: int | None = None
        self._kinds: dict[str, str] = self._tried(self._prepared)
        if store.text_property not in self._kinds:
            raise ConfigError(
                f"collection {store.collection!r} has no property {store.text_property!r} "
                f"(it has: {', '.join(sorted(self._kinds)) or 'none'}): name the one for the text, text_property="
            )

    def store(self, items: Sequence[Item], overwrite: bool) -> None:
        rows = self._fitting(self._each_once(items))
        there: Rows = {}
        if not overwrite and rows:
            there = {uuid: rows.pop(uuid) for uuid in self._tried(lambda: self._unchanged(rows))}
        self._report.unchanged += len(there)
        self.stored += there
        if not rows:
            if self._before is not None:
                self._before = there
            return
        if self._before is not None:
            self._mend({**self._before, **there})
            self._before = None
        self._give_vectors(rows)
        errors = self._written(rows)
        refused = {uuid: row for uuid, row in rows.items() if uuid in errors}
        self._report.written += len(rows) - len(refused)
        self.stored += (uuid for uuid in rows if uuid not in refused)
        self._report.failed += [FailedPassage(row.name, errors[uuid]) for uuid, row in refused.items()]
        if len(items) >= TELLING_REFUSALS and len(refused) == len(rows) and len(set(errors.values())) == 1:
            (reason,) = set(errors.values())
            self._give_up(
                f"all {len(rows)} passages of a batch were refused, and the rest were not tried: {reason}"
            )

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

    def _fitting(self, items: Mapping[UUID, Item]) -> Rows:
        """Those that can be stored, checked before anything is sent."""
        if self._dimension is None:
            self._dimension = common_length(vector for _, vector in items.values() if vector is not None)
        rows: Rows = {}
        for uuid, (passage, vector) in items.items():
            try:
                checked = None if vector is None else stored_vector(vector, self._dimension)
                rows[uuid] = _Row(passage, self._properties(passage), checked)
            except UnfitError as error:
                self._report.failed.append(FailedPassage(passage.id or str(uuid), str(error)))
        return rows

    def _prepared(self) -> dict[str, str]:
        store = self._store
        collections = store.connection.client().collections
        if not collections.exists(store.collection):
            if not store.connection.client().is_ready():
                raise StartingError("the server is starting")
            if not collections.exists(store.collection):  # and did not come between the two questions
                raise ConfigError(
                    f"there is no collection {store.collection!r}: make it with create_collection"
                )
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
        for found in (
            store.opened(store.connection.client()).query.fetch_objects(limit=1, include_vector=True).objects
        ):
            vector = self._vector_of(found)
            self._dimension = len(vector) if vector else None
        self._facts = Facts.of(config)
        mark = self._facts.remembered.embedder if self._facts.remembered is not None else None
        if mark is not None:
            self._dimension = mark.dimension
            if store.embedder is not None:
                mark.check(store.embedder, store.collection)
        return dict(self._facts.kinds)

    def _vector_of(self, found: Any) -> list[float] | None:
        """The single vector that an object came with, or None."""
        vectors = found.vector or {}
        vector = vectors.get(self._vector_name or "default") or next(iter(vectors.values()), None)
        return None if not vector or isinstance(vector[0], list) else list(vector)

    def _properties(self, passage: Passage) -> dict[str, Any]:
        """What is stored of a passage: only properties that the collection has, none is ever added."""
        store = self._store
        own = (
            (store.title_property, passage.title),
            (store.url_property, passage.url),
            (store.id_property, passage.id),
        )
        stored: dict[str, Any] = {
            name: encodable(value) for name, value in own if name in self._kinds and name is not None
        }
        stored[store.text_property] = encodable(passage.text)
        self._facts.warn_of_script(passage.text, store.text_property, "A text of this import")
        for name, second in self._facts.seconds.items():
            stored[second] = stored.get(name, "")
        rest = {}
        for name, value in passage.metadata.items():
            if name not in self._kinds or name in stored or name == REST_PROPERTY:
                rest[name] = as_json_value(value)
                continue
            try:
                stored[name] = stored_value(value, self._kinds[name])
            except InexactError as error:
                if REST_PROPERTY not in self._kinds:
                    raise UnfitError(f"metadata {name!r}: {error}") from None
                rest[name] = value  # JSON keeps it exactly
            except UnfitError as error:
                raise UnfitError(f"metadata {name!r}: {error}") from None
        if REST_PROPERTY in self._kinds:
            written = json.dumps(rest, ensure_ascii=False, sort_keys=True) if rest else ""
            stored[REST_PROPERTY] = encodable(written)
        else:
            self._report.left_out.update(rest)
        return stored

    def _unchanged(self, rows: Rows) -> list[UUID]:
        return [uuid for uuid, there in self._there(rows).items() if _equal(rows[uuid].properties, there)]

    def _there(self, rows: Rows, *, vectors: bool = False) -> dict[UUID, Any]:
        """The objects of these ids that are there; asked in halves where the reply would be too large."""
        query = self._store.opened(self._store.connection.client()).query
        try:
            found = query.fetch_objects_by_ids(list(rows), limit=len(rows), include_vector=vectors)
        except failures() as error:
            if not is_too_large(error) or len(rows) < 2:
                raise
        else:
            return {UUID(str(there.uuid)): there for there in found.objects}
        first, second = _halves(rows)
        return {**self._there(first, vectors=vectors), **self._there(second, vectors=vectors)}

    def _mend(self, rows: Rows) -> None:
        """Write again what lay before the first missing passage: the batch that an earlier import died in."""
        if not rows:
            return
        without = {uuid: row for uuid, row in rows.items() if row.vector is None}
        if without:
            for uuid, there in self._tried(lambda: self._there(without, vectors=True)).items():
                without[uuid].vector = self._vector_of(there)  # the object store still has it
        self._tried(lambda: self._delete(rows))
        errors = self._written(rows)
        self._report.rewritten += len(rows) - len(errors)
        self._report.failed += [FailedPassage(rows[uuid].name, error) for uuid, error in errors.items()]

    def _give_vectors(self, rows: Rows) -> None:
        embedder = self._store.embedder
        missing = [row for row in rows.values() if row.vector is None]
        if embedder is None or not missing:
            return
        # The title belongs to what is searched, as it does in a LocalIndex.
        texts = [
            f"{row.passage.title}\n{row.passage.text}" if row.passage.title else row.passage.text
            for row in missing
        ]
        for row, vector in zip(missing, embedder.embed([encodable(text) for text in texts]), strict=True):
            row.vector = vector.tolist()

    def _written(self, rows: Rows) -> dict[UUID, str]:
        """Write the rows, in halves where a message is too large or cannot be made; why each refused one was."""
        try:
            return self._tried(lambda: self._insert(rows), before_again=lambda: self._delete(rows))
        except _UnsendableError as error:
            reason = str(error)
        if len(rows) == 1:
            return dict.fromkeys(rows, reason)
        first, second = _halves(rows)
        return {**self._written(first), **self._written(second)}

    def _insert(self, rows: Rows) -> dict[UUID, str]:
        from weaviate.classes.data import DataObject
        from weaviate.exceptions import WeaviateInsertManyAllFailedError

        named = self._vector_name
        data = [
            DataObject(
                properties=row.properties,
                uuid=uuid,
                vector={named: row.vector} if named and row.vector is not None else row.vector,
            )
            for uuid, row in rows.items()
        ]
        collection = self._store.opened(self._store.connection.client())
        try:
            with client_log() as noticed:
                reply = collection.data.insert_many(data)
        except WeaviateInsertManyAllFailedError as error:
            said = _said_of_all(without_keys(str(error)))
            if len(said) == 1 or len(rows) == 1:
                return dict.fromkeys(rows, "; ".join(said))
            # The client tells the reasons, and not whose they are: each half tells fewer.
            first, second = _halves(rows)
            return {**self._insert(first), **self._insert(second)}
        except failures() as error:
            if is_too_large(error):
                raise _UnsendableError(f"too large for one message: {message_of(error)}") from None
            raise
        except Exception as error:  # noqa: BLE001 - whatever the client raises for a value that it cannot send
            raise _UnsendableError(f"cannot be sent: {cause_of(error)}") from None
        if noticed.retried:
            raise _SentTwiceError("the node was away while a batch was written")
        uuids = list(rows)
        return {uuids[at]: error.message for at, error in reply.errors.items()}

    def _delete(self, rows: Rows) -> None:
        from weaviate.classes.query import Filter

        collection = self._store.opened(self._store.connection.client())
        collection.data.delete_many(where=Filter.by_id().contains_any(list(rows)))

    def _tried(self, work: Callable[[], T], before_again: Callable[[], object] | None = None) -> T:
        """Do `work`, again while it fails in a way that passes and there is patience left."""
        began, tries = time.monotonic(), 0
        while True:
            try:
                if tries and before_again is not None:
                    before_again()
                tries += 1
                return work()
            except failures() as error:
                failure, passing = self._store.explained(error), _may_pass(error)
            tries = max(tries, 1)
            wait = min(self._store.backoff * 2 ** min(tries - 1, 10), LONGEST_PAUSE)
            if not passing or time.monotonic() - began + wait >= self._patience:
                self._give_up(str(failure).rstrip("."))
            _log.info("Import try %d failed, again in %.2f s: %s", tries, wait, failure)
            time.sleep(wait)

    def _give_up(self, why: str) -> NoReturn:
        done = self._report.written + self._report.unchanged
        raise ImportInterruptedError(
            f"{why}. {done} passages are stored: run the import again, which leaves them", self._report
        )


class _SentTwiceError(RetrieverError):
    """The client sent a batch again by itself: the first may lie there without vectors, so it is deleted first."""


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, _SentTwiceError) or is_passing(error)


class _UnsendableError(Exception):
    """Rows that no message can carry: too large together, or with a value that the client cannot write."""


def _halves(rows: Rows) -> tuple[Rows, Rows]:
    pairs = list(rows.items())
    middle = len(pairs) // 2
    return dict(pairs[:middle]), dict(pairs[middle:])


def _said_of_all(said: str) -> list[str]:
    """The reasons out of the client's "Every object failed during insertion. Here is the set of all errors: ..."."""
    reasons = said.partition("set of all errors:")[2].strip() or said
    return [line.strip() for line in reasons.splitlines() if line.strip()]


def _equal(stored: Mapping[str, Any], there: Any) -> bool:
    """An absent property and an empty text are the same: Weaviate keeps neither."""
    return all(comparable(there.properties.get(name)) == comparable(value) for name, value in stored.items())
