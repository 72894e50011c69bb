"""The real classes of LangChain and LlamaIndex. Skipped where they are not installed."""

import asyncio
from typing import Any

import pytest

from crag_dspy.passages import Passage
from crag_dspy.retrievers import as_retriever

TEXTS = ["Paris is in France.", "London is in England.", "Rome is in Italy."]


def texts(passages: list[Passage]) -> list[str]:
    return [passage.text for passage in passages]


def awaited(retriever: Any, k: int) -> list[str]:
    return texts(asyncio.run(retriever.acall("London", k)))


@pytest.fixture
def langchain_store() -> Any:
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    class Names(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return [float(name in text) for name in ("Paris", "London", "Rome")] + [0.1]

    store = InMemoryVectorStore(Names())
    store.add_documents(
        [
            Document(text, id=str(number), metadata={"source": f"https://example.org/{number}", "title": "T"})
            for number, text in enumerate(TEXTS)
        ]
    )
    return store


def test_a_langchain_vector_store_gives_scores_ids_and_sources(langchain_store: Any) -> None:
    retriever = as_retriever(langchain_store)
    best = retriever("London", 2)[0]
    assert (best.text, best.id, best.url, best.title) == (TEXTS[1], "1", "https://example.org/1", "T")
    assert best.score == pytest.approx(1.0)
    assert awaited(retriever, 1) == [TEXTS[1]]


def test_a_langchain_store_that_has_no_scores_is_searched_without(langchain_store: Any) -> None:
    from langchain_core.vectorstores import VectorStore

    class Plain(VectorStore):
        def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Any]:
            found: list[Any] = langchain_store.similarity_search(query, k=k)
            return found

        @classmethod
        def from_texts(cls, texts: Any, embedding: Any, metadatas: Any = None, **kwargs: Any) -> Any:
            raise NotImplementedError

    retriever = as_retriever(Plain())
    assert [(passage.text, passage.score) for passage in retriever("London", 1)] == [(TEXTS[1], None)]
    assert awaited(retriever, 1) == [TEXTS[1]]


def test_a_langchain_retriever_of_a_store_gets_k(langchain_store: Any) -> None:
    retriever = as_retriever(langchain_store.as_retriever(search_kwargs={"k": 1}))
    assert len(retriever("London", 3)) == 3
    assert awaited(retriever, 3)[0] == TEXTS[1]


def test_a_langchain_retriever_that_takes_no_k_is_cut() -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Fixed(BaseRetriever):
        def _get_relevant_documents(
            self, query: str, *, run_manager: CallbackManagerForRetrieverRun
        ) -> list[Document]:
            return [Document(text) for text in TEXTS]

    retriever = as_retriever(Fixed())
    assert texts(retriever("London", 2)) == TEXTS[:2]
    assert awaited(retriever, 1) == TEXTS[:1]


def test_a_langchain_chain_is_given_the_query_alone(langchain_store: Any) -> None:
    from langchain_core.runnables import RunnableLambda

    chain = RunnableLambda(lambda query: query.strip()) | langchain_store.as_retriever()
    assert texts(as_retriever(chain)(" London ", 1)) == [TEXTS[1]]


@pytest.fixture
def llama_nodes() -> Any:
    pytest.importorskip("llama_index.core")
    from llama_index.core.schema import NodeWithScore, TextNode

    return [
        NodeWithScore(node=TextNode(text=text, id_=f"n{number}", metadata={"title": "T"}), score=0.5)
        for number, text in enumerate(TEXTS)
    ]


def test_a_llama_index_retriever(llama_nodes: Any) -> None:
    from llama_index.core.base.base_retriever import BaseRetriever

    class Fixed(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> Any:
            return llama_nodes

    retriever = as_retriever(Fixed())
    best = retriever("London", 2)[0]
    assert (best.text, best.id, best.title, best.score) == (TEXTS[0], "n0", "T", 0.5)
    assert len(retriever("London", 2)) == 2
    # Its `aretrieve` would run `_retrieve` inside the event loop.
    assert not hasattr(retriever, "acall")


def test_a_llama_index_retriever_that_can_be_awaited(llama_nodes: Any) -> None:
    from llama_index.core.base.base_retriever import BaseRetriever

    class Fixed(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> Any:
            return llama_nodes

        async def _aretrieve(self, query_bundle: Any) -> Any:
            return llama_nodes[1:]

    assert awaited(as_retriever(Fixed()), 1) == [TEXTS[1]]
