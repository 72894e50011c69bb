"""Making a Weaviate collection for passages. One that exists is never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.retrievers.weaviate_errors import failures
from crag_dspy.retrievers.weaviate_objects import REST_PROPERTY
from crag_dspy.retrievers.weaviate_record import SECOND, EmbedderMark, Remembered
from crag_dspy.state.arguments import check_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crag_dspy.retrievers.index_record import EmbedderRecord
    from crag_dspy.retrievers.weaviate import WeaviateRetriever

# Text kept twice, so that words are found with and without spaces between them.
BOTH = "both"


def create_collection(
    store: WeaviateRetriever,
    *,
    properties: Mapping[str, str] | None = None,
    tenants: bool = False,
    replicas: int | None = None,
    shards: int | None = None,
    tokenization: str = BOTH,
    embedder: EmbedderRecord | None = None,
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
        tokenization: how BM25 cuts text. "both" keeps text and title twice, cut by "word" and for scripts without
            spaces (by "gse_ch", or "trigram" on a server without it), and the query's script chooses; "word", which
            takes a Chinese clause for one word; "gse_ch" for Chinese, which cuts English into letters (a server with
            ENABLE_TOKENIZER_GSE_CH; plain "gse" has a Japanese dictionary); or "trigram", which needs nothing and
            suits any script, but finds no word of fewer than three characters.
        embedder: the record of the one that made the vectors to come; None is for that of `store`. The collection
            remembers it, and a search with another is an error.
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

        made_by = embedder if embedder is not None else store.embedder
        mark = None if made_by is None or vectors is not None else EmbedderMark.of(made_by)

        def create(tokenization: str, second: str | None) -> None:
            collections.create(
                store.collection,
                description=Remembered(mark, second).description,
                properties=_schema(store, properties or {}, tokenization, second),
                vector_config=Configure.Vectors.self_provided(name=store.vector_name)
                if vectors is None
                else vectors,
                multi_tenancy_config=Configure.multi_tenancy(enabled=True) if tenants else None,
                replication_config=None if replicas is None else Configure.replication(factor=replicas),
                sharding_config=None if shards is None else Configure.sharding(desired_count=shards),
            )

        try:
            if tokenization != BOTH:
                create(tokenization, None)
                return True
            try:
                create("word", "gse_ch")
            except failures() as error:
                if "tokeniz" not in str(error).lower():
                    raise
                create("word", "trigram")
        except failures():
            if collections.exists(store.collection):  # another process was first
                return False
            raise
    except failures() as error:
        failure = store.explained(error)
    else:
        return True
    raise failure


def _schema(
    store: WeaviateRetriever, properties: Mapping[str, str], tokenization: str, second: str | None
) -> list[Any]:
    from weaviate.classes.config import DataType, Property, Tokenization

    kinds, cuts = [kind.value for kind in DataType], [cut.value for cut in Tokenization]
    if tokenization not in cuts:
        raise ConfigError(f"tokenization must be one of {', '.join([BOTH, *cuts])}, got {tokenization!r}")
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
        *(
            Property(
                name=name + SECOND,
                data_type=DataType.TEXT,
                tokenization=Tokenization(second),
                index_filterable=False,
                skip_vectorization=True,
            )
            for name in searched
            if second is not None
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
        # Metadata is equal or not: cut into words, "red" would be equal to "not red", and "C" to "C++".
        *(
            Property(
                name=name,
                data_type=DataType(kind),
                tokenization=Tokenization.FIELD if kind.startswith("text") else None,
            )
            for name, kind in properties.items()
        ),
    ]
