"""Making a Weaviate collection for passages. One that exists is never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.retrievers.weaviate_errors import failures
from crag_dspy.retrievers.weaviate_objects import REST_PROPERTY
from crag_dspy.state.arguments import check_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crag_dspy.retrievers.weaviate import WeaviateRetriever


def create_collection(
    store: WeaviateRetriever,
    *,
    properties: Mapping[str, str] | None = None,
    tenants: bool = False,
    replicas: int | None = None,
    shards: int | None = None,
    tokenization: str = "word",
    vectors: Any = None,
) -> bool:
    """Make the collection that `store` names, unless it exists; one that exists is not changed.

    Args:
        properties: metadata that filters shall see: name -> "text", "int", "number", "boolean", "date",
            "uuid", or one of these with "[]". Other metadata is kept as JSON in one property, and comes back
            as it was.
        tenants: each tenant has its own shard, and none sees another's passages.
        replicas: nodes that hold each shard; None is the server's default.
        shards: of a collection without tenants; None is one a node.
        tokenization: how BM25 cuts text: "word", which takes a Chinese clause for one word; "gse_ch" for
            Chinese (a server with ENABLE_TOKENIZER_GSE_CH; plain "gse" has a Japanese dictionary); or
            "trigram", which needs nothing and suits any script, but finds no word of fewer than three characters.
        vectors: a `weaviate.classes.config.Configure.Vectors...`, for vectors that the server makes; None is
            for those of our embedder.

    Returns:
        Whether it was made.

    Raises:
        ConfigError: an argument out of range, or shards together with tenants.
        RetrieverError: the server refused.
    """
    if tenants and shards is not None:
        raise ConfigError("give shards or tenants, not both: every tenant is a shard of its own")
    for name, value in (("replicas", replicas), ("shards", shards)):
        if value is not None:
            check_whole(name, value)
    try:
        collections = store.connection.client().collections
        if collections.exists(store.collection):
            return False
        from weaviate.classes.config import Configure

        try:
            collections.create(
                store.collection,
                properties=_schema(store, properties or {}, tokenization),
                vector_config=Configure.Vectors.self_provided(name=store.vector_name)
                if vectors is None
                else vectors,
                multi_tenancy_config=Configure.multi_tenancy(enabled=True) if tenants else None,
                replication_config=None if replicas is None else Configure.replication(factor=replicas),
                sharding_config=None if shards is None else Configure.sharding(desired_count=shards),
            )
        except failures():
            if collections.exists(store.collection):  # another process was first
                return False
            raise
    except failures() as error:
        failure = store.explained(error)
    else:
        return True
    raise failure


def _schema(store: WeaviateRetriever, properties: Mapping[str, str], tokenization: str) -> list[Any]:
    from weaviate.classes.config import DataType, Property, Tokenization

    kinds, cuts = [kind.value for kind in DataType], [cut.value for cut in Tokenization]
    if tokenization not in cuts:
        raise ConfigError(f"tokenization must be one of {', '.join(cuts)}, got {tokenization!r}")
    for name, kind in properties.items():
        if kind not in kinds:
            raise ConfigError(f"properties[{name!r}] must be one of {', '.join(kinds)}, got {kind!r}")
    searched = [name for name in (store.text_property, store.title_property) if name is not None]
    kept = [name for name in (store.url_property, store.id_property, REST_PROPERTY) if name is not None]
    return [
        *(
            Property(name=name, data_type=DataType.TEXT, tokenization=Tokenization(tokenization))
            for name in searched
        ),
        # Found by its exact value (the id), and never by its words: a URL's parts would match everything.
        *(
            Property(
                name=name,
                data_type=DataType.TEXT,
                tokenization=Tokenization.FIELD,
                index_searchable=False,
                index_filterable=name == store.id_property,
                skip_vectorization=True,
            )
            for name in kept
        ),
        *(Property(name=name, data_type=DataType(kind)) for name, kind in properties.items()),
    ]
