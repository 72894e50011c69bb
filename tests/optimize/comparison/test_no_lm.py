"""Evidence judged without a language model, against cheap baselines, and where answers were lost."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from crag_dspy import CRAG
from crag_dspy.optimize.comparison.comparing import compare
from crag_dspy.optimize.comparison.losses import lost_at
from crag_dspy.optimize.comparison.no_lm import without_lm
from crag_dspy.optimize.comparison.sentence_cut import sentence_cut
from crag_dspy.optimize.comparison.systems import systems_of
from crag_dspy.optimize.metrics.answers import answer_in_evidence
from crag_dspy.optimize.metrics.measures import never_unsupported

TEXTS = [
    "The tower is old. Ana built the tower in 1887.",
    "Ben drew the map. The map is of the sea.",
    "The sea is deep. Fish live in the sea.",
]


def question(text: str, *answers: str) -> dspy.Example:
    return dspy.Example(question=text, answers=list(answers)).with_inputs("question")


DEVSET = [
    question("Who built the tower?", "Ana"),
    question("Who drew the map?", "Ben"),
    question("Why jazz?"),
]


class Words:
    name, fingerprint = "words", "1"

    def score(self, asked: str, texts: list[str]) -> list[float]:
        words = set(asked.rstrip("?").split()[1:])
        return [1.9 * len(words & set(text.rstrip(".").split())) / len(words) - 1 for text in texts]


def search(query: str, max_results: int) -> list[dict[str, Any]]:
    return [{"url": "https://a.example", "content": "Ana built the tower, they say."}][:max_results]


def made(**settings: Any) -> CRAG:
    return without_lm(CRAG(TEXTS, Words(), search, upper=0.85, lower=-0.9, **settings))


def test_systems_are_judged_by_their_evidence_and_no_model_is_asked() -> None:
    crag = made(evidence_threshold=0.0)
    systems = systems_of(crag, ["rag:1", "both:1", "words:1", "crag"], cuts={"words:1": 0.1})
    assert list(systems) == [
        "RAG (1 passages)",
        "RAG (1 passages, 1 pages)",
        "1 best sentences (BM25)",
        "1 best sentences (BM25), declining",
        "CRAG",
    ]
    with dspy.context(lm=None):
        found = compare(systems, DEVSET, answer_in_evidence, support=never_unsupported)
    rows = {row.name: row for row in found.systems}
    assert rows["CRAG"].quality.mean == 1.0
    assert rows["CRAG"].declined_rightly == 1.0
    assert rows["CRAG"].declined_falsely == 0.0
    assert rows["1 best sentences (BM25)"].declined_rightly == 0.0
    assert rows["1 best sentences (BM25), declining"].declined_rightly == 1.0
    assert all(row.lm_calls == 0 for row in found.systems)


def test_the_cut_of_sentences_comes_from_other_questions() -> None:
    cut = sentence_cut(made(), "words:3", [*DEVSET, question("Who likes jazz?")])
    assert cut > 0  # a question without a word in the texts declines


def strip(text: str, score: float) -> dict[str, Any]:
    return {"text": text, "score": score}


def trace(**parts: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"kept": [], "dropped": [], "declined": [], "passages": [], "web_passages": []}
    return {**empty, **parts}


ANA, NO = strip("It was Ana.", 0.1), strip("Nobody.", 0.5)


@pytest.mark.parametrize(
    ("story", "stage"),
    [
        (trace(kept=[ANA]), None),
        (trace(declined=[ANA]), "declining"),
        (trace(kept=[NO], dropped=[ANA]), "budget"),
        (trace(kept=[NO], dropped=[ANA, NO]), "ranking"),
        (trace(kept=[NO], passages=[strip("A. Ana.", 0)]), "strips"),
        (trace(kept=[NO], passages=[strip("Nobody.", 0)]), "retrieval"),
    ],
)
def test_an_answer_is_lost_at_one_stage(story: dict[str, Any], stage: str | None) -> None:
    assert lost_at(story, ["Ana"]) == stage


def test_losses_are_told_of_every_system() -> None:
    with dspy.context(lm=None):
        found = compare({"CRAG": made(evidence_threshold=1.0)}, DEVSET, answer_in_evidence)
    assert found.systems[0].lost == {
        "retrieval": 0,
        "strips": 0,
        "ranking": 0,
        "budget": 0,
        "declining": 2,
    }
    assert "declining 2" in str(found)
