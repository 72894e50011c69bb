"""Corrected retrieval for programs of other frameworks: one line makes their kind of retriever.

    chain = as_langchain(retriever) | format_docs | prompt | llm
    engine = RetrieverQueryEngine.from_args(as_llama_index(retriever))

Needs the extra `langchain` or `llama-index`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.knowledge import as_data, quoted
from crag_dspy.plug.programs import check_corrective

if TYPE_CHECKING:
    from crag_dspy.corrective import CorrectiveRetriever
    from crag_dspy.passages import Strip


# Of a node's metadata, what LlamaIndex puts before a language model: of a web page neither its title nor its address,
# which its author chose, outside of the markers.
SHOWN = {"internal": ("title", "source"), "web": ("origin",)}


def as_langchain(corrective: CorrectiveRetriever) -> Any:
    """A LangChain `BaseRetriever` whose documents are the evidence strips, with source, origin and relevance.

    Evidence from the web stands between markers in the document's text (see `quoted`).
    """
    check_corrective(corrective)
    try:
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever
    except ImportError as error:
        raise ConfigError('as_langchain needs langchain-core: pip install "crag-dspy[langchain]"') from error

    class CorrectedRetriever(BaseRetriever):
        """Evidence of a `CorrectiveRetriever`."""

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return _documents(corrective(question=query).evidence)

        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return _documents((await corrective.acall(question=query)).evidence)

    def _documents(evidence: list[Strip]) -> list[Document]:
        return [Document(page_content=quoted(strip), metadata=_metadata(strip)) for strip in evidence]

    return CorrectedRetriever()


def as_llama_index(corrective: CorrectiveRetriever) -> Any:
    """A LlamaIndex `BaseRetriever` whose nodes are the evidence strips, scored by relevance.

    Evidence from the web stands between markers in the node's text (see `quoted`), and the language model is shown
    nothing of its metadata but the origin.
    """
    check_corrective(corrective)
    try:
        from llama_index.core.retrievers import BaseRetriever
        from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    except ImportError as error:
        raise ConfigError(
            'as_llama_index needs llama-index-core: pip install "crag-dspy[llama-index]"'
        ) from error

    class CorrectedRetriever(BaseRetriever):  # type: ignore[misc]
        """Evidence of a `CorrectiveRetriever`."""

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return _nodes(corrective(question=query_bundle.query_str).evidence)

        async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return _nodes((await corrective.acall(question=query_bundle.query_str)).evidence)

    def _nodes(evidence: list[Strip]) -> list[NodeWithScore]:
        return [NodeWithScore(node=_node(strip), score=strip.score) for strip in evidence]

    def _node(strip: Strip) -> TextNode:
        metadata = _metadata(strip)
        hidden = [name for name in metadata if name not in SHOWN[strip.origin]]
        return TextNode(
            id_=_node_id(strip),
            text=quoted(strip),
            metadata=metadata,
            excluded_llm_metadata_keys=hidden,
            excluded_embed_metadata_keys=hidden,
        )

    return CorrectedRetriever()


def _node_id(strip: Strip) -> str:
    """The same for the same strip, whenever and wherever it is found."""
    source = strip.passage.id or strip.passage.url
    if not source:
        source = hashlib.blake2b(strip.passage.text.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"{strip.origin}:{source}:{strip.start}"


def _metadata(strip: Strip) -> dict[str, Any]:
    return {
        "id": strip.passage.id,
        "title": as_data(strip.passage.title) if strip.origin == "web" else strip.passage.title,
        "source": strip.passage.url or strip.passage.id,
        "origin": strip.origin,
        "relevance": strip.score,
        "start": strip.start,
        "end": strip.end,
    }
