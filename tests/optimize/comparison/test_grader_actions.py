"""Graders compared by the actions they trigger: what is right, how AMBIGUOUS counts, and thresholds that are found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest

from crag_dspy import CRAG
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.comparison.grader_actions import compare_graders

COUNTRIES = ("France", "Italy", "Spain", "Peru")
PLACES = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Peru": "Lima"}
TEXTS = {
    "France": "Paris is the capital of France.",
    "Italy": "Rome is the capital of Italy.",
    "Spain": "Spain has beaches.",
    "Peru": "Peru grows potatoes.",
}


class ByCountry:
    """Scores what a table says; counts its calls."""

    def __init__(self, name: str, scores: dict[str, float | None], **suggested: Any) -> None:
        self.name, self.fingerprint, self.scores, self.calls = name, f"{name}-1", scores, 0
        vars(self).update(suggested)

    def __deepcopy__(self, memo: dict[int, Any]) -> ByCountry:
        return self

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        self.calls += 1
        return [next(score for country, score in self.scores.items() if country in text) for text in texts]


def retrieve(query: str) -> list[dict[str, str]]:
    return [{"id": country, "text": text} for country, text in TEXTS.items() if country in query]


def devset() -> list[dspy.Example]:
    """The passages of France and Italy answer, those of Spain and Peru do not."""
    return [
        dspy.Example(question=f"What is the capital of {country}?", answers=[PLACES[country]]).with_inputs(
            "question"
        )
        for country in COUNTRIES
    ]


def good() -> ByCountry:
    return ByCountry("good", {"France": 0.9, "Italy": 0.2, "Spain": -0.8, "Peru": 0.1})


def blind() -> ByCountry:
    return ByCountry("blind", {"France": -1.0, "Italy": -1.0, "Spain": 0.9, "Peru": 0.9})


def crag(grader: Any) -> CRAG:
    return CRAG(retrieve, grader, k=1, upper=0.5, lower=-0.5)


def test_the_accuracy_of_the_triggered_action() -> None:
    mine = good()
    compared = compare_graders(crag(mine), {"good": mine, "blind": blind()}, devset())
    first, second = compared.graders
    assert (compared.questions, compared.relevant) == (4, 2)
    assert first.actions == {"correct": 1, "ambiguous": 2, "incorrect": 1}
    assert first.accuracy.mean == (1 + 0.5 + 1 + 0.5) / 4  # ambiguous is one half
    assert first.strict == 0.5
    assert first.separation == 1.0  # 0.9 and 0.2 are above -0.8 and 0.1
    assert (second.accuracy.mean, second.strict, second.separation) == (0.0, 0.0, 0.0)
    assert second.change is not None
    assert second.change.difference == -0.75
    assert "the passages of 2 answer" in str(compared)
    assert len({line.count("|") for line in compared.markdown().splitlines()[2:]}) == 1


def test_thresholds_are_the_programs_for_its_grader_and_suggested_for_others() -> None:
    from crag_dspy.actions import Thresholds

    mine = good()
    other = ByCountry("other", dict(good().scores), thresholds=Thresholds(0.15, 0.12))
    compared = compare_graders(crag(mine), {"good": mine, "other": other}, devset())
    assert [(one.thresholds.upper, one.thresholds.lower) for one in compared.graders] == [
        (0.5, -0.5),
        (0.15, 0.12),
    ]
    assert compared.graders[1].accuracy.mean == 1.0


def test_thresholds_are_found_on_other_questions_by_grading_alone(scripted_lm: Any) -> None:
    mine = good()
    lm = scripted_lm({})
    with dspy.context(lm=lm):
        compared = compare_graders(crag(mine), {"good": mine}, devset(), tune_on=devset())
    found = compared.graders[0]
    assert found.tuned
    assert found.accuracy.mean == 1.0
    assert 0.1 < found.thresholds.lower <= found.thresholds.upper <= 0.2
    assert lm.requests == []


def test_what_could_not_be_judged_is_never_taken_for_relevant() -> None:
    unsure = ByCountry("unsure", {"France": None, "Italy": 0.9, "Spain": None, "Peru": -0.9})
    found = compare_graders(crag(unsure), {"unsure": unsure}, devset()).graders[0]
    assert found.actions == {"ambiguous": 2, "correct": 1, "incorrect": 1}
    assert (found.unjudged, found.accuracy.mean) == (2, 0.75)


def test_relevant_ids_say_what_is_relevant() -> None:
    mine = good()
    examples = [
        dspy.Example(
            question="What is the capital of Spain?", answers=["Madrid"], relevant_ids=["Spain"]
        ).with_inputs("question")
    ]
    compared = compare_graders(crag(mine), {"good": mine}, examples)
    assert compared.relevant == 1
    assert compared.graders[0].accuracy.mean == 0.0


def test_an_interrupted_comparison_goes_on(tmp_path: Path) -> None:
    class Dying(ByCountry):
        def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
            if self.calls == 2:
                raise KeyboardInterrupt
            return super().score(question, texts)

    dying = Dying("good", dict(good().scores))
    with pytest.raises(KeyboardInterrupt):
        compare_graders(crag(dying), {"good": dying}, devset(), run=tmp_path, threads=1)
    mine = good()
    resumed = compare_graders(crag(mine), {"good": mine}, devset(), run=tmp_path, threads=1)
    assert mine.calls == 2
    fresh = good()
    assert (
        resumed.graders[0].accuracy
        == compare_graders(crag(fresh), {"good": fresh}, devset()).graders[0].accuracy
    )


def test_a_grader_that_raises_on_a_question_does_not_end_the_batch(tmp_path: Path) -> None:
    class Down(ByCountry):
        def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
            if "Italy" in question and self.calls < 4:
                self.calls += 1
                raise RuntimeError("down")
            return super().score(question, texts)

    down = Down("good", dict(good().scores))
    first = compare_graders(crag(down), {"good": down}, devset(), run=tmp_path).graders[0]
    # Nothing was decided: not the half of a point that a hedge is worth.
    assert (first.failures, first.unjudged, first.actions["ambiguous"]) == (1, 0, 1)
    again = compare_graders(crag(down), {"good": down}, devset(), run=tmp_path).graders[0]
    assert (again.failures, down.calls) == (0, 5)


def test_wrong_arguments_are_told_before_anything_is_graded() -> None:
    mine = good()
    with pytest.raises(ConfigError, match="graders is empty"):
        compare_graders(crag(mine), {}, devset())
    unlabelled = [dspy.Example(question="Why?").with_inputs("question")]
    with pytest.raises(ConfigError, match=r"devset\[0\]: an example needs"):
        compare_graders(crag(mine), {"good": mine}, unlabelled)
    assert mine.calls == 0


def test_a_retriever_that_fails_ends_nothing_and_earns_nothing(tmp_path: Path) -> None:
    """INCORRECT is not right because no passage came back."""

    down = [True]

    def unsteady(query: str) -> list[dict[str, str]]:
        if down[0] and "Peru" in query:
            raise ConnectionError("index is down")
        return retrieve(query)

    mine = good()
    program = CRAG(unsteady, mine, k=1, upper=0.5, lower=-0.5)
    found = compare_graders(program, {"good": mine}, devset(), run=tmp_path, threads=1).graders[0]
    assert found.failures == 1
    assert found.accuracy.mean == (1 + 0.5 + 1 + 0) / 4
    down[0] = False
    again = compare_graders(program, {"good": mine}, devset(), run=tmp_path, threads=1).graders[0]
    assert (again.failures, again.accuracy.mean, mine.calls) == (0, 0.75, 4)


def test_questions_that_are_tuned_on_are_graded_once() -> None:
    mine, examples = good(), devset()
    compare_graders(crag(mine), {"good": mine}, examples, tune_on=examples, threads=1)
    assert mine.calls == len(examples)
