"""The systems CRAG is compared with: same generator, same fields, no correction."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

from crag_dspy import RAG, Passage, SelfRAG
from crag_dspy.errors import ConfigError
from crag_dspy.text.replies import abstention_for, is_abstention

QUESTION = "When did the Ardent Bridge open?"
PASSAGES = [
    Passage("The Ardent Bridge opened in 1931. It is green.", id="a"),
    Passage("Cats sleep when the day is warm.", id="b"),
]


def test_rag_reads_every_passage_whole(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm({"answer": "1931"})
    with dspy.context(lm=lm):
        prediction = RAG(PASSAGES, k=2)(question=QUESTION)
        again = asyncio.run(RAG(PASSAGES, k=2).acall(question=QUESTION))
    assert prediction.answer == again.answer == "1931"
    assert {strip.text for strip in prediction.evidence} == {passage.text for passage in PASSAGES}
    assert "Cats sleep when" in lm.requests[0].inputs["context"]
    assert (prediction.action, prediction.grounded) == (None, None)  # nobody judged what was read
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
    "make",
    [lambda k: RAG(PASSAGES, k=k), lambda k: SelfRAG(PASSAGES, k=k, retrieval="always", w_support=2.0)],
)
def test_settings_are_saved_with_the_program(make: Callable[[int], Any], tmp_path: Path) -> None:
    before = make(3)
    before.k = 4
    before.save(tmp_path / "program.json")
    after = make(7).load(tmp_path / "program.json")
    assert after.k == 4
    assert after.dump_state() == before.dump_state()


def test_a_file_from_before_k_was_saved_leaves_it(tmp_path: Path) -> None:
    RAG(PASSAGES, k=3).save(tmp_path / "program.json")
    state = json.loads((tmp_path / "program.json").read_text())
    del state["settings"]
    (tmp_path / "program.json").write_text(json.dumps(state))
    assert RAG(PASSAGES, k=7).load(tmp_path / "program.json").k == 7


def test_saying_that_the_evidence_is_not_there_is_not_grounded(scripted_lm: Callable[..., Any]) -> None:
    with dspy.context(lm=scripted_lm({"answer": abstention_for(QUESTION)})):
        prediction = RAG(PASSAGES, k=2)(question=QUESTION)
    assert is_abstention(prediction.answer)
    assert prediction.grounded is False
