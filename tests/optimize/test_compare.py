"""Comparing systems: the same questions, one language model, and what each one cost."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest

from crag_dspy import CRAG, RAG, Passage, SelfCRAG
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.compare import compare
from crag_dspy.optimize.compared_systems import ablations
from crag_dspy.optimize.metrics import contains_word

OPENED = Passage("The Ardent Bridge opened in 1931. It is green.", id="a", title="Ardent Bridge")
CATS = Passage("Cats sleep most of the day.", id="b", title="Cats")
PAGE = {"title": "Bridges", "url": "https://web/1", "content": "The Borel Bridge opened in 1950."}


class WordGrader:
    name, fingerprint = "words", "words-1"

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        bridge = question.split()[3]
        return [0.9 if bridge in text and "opened" in text else -0.9 for text in texts]


def web(query: str, max_results: int) -> list[dict[str, str]]:
    return [PAGE]


def crag(**settings: Any) -> CRAG:
    return CRAG([OPENED, CATS], WordGrader(), web, upper=0.5, lower=-0.5, **settings)


def devset() -> list[dspy.Example]:
    asked = {"Ardent": ["1931"], "Borel": ["1950"], "Corbu": []}
    return [
        dspy.Example(question=f"When did the {name} Bridge open?", answers=answers).with_inputs("question")
        for name, answers in asked.items()
    ]


@pytest.fixture
def lm(scripted_lm: Any) -> Any:
    """Reads the year that the context gives for the bridge, and else guesses 1900."""

    def answer(request: Any) -> str:
        bridge = request.inputs["question"].split()[3]
        found = re.search(rf"{bridge} Bridge opened in (\d+)", request.inputs.get("context", ""))
        return found[1] if found else "1900"

    return scripted_lm(
        {"answer": answer, "query": lambda request: request.inputs["question"], "verdict": "yes"}
    )


def test_quality_actions_abstention_support_and_cost(lm: Any) -> None:
    systems = {"no retrieval": RAG([], k=0), "RAG": RAG([OPENED, CATS], k=2), "CRAG": crag()}
    with dspy.context(lm=lm):
        compared = compare(systems, devset(), contains_word, threads=1)
    alone, rag, corrected = compared.systems
    assert (alone.quality.mean, rag.quality.mean) == (0.0, pytest.approx(1 / 3))
    assert corrected.quality.mean == 1.0  # Ardent from the passages, Borel from the web, none for Corbu
    assert corrected.actions == {"correct": 1, "incorrect": 2}
    assert rag.actions == {}
    assert (alone.abstained, corrected.abstained) == (0.0, pytest.approx(1 / 3))
    assert (alone.unsupported, rag.unsupported, corrected.unsupported) == (1.0, pytest.approx(2 / 3), 0.0)
    assert alone.context_tokens == 0
    assert corrected.context_tokens < rag.context_tokens
    assert (rag.lm_calls, corrected.lm_calls) == (1.0, pytest.approx(4 / 3))  # two rewrites, two answers
    assert (rag.searches, corrected.searches) == (0.0, pytest.approx(2 / 3))
    assert corrected.seconds > 0
    assert alone.change is None
    assert (corrected.change.better, corrected.change.worse) == (3, 0)


def test_the_table_names_every_system(lm: Any) -> None:
    with dspy.context(lm=lm):
        compared = compare({"RAG": RAG([OPENED], k=1), "CRAG": crag()}, devset(), contains_word, threads=1)
    title, header, rag, corrected = str(compared).splitlines()
    assert title.startswith("contains_word on 3 questions, against RAG")
    assert len(header) == len(rag) == len(corrected)
    assert "1/2/0" in corrected
    assert compared.markdown().splitlines()[3].startswith("| CRAG | 1.000 [1.000, 1.000] | +0.667")
    assert json.loads(json.dumps(compared.to_json()))["systems"][1]["unsupported"] == 0.0


def test_ablations_are_settings(lm: Any) -> None:
    program = crag()
    before = program.dump_state()
    with dspy.context(lm=lm):
        compared = compare({"CRAG": program, **ablations(program)}, devset(), contains_word, threads=1)
    by_name = {system.name: system for system in compared.systems}
    assert by_name["always correct"].actions == {"correct": 3}
    assert by_name["always incorrect"].actions == {"incorrect": 3}
    assert by_name["always ambiguous"].actions == {"ambiguous": 3}
    assert by_name["no refinement"].context_tokens > by_name["CRAG"].context_tokens
    assert by_name["no rewriting"].lm_calls < by_name["CRAG"].lm_calls
    assert program.dump_state() == before


def test_a_system_that_fails_does_not_end_the_comparison(lm: Any) -> None:
    class Broken(dspy.Module):
        def forward(self, question: str) -> dspy.Prediction:
            raise RuntimeError("down")

    with dspy.context(lm=lm):
        compared = compare({"CRAG": crag(), "broken": Broken()}, devset(), contains_word, threads=1)
    assert compared.systems[1].failures == 3
    assert compared.systems[1].quality.mean == 0.0


def test_other_programs_are_measured_by_what_they_say(lm: Any) -> None:
    class Plain(dspy.Module):
        def forward(self, question: str) -> dspy.Prediction:
            return dspy.Prediction(answer="in 1931", context="It opened in 1931.")

    systems = {"plain": Plain(), "SelfCRAG": SelfCRAG([OPENED], WordGrader(), web)}
    with dspy.context(lm=lm):
        compared = compare(systems, devset(), contains_word, threads=1, count_tokens=len, unit="characters")
    assert compared.systems[0].unsupported == 0.0
    assert compared.systems[0].context_tokens == len("It opened in 1931.")
    assert compared.systems[1].lm_calls > 1


def test_an_interrupted_comparison_goes_on(lm: Any, scripted_lm: Any, tmp_path: Path) -> None:
    def systems() -> dict[str, Any]:
        return {"RAG": RAG([OPENED], k=1), "CRAG": crag()}

    dying = scripted_lm(lm.engine.script, raises={4: KeyboardInterrupt()})
    with dspy.context(lm=dying), pytest.raises(KeyboardInterrupt):
        compare(systems(), devset(), contains_word, threads=1, run=tmp_path)
    rest = scripted_lm(lm.engine.script)
    with dspy.context(lm=rest):
        resumed = compare(systems(), devset(), contains_word, threads=1, run=tmp_path)
    with dspy.context(lm=lm):
        whole = compare(systems(), devset(), contains_word, threads=1)
    assert len(rest.requests) < len(lm.requests)
    assert [s.quality for s in resumed.systems] == [s.quality for s in whole.systems]
    assert json.loads((tmp_path / "comparison.json").read_text())["questions"] == 3


@pytest.mark.parametrize(
    ("names", "message"), [([], "systems is empty"), (["CRAG", "crag!"], "kept in one folder, 'crag'")]
)
def test_wrong_systems_are_told(names: list[str], message: str, lm: Any, tmp_path: Path) -> None:
    with dspy.context(lm=lm), pytest.raises(ConfigError, match=message):
        compare({name: crag() for name in names}, devset(), contains_word, run=tmp_path)
    assert lm.requests == []
