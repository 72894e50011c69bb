"""Corrected retrieval for programs of other frameworks: one line makes their kind of retriever.

    chain = as_langchain(retriever) | format_docs | prompt | llm
    engine = RetrieverQueryEngine.from_args(as_llama_index(retriever))

Needs the extra `langchain` or `llama-index`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.plug.programs import check_corrective
from crag_dspy.plug.said import spoken
from crag_dspy.text.untrusted import as_asked, one_line

if TYPE_CHECKING:
    from crag_dspy.corrective import CorrectiveRetriever
    from crag_dspy.passages import Strip


# Of a node's metadata, what LlamaIndex puts before a language model: of a web page neither its title nor its address,
# which its author chose, outside of the markers.
SHOWN = {"internal": ("title", "source"), "web": ("origin",), "none": ()}


def as_langchain(corrective: CorrectiveRetriever) -> Any:
    """A LangChain `BaseRetriever` whose documents are the evidence strips, with source, origin and relevance.

    Evidence from the web stands between markers in the document's text (see `quoted`).
    """
    check_corrective(corrective)
    try:
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever
    except ImportError as error:
        raise ConfigError('as_langchain needs langchain-core: pip install ".[langchain]"') from error

    class CorrectedRetriever(BaseRetriever):
        """Evidence of a `CorrectiveRetriever`."""

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return _documents(corrective(question=query))

        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return _documents(await corrective.acall(question=query))

    def _documents(found: Any) -> list[Document]:
        return [Document(page_content=text, metadata=_metadata(strip, found)) for strip, text in _each(found)]

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
        raise ConfigError('as_llama_index needs llama-index-core: pip install ".[llama-index]"') from error

    class CorrectedRetriever(BaseRetriever):  # type: ignore[misc]
        """Evidence of a `CorrectiveRetriever`."""

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return _nodes(corrective(question=query_bundle.query_str))

        async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return _nodes(await corrective.acall(question=query_bundle.query_str))

    def _nodes(found: Any) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=_node(strip, text, found), score=strip.score if strip else None)
            for strip, text in _each(found)
        ]

    def _node(strip: Strip | None, text: str, found: Any) -> TextNode:
        metadata = _metadata(strip, found)
        hidden = [name for name in metadata if name not in SHOWN[metadata["origin"]]]
        return TextNode(
            id_=_node_id(strip) if strip else "none",
            text=text,
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


def _each(found: Any) -> list[tuple[Strip | None, str]]:
    """The evidence with its texts; where there is none because a part did not work, the text that says so."""
    texts = spoken(found)
    return list(zip(found.evidence or [None] * len(texts), texts, strict=True))


def _metadata(strip: Strip | None, found: Any) -> dict[str, Any]:
    warnings = {"warnings": list(found.warnings)} if found.warnings else {}
    if strip is None:
        return {"origin": "none", **warnings}
    source = strip.passage
    return {
        "id": source.id,
        "title": one_line(source.title),
        "source": as_asked(source.url or source.id),
        "origin": strip.origin,
        "relevance": strip.score,
        "start": strip.start,
        "end": strip.end,
        **warnings,
    }
