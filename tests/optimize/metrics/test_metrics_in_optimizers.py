"""The same metric, unchanged, in Evaluate and in DSPy's own optimizers; the model is scripted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dspy
import pytest

from crag_dspy.optimize.metrics.answers import contains_word, grounded, token_f1
from crag_dspy.optimize.metrics.objective import Prices, combine

if TYPE_CHECKING:
    from collections.abc import Callable

CAPITALS = {
    "France": "Paris",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Peru": "Lima",
    "Cuba": "Havana",
    "Chad": "N'Djamena",
}
METRICS = [contains_word, token_f1, combine({contains_word: 2, grounded: 1}, Prices(search=0.1))]


class Program(dspy.Module):
    """Answers from a context that always names the capital."""

    def __init__(self) -> None:
        super().__init__()
        self.generate = dspy.Predict("context, question -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        country = question.split()[-1].rstrip("?")
        context = f"{CAPITALS[country]} is the capital of {country}."
        answer = self.generate(context=context, question=question).answer
        return dspy.Prediction(answer=answer, context=context)


def trainset() -> list[dspy.Example]:
    return [
        dspy.Example(question=f"What is the capital of {country}?", answers=[city]).with_inputs("question")
        for country, city in CAPITALS.items()
    ]


def knows(*countries: str) -> Callable[[str, Any], str]:
    """A model that knows some capitals, says "a party" for the others, and agrees to all other requests."""

    def reply(field: str, request: Any) -> str:
        if field == "answer":
            country = request.inputs["question"].split()[-1].rstrip("?")
            return CAPITALS[country] if country in countries else "a party"
        return f"Answer with the capital, given in the context. ({field})"

    return reply


@pytest.mark.parametrize("metric", METRICS)
def test_evaluate_averages_it(metric: Any, scripted_lm: Any) -> None:
    with dspy.context(lm=scripted_lm(knows("France", "Italy", "Spain"))):
        result = dspy.Evaluate(devset=trainset(), metric=metric, num_threads=2)(Program())
    assert result.score == pytest.approx(50.0, abs=1)


@pytest.mark.parametrize("metric", METRICS)
def test_a_wrong_answer_never_becomes_a_demonstration(metric: Any, scripted_lm: Any) -> None:
    optimizer = dspy.BootstrapFewShot(metric=metric, max_bootstrapped_demos=6, max_labeled_demos=0)
    with dspy.context(lm=scripted_lm(knows("France", "Italy"))):
        compiled = optimizer.compile(Program(), trainset=trainset())
    assert [demo.answer for demo in compiled.generate.demos] == ["Paris", "Rome"]


def test_a_threshold_lets_partly_right_answers_in_when_asked_to(scripted_lm: Any) -> None:
    def verbose(field: str, request: Any) -> str:
        return knows("France")(field, request) + " it is"

    options = {"max_bootstrapped_demos": 6, "max_labeled_demos": 0}
    with dspy.context(lm=scripted_lm(verbose)):
        strict = dspy.BootstrapFewShot(metric=token_f1, **options)
        lenient = dspy.BootstrapFewShot(metric=token_f1, metric_threshold=0.4, **options)
        assert not strict.compile(Program(), trainset=trainset()).generate.demos
        demos = lenient.compile(Program(), trainset=trainset()).generate.demos
    assert [demo.answer for demo in demos] == ["Paris it is"]


def test_random_search(scripted_lm: Any) -> None:
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=contains_word,
        max_bootstrapped_demos=2,
        max_labeled_demos=0,
        num_candidate_programs=2,
        num_threads=1,
    )
    with dspy.context(lm=scripted_lm(knows("France", "Italy", "Spain"))):
        compiled = optimizer.compile(Program(), trainset=trainset(), valset=trainset())
    assert compiled.candidate_programs[0]["score"] == 50.0
    assert {demo.answer for demo in compiled.generate.demos} <= {"Paris", "Rome", "Madrid"}


def test_mipro(scripted_lm: Any) -> None:
    lm = scripted_lm(knows("France", "Italy", "Spain"))
    optimizer = dspy.MIPROv2(
        metric=contains_word,
        prompt_model=lm,
        task_model=lm,
        auto=None,
        num_candidates=2,
        max_bootstrapped_demos=1,
        max_labeled_demos=0,
        num_threads=1,
    )
    with dspy.context(lm=lm):
        compiled = optimizer.compile(
            Program(),
            trainset=trainset(),
            valset=trainset(),
            num_trials=2,
            minibatch=False,
            program_aware_proposer=False,
            data_aware_proposer=False,
        )
    assert compiled.score == 50.0


def test_simba_reads_score_and_feedback(scripted_lm: Any) -> None:
    lm = scripted_lm(knows("France", "Italy", "Spain"))
    optimizer = dspy.SIMBA(
        metric=contains_word, bsize=6, num_candidates=2, max_steps=1, max_demos=1, num_threads=1
    )
    with dspy.context(lm=lm):
        compiled = optimizer.compile(Program(), trainset=trainset(), seed=0)
    assert compiled.candidate_programs[0]["score"] == 0.5


def test_gepa_shows_the_feedback_to_the_reflecting_model(scripted_lm: Any) -> None:
    lm = scripted_lm(knows("France", "Italy", "Spain"))
    reflecting = scripted_lm(raw="```\nAnswer with the capital that the context names.\n```")
    optimizer = dspy.GEPA(
        metric=combine({contains_word: 2, grounded: 1}),
        reflection_lm=reflecting,
        max_metric_calls=30,
        num_threads=1,
        reflection_minibatch_size=6,
        track_stats=True,
        seed=0,
    )
    with dspy.context(lm=lm):
        compiled = optimizer.compile(Program(), trainset=trainset(), valset=trainset())
    shown = "\n".join(request.text for request in reflecting.requests)
    assert "contains_word 0.00: 'a party' does not contain 'Lima'." in shown
    assert "It is in the evidence ('Lima' in 'Lima is the capital of Peru.')" in shown
    assert compiled.detailed_results.val_aggregate_scores[0] == pytest.approx(0.5)
