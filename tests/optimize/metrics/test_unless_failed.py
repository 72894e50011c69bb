"""A question that failed is not right and not declined, by any metric, whatever its answer says."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from crag_dspy.optimize.metrics.answers import METRICS, contains_word
from crag_dspy.optimize.metrics.measures import averaged, declined, unsupported
from crag_dspy.optimize.metrics.objective import combine
from crag_dspy.optimize.metrics.observed import abstained
from crag_dspy.text.replies import abstention_for

QUESTION = "What is the capital of Peru?"
CAUSE = "language model: LMTransportError: [openai/x] failed to connect"
# Golds of every kind that the sentence of a refusal would be right for: none, and a word of it.
GOLDS: list[dict[str, Any]] = [
    {"answers": []},
    {"answers": ["answer"]},
    {"answers": [abstention_for(QUESTION)]},
    {"answers": ["false"]},
    {"answers": ["A"], "choices": {"A": "the evidence", "B": "the moon"}},
    {"answers": [], "action": "correct"},
]


def example(**fields: Any) -> dspy.Example:
    return dspy.Example(question=QUESTION, passages=["Lima."], **fields).with_inputs("question")


def outage() -> dspy.Prediction:
    return dspy.Prediction(
        answer=abstention_for(QUESTION), failed=CAUSE, action="correct", trace={"passages": []}
    )


@pytest.mark.parametrize("golds", GOLDS, ids=str)
@pytest.mark.parametrize("name", METRICS)
def test_no_metric_calls_an_outage_right(name: str, golds: dict[str, Any]) -> None:
    result = METRICS[name](example(**golds), outage())
    assert float(result) == 0
    assert not result
    assert CAUSE in result.feedback


def test_nor_does_a_combination(scripted_lm: Any) -> None:
    assert float(combine(list(METRICS.values()))(example(answers=[]), outage())) == 0


def test_it_has_neither_declined_nor_claimed_anything() -> None:
    assert not abstained(outage())
    assert (declined(example(answers=[]), outage()), unsupported(example(answers=[]), outage())) == (0, 0)


def test_the_same_answer_without_a_failure_declines() -> None:
    silent = dspy.Prediction(answer=abstention_for(QUESTION), failed=None)
    assert abstained(silent)
    assert contains_word(example(answers=[]), silent) == 1


def test_over_seeds_what_is_said_of_answers_is_of_those_that_were_given() -> None:
    first = {"failed": [1.0, 0.0, 1.0], "abstained": [0.0, 1.0, 0.0], "quality": [0.0, 1.0, 0.0]}
    second = {"failed": [0.0, 0.0, 1.0], "abstained": [1.0, 0.0, 0.0], "quality": [1.0, 0.0, 0.0]}
    found = averaged([first, second])
    assert found["abstained"] == [1.0, 0.5, 0.0]  # a failed seed of the first question says nothing of it
    assert found["quality"] == [0.5, 0.5, 0.0]  # and is not right
    assert found["failed"] == [0.5, 0.0, 1.0]
