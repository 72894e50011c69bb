"""The third threshold: exact with the two others, and what a search of it says."""

from __future__ import annotations

from itertools import product
from typing import Any

import dspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crag_dspy import CRAG
from crag_dspy.actions import Action
from crag_dspy.optimize.metrics.answers import answer_in_evidence
from crag_dspy.optimize.thresholds.devset_arrays import read_devset
from crag_dspy.optimize.thresholds.evidence_cut import NEVER, Declining, best_with_cut
from crag_dspy.optimize.thresholds.exact import best_thresholds
from crag_dspy.optimize.thresholds.one_cut import best_cut
from crag_dspy.optimize.thresholds.search import search_thresholds

GRID = [-1.0, -0.6, -0.2, 0.1, 0.5, 0.9]
scores = st.sampled_from(GRID)
worths = st.sampled_from([0.0, 0.5, 1.0])


@st.composite
def devsets(draw: st.DrawFn) -> tuple[list[Any], list[Any], list[Any]]:
    n = draw(st.integers(1, 5))
    passages = [draw(st.lists(scores, min_size=0, max_size=2)) for _ in range(n)]
    outcomes = [{action: draw(worths) for action in Action} for _ in range(n)]
    known = [{action: (draw(st.none() | scores), draw(worths)) for action in Action} for _ in range(n)]
    return passages, outcomes, known


@settings(max_examples=60, deadline=None)
@given(devsets(), st.sampled_from(["max", "vote"]))
def test_no_cut_with_any_pair_is_better(made: tuple[list[Any], list[Any], list[Any]], policy: Any) -> None:
    passages, outcomes, known = made
    devset, declining = read_devset(passages, outcomes), Declining.read(known)
    found = best_thresholds(passages, outcomes, policy, declining=declining)
    around = [*GRID, *(value + 0.05 for value in GRID)]
    most = max(
        declining.at(devset, cut).values_at(upper, lower, policy).mean()
        for cut, upper, lower in product([NEVER, *around], around, around)
        if lower <= upper
    )
    assert found.value == pytest.approx(most)
    assert found.evidence is not None
    assert found.evidence.gap == 0.0


def test_the_old_cut_stays_where_none_is_better() -> None:
    declining = Declining.read([dict.fromkeys(Action, (0.2, 1.0))])
    found = best_with_cut(read_devset([[0.5]], [dict.fromkeys(Action, 1.0)]), declining, "max", keep_cut=0.37)
    assert found.cut == 0.37


def test_of_many_questions_quantiles_are_tried_and_the_gap_is_told() -> None:
    rng = np.random.default_rng(0)
    n = 400
    known = [{action: (float(rng.uniform(-1, 1)), 1.0) for action in Action} for _ in range(n)]
    outcomes = [{action: float(rng.integers(2)) for action in Action} for _ in range(n)]
    passages = [[float(rng.uniform(-1, 1))] for _ in range(n)]
    devset, declining = read_devset(passages, outcomes), Declining.read(known)
    some = best_with_cut(devset, declining, "max", most=20)
    every = best_with_cut(devset, declining, "max", most=10 * n)

    def value(found: Any) -> float:
        at = declining.at(devset, found.cut)
        return float(at.values_at(found.pair.upper, found.pair.lower, "max").mean())

    assert some.gap > 0
    assert value(every) <= value(some) + some.gap


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.none() | scores, worths, worths), min_size=1, max_size=6))
def test_one_cut_is_the_best_of_all(rows: list[tuple[float | None, float, float]]) -> None:
    cut, value = best_cut(*zip(*rows, strict=True))

    def at(cut: float) -> float:
        return float(np.mean([above if s is None or s >= cut else below for s, above, below in rows]))

    assert value == pytest.approx(at(cut))
    assert value == pytest.approx(max(at(c) for c in [-np.inf, *GRID, *(g + 0.05 for g in GRID)]))


class ByWord:
    """0.8 for a text with the question's last word, -0.6 for the others."""

    name, fingerprint = "by word", "1"

    def score(self, question: str, texts: list[str]) -> list[float]:
        word = question.rstrip("?").split()[-1]
        return [0.8 if word in text else -0.6 for text in texts]


DEVSET = [
    dspy.Example(question=question, answers=answers).with_inputs("question")
    for question, answers in [
        ("Who built the tower?", ["Ana"]),
        ("Who sank the ship?", []),
        ("Who drew the map?", ["Ben"]),
        ("Who ate the cake?", []),
    ]
]
TEXTS = ["Ana built the tower.", "Ben drew the map.", "Who knows the sea?", "Who was it?"]


def test_a_search_finds_where_to_decline_and_the_program_declines_there(scripted_lm: Any) -> None:
    crag = CRAG(TEXTS, ByWord(), strip_threshold=-1.0, evidence_threshold=-1.0, upper=0.5, lower=-0.9)
    with dspy.context(lm=scripted_lm({"answer": "Ana or Ben", "query": "q"})):
        found = search_thresholds(crag, DEVSET, answer_in_evidence, folds=2)
        assert found.best.evidence is not None
        assert -0.6 < found.best.evidence.cut < 0.8
        assert found.best.value == 1.0
        assert found.value_before == 0.5
        told = found.candidate(question="Who sank the ship?")
    assert told.evidence == []
    assert not told.grounded
    assert told.trace.declined
    assert "evidence_threshold" in str(found)
    assert found.to_json()["evidence_threshold"] == found.best.evidence.cut


def test_outcomes_do_not_depend_on_the_cut_that_the_program_has(scripted_lm: Any) -> None:
    """They are collected with every question answered, and say what declining would be worth and cost."""
    crag = CRAG(TEXTS, ByWord(), evidence_threshold=1.0, upper=0.5, lower=-0.9)
    with dspy.context(lm=scripted_lm({"answer": "Ana or Ben", "query": "q"})):
        found = search_thresholds(crag, DEVSET[:1], answer_in_evidence)
    row = found.outcomes.rows[0][Action.CORRECT]
    assert row["quality"] == 1.0
    assert row["evidence_score"] == 0.8
    assert row["declined"]["quality"] == 0.0
    assert row["declined"]["cost"]["lm_calls"] == 0 < row["cost"]["lm_calls"]
    assert found.value_before == 0.0
