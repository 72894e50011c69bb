"""The metric of each task on answers worked out by hand: short answers, claims, choices (long form: test_factscore)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy
import pytest

from crag_dspy.optimize.metrics import answers as metrics

PLANET = {"A": "Its years grow longer.", "B": "Its days grow shorter.", "C": "Its gravity grows."}
STATES = {"1": "ice", "2": "steam", "3": "ice and steam"}


def scored(metric: Callable[..., Any], answer: str, **fields: Any) -> float:
    return float(metric(dspy.Example(question="q", **fields), dspy.Prediction(answer=answer)))


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("B", True),
        ("b.", True),
        ("(B)", True),
        ("**B**", True),
        ("B [1]", True),  # cited, as our own generator does
        ("B: Its days grow shorter. [2]", True),
        ("The answer is B, because A is wrong.", True),
        ("its days grow shorter", True),
        ("选B", True),
        ("A", False),
        ("Not B", False),
        ("A or B", False),
        ("A, B, C", False),
        ("none of them", False),
        ("E", False),
        ("I don't know.", False),
        ("", False),
    ],
)
def test_choices(answer: str, right: bool) -> None:
    for gold in ("B", "Its days grow shorter."):  # by label and by text
        assert scored(metrics.choice_accuracy, answer, answers=[gold], choices=PLANET) == float(right)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("2", True),
        ("2 [1]", True),
        ("[2]", True),
        ("steam", True),
        ("ice and steam", False),
        ("1", False),
        ("B", False),
    ],
)
def test_choices_with_numbers_for_labels(answer: str, right: bool) -> None:
    assert scored(metrics.choice_accuracy, answer, answers=["2"], choices=STATES) == float(right)


@pytest.mark.parametrize(
    ("answer", "reads"),
    [
        ("True.", "true"),
        ("true [1]", "true"),
        ("It's true", "true"),
        ("not false", "true"),
        ("True, although some say otherwise.", "true"),
        ("False", "false"),
        ("untrue", "false"),
        ("The claim is not true [2].", "false"),
        ("There is no evidence that it is true", None),
        ("partly true", None),
        ("true/false", None),
        ("truthful", None),
        ("I don't know", None),
        ("The evidence does not contain the answer.", None),
        ("", None),
    ],
)
def test_claims(answer: str, reads: str | None) -> None:
    for gold in ("true", "false"):
        assert scored(metrics.claim_accuracy, answer, answers=[gold]) == float(reads == gold)


@pytest.mark.parametrize("metric", [metrics.contains_word, metrics.exact_match, metrics.token_f1])
def test_a_citation_is_no_part_of_a_short_answer(metric: Callable[..., Any]) -> None:
    assert scored(metric, "1931 [1, 2]", answers=["1931"]) == 1.0
    assert scored(metric, "[1]", answers=["1"]) == 1.0
