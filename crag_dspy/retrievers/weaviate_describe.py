"""What a server says of itself and of a collection: `crag-dspy doctor --connect` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crag_dspy.errors import RetrieverError
from crag_dspy.retrievers.weaviate_errors import StartingError, failures
from crag_dspy.retrievers.weaviate_facts import Facts

if TYPE_CHECKING:
    from crag_dspy.retrievers.weaviate import WeaviateRetriever


def describe(store: WeaviateRetriever) -> dict[str, Any]:
    """Ask the server of `store`: version, collection, objects, tokenization, vectors, embedder, tenants.

    `objects` are those of the tenant, and None in a collection with tenants when `store` names none.

    Raises:
        RetrieverError: it cannot be reached, is not ready, or has no such collection.
    """
    try:
        client = store.connection.client()
        if not client.is_ready():
            raise StartingError(
                f"Weaviate at {store.connection!r} is not ready: it is starting, or in trouble"
            )
        if not client.collections.exists(store.collection):
            raise RetrieverError(
                f"there is no collection {store.collection!r}: check the collection's name, or make it with "
                f"create_collection"
            )
        config = client.collections.get(store.collection).config.get()
        facts, tenants = Facts.of(config), config.multi_tenancy_config.enabled
        counted = not tenants or store.tenant is not None
        mark = facts.remembered.embedder if facts.remembered is not None else None
        return {
            "version": client.get_meta()["version"],
            "collection": store.collection,
            "objects": store.opened(client).aggregate.over_all(total_count=True).total_count
            if counted
            else None,
            "tokenization": tokenization_of(facts, store.text_property),
            "vectors": sorted(facts.vectors),
            "embedder": None if mark is None else mark.name,
            "tenants": len(client.collections.get(store.collection).tenants.get()) if tenants else None,
        }
    except failures() as error:
        failure = store.explained(error)
    raise failure


def tokenization_of(facts: Facts, text_property: str) -> str | None:
    """How texts are cut: "both" where they are kept twice; None where there is no such property."""
    return "both" if text_property in facts.seconds else facts.tokenizations.get(text_property)
