"""The systems CRAG is compared with: same generator, same fields, no correction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from crag_dspy import RAG, Passage, SelfCRAG, SelfRAG
from crag_dspy.abstain import is_abstention
from crag_dspy.errors import ConfigError

QUESTION = "When did the Ardent Bridge open?"
PASSAGES = [
    Passage("The Ardent Bridge opened in 1931. It is green.", id="a"),
    Passage("Cats sleep when the day is warm.", id="b"),
]


class Grader:
    name, fingerprint = "words", "words-1"

    def score(self, question: str, texts: list[str]) -> list[float | None]:
        return [0.9 if "opened" in text else -1.0 for text in texts]


def test_rag_reads_every_passage_whole(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm({"answer": "1931"})
    with dspy.context(lm=lm):
        prediction = RAG(PASSAGES, k=2)(question=QUESTION)
        again = asyncio.run(RAG(PASSAGES, k=2).acall(question=QUESTION))
    assert prediction.answer == again.answer == "1931"
    assert {strip.text for strip in prediction.evidence} == {passage.text for passage in PASSAGES}
    assert "Cats sleep when" in lm.requests[0].inputs["context"]
    assert prediction.action is None
    assert prediction.trace.lm_calls == 1


def test_without_passages_it_is_the_model_alone(scripted_lm: Callable[..., Any]) -> None:
    with dspy.context(lm=scripted_lm({"answer": "1931"})):
        prediction = RAG(PASSAGES, k=0)(question=QUESTION)
    assert (prediction.answer, prediction.grounded, prediction.evidence) == ("1931", False, [])


def test_a_failing_retriever_or_reply_is_a_warning(scripted_lm: Callable[..., Any]) -> None:
    def down(query: str) -> list[str]:
        raise ConnectionError("index is down")

    with dspy.context(lm=scripted_lm(raw="nothing that parses")):
        prediction = RAG(down)(question=QUESTION)
    assert is_abstention(prediction.answer)
    assert len(prediction.warnings) == 2


@pytest.mark.parametrize("k", [-1, True, 2.5])
def test_a_bad_k_is_refused(k: Any) -> None:
    with pytest.raises(ConfigError, match="k must be"):
        RAG(PASSAGES, k=k)


@pytest.mark.parametrize(
    ("verdicts", "answer", "drafts"),
    [
        (["yes"], "1930", 1),
        (["no", "Yes."], "1931", 2),
        (["no", "no"], None, 2),
        (["perhaps", "unclear"], None, 2),
    ],
)
@pytest.mark.parametrize("corrected", [False, True])
def test_self_reflection_retries_once_and_then_abstains(
    scripted_lm: Callable[..., Any], verdicts: list[str], answer: str | None, drafts: int, corrected: bool
) -> None:
    lm = scripted_lm({"answer": ["1930", "1931"], "verdict": verdicts})
    program = SelfCRAG(PASSAGES, Grader()) if corrected else SelfRAG(PASSAGES)
    with dspy.context(lm=lm):
        prediction = program(question=QUESTION)
    assert is_abstention(prediction.answer) if answer is None else prediction.answer == answer
    assert sum(request.fields == ("answer",) for request in lm.requests) == drafts
    assert ("Cats" in lm.requests[0].inputs["context"]) is not corrected


def test_all_predictors_can_be_compiled() -> None:
    names = {name for name, _ in SelfCRAG(PASSAGES, Grader()).named_predictors()}
    assert names == {"corrective.rewrite", "generate.generate", "generate.reflect"}
