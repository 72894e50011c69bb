"""The strongest cheap baselines: both sources whole, and the best sentences of both, with and without declining."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import dspy
import numpy as np
import pytest

from crag_dspy import RAG, IndexSearch, Passage, sentence_baselines
from crag_dspy.errors import ConfigError
from crag_dspy.sentence_baselines import BestSentences
from crag_dspy.text.replies import is_abstention

QUESTION = "When did the Ardent Bridge open to traffic?"
INTERNAL = [Passage("The Ardent Bridge is green. It crosses the Mill. Cats sleep in the sun.", id="a")]
WEB = IndexSearch(
    [Passage("Dogs bark. The Ardent Bridge did open to traffic in 1931.", id="w", url="https://w.example/")]
)


def test_rag_over_both_sources_reads_passages_and_pages(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm({"answer": "1931"})
    with dspy.context(lm=lm):
        prediction = RAG(INTERNAL, search=WEB, k=1, web_results=1)(question=QUESTION)
    assert [strip.origin for strip in prediction.evidence] == ["internal", "web"]
    assert prediction.queries == [QUESTION]
    assert "1931" in lm.requests[0].inputs["context"]


def test_the_best_sentences_of_both_sources_are_kept_in_their_order(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm({"answer": "1931"})
    program = BestSentences(INTERNAL, search=WEB, n=2)
    with dspy.context(lm=lm):
        prediction = program(question=QUESTION)
        again = asyncio.run(program.acall(question=QUESTION))
    kept = ["The Ardent Bridge is green.", "The Ardent Bridge did open to traffic in 1931."]
    assert [strip.text for strip in prediction.evidence] == kept
    assert [strip.text for strip in again.evidence] == kept
    assert (prediction.answer, prediction.grounded, prediction.action) == ("1931", None, None)


def test_the_event_loop_neither_cuts_nor_ranks_nor_composes(
    scripted_lm: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set()

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            threads.add(threading.get_ident())
            return function(*args, **kwargs)

        return called

    for name in ("strips_of", "by_words", "compose"):
        monkeypatch.setattr(sentence_baselines, name, noted(getattr(sentence_baselines, name)))
    with dspy.context(lm=scripted_lm({"answer": "1931"})):
        asyncio.run(BestSentences(INTERNAL, search=WEB, n=2).acall(question=QUESTION))
    assert threads
    assert threading.get_ident() not in threads


def test_below_the_cut_it_declines_without_asking(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm({"answer": "1931"})
    program = BestSentences(INTERNAL, search=WEB, cut=1.0)
    with dspy.context(lm=lm):
        declined = program(question="Quantum chromodynamics?")
        answered = program(question=QUESTION)
    assert is_abstention(declined.answer)
    assert (declined.failed, declined.evidence) == (None, [])
    assert answered.answer == "1931"
    assert len(lm.requests) == 1


@pytest.mark.parametrize("by", ["embedding", "both"])
def test_an_embedder_ranks_too(by: Any, scripted_lm: Callable[..., Any]) -> None:
    def embed(texts: list[str]) -> Any:
        return np.array([[float("1931" in text or "When" in text), 0.1] for text in texts])

    program = BestSentences(INTERNAL, search=WEB, n=1, by=by, embedder=embed)
    with dspy.context(lm=scripted_lm({"answer": "1931"})):
        prediction = program(question=QUESTION)
    assert [strip.origin for strip in prediction.evidence] == ["web"]


def test_a_search_that_is_down_is_a_warning(scripted_lm: Callable[..., Any]) -> None:
    def down(query: str, max_results: int) -> list[str]:
        raise ConnectionError("no network")

    with dspy.context(lm=scripted_lm({"answer": "green"})):
        prediction = BestSentences(INTERNAL, search=down)(question="What colour is the Ardent Bridge?")
    assert prediction.answer == "green"
    assert any("no network" in warning for warning in prediction.warnings)


@pytest.mark.parametrize(
    ("given", "message"),
    [({"n": 0}, "n must be"), ({"by": "luck"}, "by must be"), ({"cut": "x"}, "cut must be")],
)
def test_bad_arguments_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BestSentences(INTERNAL, **given)
