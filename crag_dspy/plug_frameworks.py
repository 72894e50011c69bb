"""Corrected retrieval for programs of other frameworks: one line makes their kind of retriever.

    chain = as_langchain(retriever) | format_docs | prompt | llm
    engine = RetrieverQueryEngine.from_args(as_llama_index(retriever))

Needs the extra `langchain` or `llama-index`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from crag_dspy.corrective import CorrectiveRetriever
    from crag_dspy.passages import Strip


def as_langchain(corrective: CorrectiveRetriever) -> Any:
    """A LangChain `BaseRetriever` whose documents are the evidence strips, with source, origin and relevance."""
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
        return [Document(page_content=strip.text, metadata=_metadata(strip)) for strip in evidence]

    return CorrectedRetriever()


def as_llama_index(corrective: CorrectiveRetriever) -> Any:
    """A LlamaIndex `BaseRetriever` whose nodes are the evidence strips, scored by relevance."""
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
        return [
            NodeWithScore(node=TextNode(text=strip.text, metadata=_metadata(strip)), score=strip.score)
            for strip in evidence
        ]

    return CorrectedRetriever()


def _metadata(strip: Strip) -> dict[str, Any]:
    return {
        "id": strip.passage.id,
        "title": strip.passage.title,
        "source": strip.passage.url or strip.passage.id,
        "origin": strip.origin,
        "relevance": strip.score,
        "start": strip.start,
        "end": strip.end,
    }
