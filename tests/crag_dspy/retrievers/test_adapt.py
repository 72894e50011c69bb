"""Every shape of retriever that people have (field case 16, and the conventions of DSPy)."""

import asyncio
import copy
import logging
import pickle
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import dspy
import numpy as np
import pytest

from crag_dspy.errors import ConfigError, RetrieverError
from crag_dspy.passages import Passage
from crag_dspy.retrievers import as_retriever

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = ["Paris is in France.", "London is in England.", "Rome is in Italy."]


def texts(passages: list[Passage]) -> list[str]:
    return [passage.text for passage in passages]


def find(query: str, k: int = 3) -> list[str]:
    return TEXTS[:k]


@dataclass
class LongText:
    long_text: str


@pytest.mark.parametrize(
    "returned",
    [
        TEXTS,
        tuple(TEXTS),
        (text for text in TEXTS),
        [{"text": text} for text in TEXTS],
        [{"long_text": text, "score": 0.5} for text in TEXTS],
        [{"page_content": text, "metadata": {"source": "s"}} for text in TEXTS],
        [LongText(text) for text in TEXTS],
        [dspy.Example(long_text=text) for text in TEXTS],
        [Passage(text) for text in TEXTS],
        [(SimpleNamespace(page_content=text), 0.3) for text in TEXTS],
        dspy.Prediction(passages=TEXTS),
        dspy.Prediction(passages=TEXTS, indices=[0, 1, 2], scores=[0.9, 0.8, 0.7]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_callable_returns_is_read(returned: Any) -> None:
    assert texts(as_retriever(lambda query: returned)("q", 3)) == TEXTS


@pytest.mark.parametrize("nothing", [None, [], dspy.Prediction(passages=[]), ["", "  "]])
def test_nothing_found_is_no_passage(nothing: Any) -> None:
    assert as_retriever(lambda query: nothing)("q", 3) == []


def test_a_passage_without_a_score_has_none() -> None:
    (scored, unscored) = as_retriever(lambda query: [{"text": "a", "score": 0}, {"text": "b"}])("q", 2)
    assert scored.score == 0.0
    assert unscored.score is None


def test_more_than_k_is_cut_and_k_is_passed_on() -> None:
    asked = []

    def ignores(query: str) -> list[str]:
        return TEXTS

    def listens(query: str, k: int) -> list[str]:
        asked.append(k)
        return TEXTS

    assert texts(as_retriever(ignores)("q", 2)) == TEXTS[:2]
    as_retriever(listens)("q", 2)
    assert asked == [2]


@pytest.mark.parametrize("k", [0, -1, True, 2.0, "3"])
@pytest.mark.parametrize("thing", [find, TEXTS])
def test_k_is_a_positive_int(thing: Any, k: Any) -> None:
    with pytest.raises(ConfigError, match="k must be"):
        as_retriever(thing)("q", k)


# dspy


class Colbert:
    """The shape of dspy's ColBERTv2: a callable rm, found by `dspy.Retrieve` too."""

    def __call__(self, query: str, k: int = 10, simplify: bool = False) -> list[dspy.Example]:
        return [
            dspy.Example(long_text=f"{query}: {text}", pid=number, score=1.0 - number / 10)
            for number, text in enumerate(TEXTS[:k])
        ]


def test_none_is_the_configured_rm_at_each_call() -> None:
    retriever = as_retriever(None)
    with dspy.context(rm=Colbert()):
        found = retriever("q", 2)
    assert [(passage.text, passage.id, passage.score) for passage in found] == [
        ("q: Paris is in France.", "0", 1.0),
        ("q: London is in England.", "1", 0.9),
    ]
    with dspy.context(rm=lambda query, k: [query]):
        assert texts(retriever("other", 1)) == ["other"]


def test_none_without_an_rm_says_what_to_do() -> None:
    with dspy.context(rm=None), pytest.raises(RetrieverError, match=r"dspy\.configure\(rm="):
        as_retriever(None)("q", 1)


def test_an_rm_that_retrieves_with_itself_is_an_error_and_not_a_loop() -> None:
    class Corrective(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.retrieve = as_retriever(None)

        def forward(self, query: str, k: int = 3) -> dspy.Prediction:
            return dspy.Prediction(passages=self.retrieve(query, k))

    with dspy.context(rm=Corrective()), pytest.raises(RetrieverError, match="itself"):
        as_retriever(None)("q", 1)


def test_none_is_awaited_where_the_rm_can_be() -> None:
    async def rm(query: str, k: int) -> list[str]:
        return [f"awaited {query}"]

    async def ask(rm: Any) -> list[str]:
        with dspy.context(rm=rm):
            return texts(await as_retriever(None).acall("q", 1))  # type: ignore[attr-defined]

    assert asyncio.run(ask(rm)) == ["awaited q"]
    assert asyncio.run(ask(find)) == TEXTS[:1]


def test_dspy_retrieve_is_called_with_k() -> None:
    with dspy.context(rm=Colbert()):
        assert texts(as_retriever(dspy.Retrieve(k=3))("q", 2)) == [
            "q: Paris is in France.",
            "q: London is in England.",
        ]


def one_hot(batch: list[str]) -> np.ndarray:
    return np.array(
        [[text.count(name) for name in ("Paris", "London", "Rome")] for text in batch], dtype=float
    )


def test_dspy_embeddings() -> None:
    retriever = as_retriever(dspy.Embeddings(corpus=TEXTS, embedder=one_hot, k=2))
    assert texts(retriever("Where is London?", 5))[0] == "London is in England."
    assert len(retriever("Where is London?", 5)) == 2  # what it was made with
    assert len(retriever("Where is London?", 1)) == 1


def test_dspy_embeddings_with_scores() -> None:
    retriever = as_retriever(dspy.retrievers.EmbeddingsWithScores(corpus=TEXTS, embedder=one_hot, k=2))
    best = retriever("London London Rome", 2)[0]
    assert best.score == pytest.approx(2 / 5**0.5)


def test_dspy_embeddings_over_nothing_finds_nothing() -> None:
    empty = dspy.Embeddings(corpus=[], embedder=lambda batch: np.zeros((len(batch), 3)), k=2)
    assert as_retriever(empty)("q", 2) == []


def test_padding_of_small_faiss_indexes_is_left_out() -> None:
    padded = dspy.Prediction(passages=[TEXTS[0], TEXTS[2], TEXTS[2]], indices=[0, -1, -1])
    assert texts(as_retriever(lambda query: padded)("q", 3)) == TEXTS[:1]


def test_adapting_a_dspy_module_draws_no_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Search(dspy.Module):
        def forward(self, question: str, top_k: int = 1) -> dspy.Prediction:
            return dspy.Prediction(passages=[f"{question} {top_k}"])

    monkeypatch.setattr(logging.getLogger("dspy"), "propagate", True)
    as_retriever(Search())("q", 4)
    assert caplog.records == []


def test_a_dspy_module_is_called_as_its_forward_wants() -> None:
    class Search(dspy.Module):
        def forward(self, question: str, top_k: int = 1) -> dspy.Prediction:
            return dspy.Prediction(passages=[f"{question} {top_k}"])

    class AsyncSearch(Search):
        async def aforward(self, question: str) -> dspy.Prediction:
            return dspy.Prediction(passages=[f"awaited {question}"])

    assert texts(as_retriever(Search())("q", 4)) == ["q 4"]
    assert not hasattr(as_retriever(Search()), "acall")
    assert texts(asyncio.run(as_retriever(AsyncSearch()).acall("q", 4))) == ["awaited q"]  # type: ignore[attr-defined]


def test_a_program_that_holds_any_retriever_can_be_saved_and_copied(tmp_path: Any) -> None:
    class Program(dspy.Module):
        def __init__(self, retrieve: Any) -> None:
            super().__init__()
            self.retrieve = as_retriever(retrieve)
            self.answer = dspy.Predict("question -> answer")

    for thing in (None, dspy.Retrieve(), dspy.Embeddings(TEXTS, one_hot), find, TEXTS):
        program = Program(thing)
        program.save(tmp_path / "program.json")
        assert copy.deepcopy(program).retrieve is program.retrieve
        Program(thing).load(tmp_path / "program.json")


# async


async def afind(query: str, k: int) -> list[str]:
    await asyncio.sleep(0)
    return TEXTS[:k]


def test_an_async_function_is_awaited_and_works_in_sync_code_too() -> None:
    retriever = as_retriever(afind)
    assert texts(retriever("q", 2)) == TEXTS[:2]
    assert texts(asyncio.run(retriever.acall("q", 1))) == TEXTS[:1]  # type: ignore[attr-defined]


def test_an_object_with_acall_is_awaited() -> None:
    class Both:
        def __call__(self, query: str) -> list[str]:
            return ["called"]

        async def acall(self, query: str, limit: int) -> list[str]:
            return ["awaited"] * limit

    retriever = as_retriever(Both())
    assert texts(retriever("q", 2)) == ["called"]
    assert texts(asyncio.run(retriever.acall("q", 2))) == ["awaited"] * 2  # type: ignore[attr-defined]


def test_there_is_no_acall_where_nothing_can_be_awaited() -> None:
    assert not hasattr(as_retriever(find), "acall")


# a list


def test_a_list_is_a_small_corpus_ranked_by_words() -> None:
    corpus = [
        "Paris is in France.",
        {
            "text": "The tower is 330 metres high.",
            "title": "Eiffel Tower",
            "id": "eiffel",
            "url": "https://e.org",
        },
        Passage("武汉长江大桥于1957年建成通车。", id="bridge", score=-4.0),
    ]
    retriever = as_retriever(corpus)
    (found,) = retriever("How high is the Eiffel tower?", 1)
    assert (found.id, found.title, found.url) == ("eiffel", "Eiffel Tower", "https://e.org")
    assert [passage.id for passage in retriever("长江大桥", 5)] == ["bridge"]
    assert retriever("长江大桥", 5)[0].score > 0  # type: ignore[operator]
    assert retriever("lighthouse", 5) == []
    assert as_retriever([])("anything", 5) == []


# objects with a method


@dataclass
class Document:
    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)


class Store:
    def similarity_search(self, query: str, k: int = 4) -> list[Document]:
        return [Document(text) for text in TEXTS[:k]]


class ScoredStore(Store):
    def similarity_search_with_score(self, query: str, k: int = 4) -> list[tuple[Document, float]]:
        return [(Document(text), 0.25) for text in TEXTS[:k]]


class Searcher:
    def search(self, text: str, limit: int = 3) -> list[dict[str, str]]:
        return [{"content": text} for text in TEXTS[:limit]]


@pytest.mark.parametrize("store", [Store(), ScoredStore(), Searcher()])
def test_stores_and_searchers(store: Any) -> None:
    assert texts(as_retriever(store)("q", 2)) == TEXTS[:2]


def test_a_store_with_scores_gives_them() -> None:
    assert as_retriever(ScoredStore())("q", 1)[0].score == 0.25
    assert as_retriever(Store())("q", 1)[0].score is None


# what is refused, and what an adapter promises


@pytest.mark.parametrize("thing", [3, "my-index", {"a": "text"}, Store, object(), dspy.Retrieve, b"x"])
def test_what_cannot_retrieve_is_refused_by_type(thing: Any) -> None:
    name = thing.__name__ if isinstance(thing, type) else type(thing).__name__
    with pytest.raises(TypeError, match=f"{name}.*LangChain"):
        as_retriever(thing)


@pytest.mark.parametrize("thing", [None, find, TEXTS, Store()])
def test_copies_are_the_same_object_and_adapting_twice_changes_nothing(thing: Any) -> None:
    retriever = as_retriever(thing)
    assert copy.deepcopy(retriever) is copy.copy(retriever) is as_retriever(retriever) is retriever


@pytest.mark.parametrize("thing", [None, find, TEXTS, afind])
def test_an_adapter_pickles_as_its_source_does(thing: Any) -> None:
    with dspy.context(rm=find):
        again: Callable[..., Any] = pickle.loads(pickle.dumps(as_retriever(thing)))  # noqa: S301
        assert texts(again("Paris", 1)) == TEXTS[:1]


def test_errors_of_the_retriever_are_its_own() -> None:
    def down(query: str) -> list[str]:
        raise ConnectionError("refused")

    with pytest.raises(ConnectionError, match="refused"):
        as_retriever(down)("q", 1)
