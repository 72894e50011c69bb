"""Whether an import is all there: every passage once, with its vector, and found by it.

A server that was killed may hold an object that its vector index does not: it is found by its id and by words, and
never by vectors. Only a search tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from crag_dspy.retrievers.weaviate_errors import failures
from crag_dspy.retrievers.weaviate_objects import object_id

if TYPE_CHECKING:
    from crag_dspy.passages import Passage
    from crag_dspy.retrievers.weaviate import WeaviateRetriever

ROWS = 100  # read with their vectors at a time
NEIGHBOURS = 5  # among which an object must be, when it is asked for by its own vector
SAME_PLACE = 1e-5  # a distance: so many twins that all neighbours are some


@dataclass(slots=True)
class Verification:
    """What was looked for and how it was; the lists hold UUIDs of objects."""

    checked: int = 0
    missing: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    without_vector: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every object is there once, and found by its own vector where the collection has vectors."""
        return not (self.missing or self.twice or self.without_vector or self.not_found)


def verify_passages(store: WeaviateRetriever, passages: Iterable[Passage]) -> Verification:
    """Look for each of `passages` in the collection, and for the tenant, of `store`: one search a passage.

    What it names is mended by deleting these objects and importing again.

    Raises:
        RetrieverError: the server failed.
    """
    return verify_objects(store, dict.fromkeys(object_id(passage) for passage in passages))


def verify_objects(store: WeaviateRetriever, ids: Iterable[UUID]) -> Verification:
    """`verify_passages` by the objects' UUIDs."""
    result, wanted = Verification(), list(ids)
    try:
        query = store.opened(store.connection.client()).query
        for start in range(0, len(wanted), ROWS):
            _look(query, wanted[start : start + ROWS], store.vector_name, result)
    except failures() as error:
        failure = store.explained(error)
    else:
        if len(result.without_vector) == result.checked - len(result.missing):
            result.without_vector = []  # a collection that is searched by words only
        return result
    raise failure


def _look(query: Any, ids: Sequence[UUID], vector_name: str | None, result: Verification) -> None:
    found = query.fetch_objects_by_ids(list(ids), limit=2 * len(ids), include_vector=True).objects
    there = Counter(str(one.uuid) for one in found)
    result.checked += len(ids)
    result.missing += [str(uuid) for uuid in ids if not there[str(uuid)]]
    result.twice += [uuid for uuid, times in there.items() if times > 1]
    for one in found:
        vectors = one.vector or {}
        name = vector_name if vector_name in vectors else next(iter(vectors), None)
        if name is None or not vectors[name]:
            result.without_vector.append(str(one.uuid))
        elif not _is_found(query, str(one.uuid), vectors[name], None if name == "default" else name):
            result.not_found.append(str(one.uuid))


def _is_found(query: Any, uuid: str, vector: Any, name: str | None) -> bool:
    from weaviate.classes.query import MetadataQuery

    near = query.near_vector(
        vector,
        limit=NEIGHBOURS,
        target_vector=name,
        return_metadata=MetadataQuery(distance=True),
        return_properties=[],
    ).objects
    if any(str(one.uuid) == uuid for one in near):
        return True
    return len(near) == NEIGHBOURS and all((one.metadata.distance or 0.0) < SAME_PLACE for one in near)
