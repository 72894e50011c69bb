"""Any RAG is corrected in one line: DSPy programs, ReAct, LangChain, LlamaIndex, with the real packages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from crag_dspy import CorrectiveRetriever, Passage
from crag_dspy.errors import ConfigError
from crag_dspy.plug import as_rm, as_tool, corrective
from crag_dspy.plug_frameworks import as_langchain, as_llama_index

QUESTION = "When did the Ardent Bridge open?"
TEXTS = ["The Ardent Bridge opened in 1931. It is green.", "Cats sleep most of the day."]
EVIDENCE = ["The Ardent Bridge opened in 1931."]


class Grader:
    name, fingerprint = "words", "words-1"

    def score(self, question: str, texts: list[str]) -> list[float | None]:
        return [0.9 if "opened" in text else -1.0 for text in texts]


@pytest.fixture
def retriever() -> CorrectiveRetriever:
    passages = [
        Passage(text, id=f"p{i}", title="Bridge", url=f"https://kb/{i}") for i, text in enumerate(TEXTS)
    ]
    return CorrectiveRetriever(passages, Grader())


class PlainRAG(dspy.Module):
    """What people have: a retrieval attribute of any usual kind, and a prompt of their own."""

    def __init__(self, retrieve: Any) -> None:
        super().__init__()
        self.retrieve = retrieve
        self.respond = dspy.Predict("context, question -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        found = self.retrieve(question)
        return self.respond(context=getattr(found, "passages", found), question=question)


class CorpusRM:
    def __call__(self, query: str, k: int = 2, **_: Any) -> list[Any]:
        return [dspy.Prediction(long_text=text) for text in TEXTS[:k]]


def test_a_dspy_program_is_corrected_and_keeps_its_prompt(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm({"answer": "1931"})
    program = PlainRAG(lambda query: TEXTS)
    program.respond.demos = [dspy.Example(context="c", question="q", answer="a")]
    corrected = corrective(program, grader=Grader())
    with dspy.context(lm=lm):
        assert corrected(question=QUESTION).answer == "1931"
    assert "Cats" not in lm.requests[0].inputs["context"]
    assert "opened in 1931" in lm.requests[0].inputs["context"]
    assert corrected.respond.demos == program.respond.demos
    assert program.retrieve("x") == TEXTS  # the original is untouched


def test_a_dspy_retrieve_and_its_k_are_taken_over(scripted_lm: Callable[..., Any]) -> None:
    corrected = corrective(PlainRAG(dspy.Retrieve(k=2)), grader=Grader())
    with dspy.context(lm=scripted_lm({"answer": "1931"}), rm=CorpusRM()):
        corrected(question=QUESTION)
        assert corrected.retrieve(QUESTION).passages == EVIDENCE
    assert corrected.retrieve.corrective.settings.k == 2


def test_a_retrieval_that_gave_a_list_still_gives_one(scripted_lm: Callable[..., Any]) -> None:
    class Joins(PlainRAG):
        def forward(self, question: str) -> dspy.Prediction:
            return self.respond(context="\n".join(self.retrieve(question)), question=question)

    lm = scripted_lm({"answer": "1931"})
    with dspy.context(lm=lm):
        corrective(Joins(lambda query: TEXTS), grader=Grader())(question=QUESTION)
    assert lm.requests[0].inputs["context"] == EVIDENCE[0]


def test_a_corrected_program_saves_its_settings(tmp_path: Any) -> None:
    corrected = corrective(PlainRAG(lambda query: TEXTS), grader=Grader(), upper=0.25)
    corrected.save(tmp_path / "program.json")
    again = corrective(PlainRAG(lambda query: TEXTS), grader=Grader())
    again.load(tmp_path / "program.json")
    assert again.retrieve.corrective.settings.upper == 0.25


def test_a_program_without_retrieval_is_refused_with_its_attributes() -> None:
    with pytest.raises(ConfigError, match="respond"):
        corrective(PlainRAG(None), grader=Grader())


def test_as_the_configured_rm(retriever: CorrectiveRetriever, scripted_lm: Callable[..., Any]) -> None:
    with dspy.context(lm=scripted_lm({}), rm=as_rm(retriever)):
        assert dspy.Retrieve(k=3)(QUESTION).passages == EVIDENCE


def test_as_a_tool_of_react(retriever: CorrectiveRetriever, scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm(
        {
            "next_thought": ["search", "done"],
            "next_tool_name": ["search_evidence", "finish"],
            "next_tool_args": [f'{{"question": "{QUESTION}"}}', "{}"],
            "reasoning": "r",
            "answer": "1931",
        }
    )
    with dspy.context(lm=lm):
        prediction = dspy.ReAct("question -> answer", tools=[as_tool(retriever)])(question=QUESTION)
    assert prediction.answer == "1931"
    assert "The Ardent Bridge opened in 1931." in str(prediction.trajectory)
    assert "Cats" not in str(prediction.trajectory)


def test_langchain(retriever: CorrectiveRetriever, scripted_lm: Callable[..., Any]) -> None:
    pytest.importorskip("langchain_core", reason="needs the extra `langchain`")
    with dspy.context(lm=scripted_lm({})):
        documents = as_langchain(retriever).invoke(QUESTION)
        again = asyncio.run(as_langchain(retriever).ainvoke(QUESTION))
    assert [document.page_content for document in documents] == EVIDENCE
    assert documents[0].metadata["source"] == "https://kb/0"
    assert documents == again


def test_langchain_retrievers_are_corrected_too(scripted_lm: Callable[..., Any]) -> None:
    """The other direction: their retriever in, our evidence out."""
    pytest.importorskip("langchain_core", reason="needs the extra `langchain`")
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Theirs(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(page_content=text, metadata={"source": "https://theirs"}) for text in TEXTS]

    with dspy.context(lm=scripted_lm({})):
        found = CorrectiveRetriever(Theirs(), Grader())(question=QUESTION)
    assert found.passages == EVIDENCE
    assert found.evidence[0].passage.url == "https://theirs"


def test_llama_index(retriever: CorrectiveRetriever, scripted_lm: Callable[..., Any]) -> None:
    pytest.importorskip("llama_index.core", reason="needs the extra `llama-index`")
    with dspy.context(lm=scripted_lm({})):
        nodes = as_llama_index(retriever).retrieve(QUESTION)
        again = asyncio.run(as_llama_index(retriever).aretrieve(QUESTION))
    assert [node.node.get_content() for node in nodes] == EVIDENCE
    assert nodes[0].score == 0.9
    assert [node.score for node in again] == [0.9]
