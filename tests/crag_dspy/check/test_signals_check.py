"""Answers checked by signals: where they stand, how near their question's words, and what cannot be judged."""

from __future__ import annotations

import pytest

from crag_dspy import Passage, T5Grader
from crag_dspy.check.by_signals import NOWHERE, SignalsCheck, nearness
from crag_dspy.check.contract import AnswerCheck, CheckingGrader
from crag_dspy.graders.artefact import CheckWeights
from crag_dspy.passages import Strip
from crag_dspy.refine import strips_of

BRIDGE = "The Golden Gate Bridge was designed by the engineer Joseph Strauss. It opened in 1937."
WHO = "Who designed the Golden Gate Bridge?"
PLANS = "| Plan | Price |\n|---|--:|\n| Basic | 19 |\n| Pro | 49 |\n"


def evidence(text: str, score: float | None = 0.9, title: str = "") -> list[Strip]:
    from dataclasses import replace

    return [replace(strip, score=score) for strip in strips_of([Passage(text, title=title)], "internal")]


class Scores:
    """A grader with weights, whose every score is the same."""

    check_weights = CheckWeights(bias=-2.0, qa=2.0, prox=2.0, s_ans=1.0)

    def __init__(self, value: float | None = 0.8) -> None:
        self.value = value

    def score(self, question: str, texts: list[str]) -> list[float | None]:
        return [self.value for _ in texts]


@pytest.fixture(scope="module")
def mini() -> SignalsCheck:
    return SignalsCheck(T5Grader.from_pretrained("mini"))


@pytest.fixture(scope="module")
def cut() -> float:
    weights = T5Grader.from_pretrained("mini").check_weights
    assert weights is not None
    assert weights.answer_threshold is not None
    return weights.answer_threshold


def test_the_parts_fit_their_protocols() -> None:
    assert isinstance(SignalsCheck(Scores()), AnswerCheck)
    assert isinstance(T5Grader.from_pretrained("mini"), CheckingGrader)


@pytest.mark.parametrize(
    ("question", "text", "right", "wrong"),
    [
        (WHO, BRIDGE, "Joseph Strauss", "Marta Ellison"),
        ("How much does the Pro plan cost?", PLANS, "49", "$1000"),
        (
            "金门大桥是谁设计的？",
            "金门大桥由工程师约瑟夫·斯特劳斯设计。它于1937年通车。",
            "约瑟夫·斯特劳斯",
            "王小明",
        ),
    ],
)
def test_what_the_evidence_contradicts_is_below_the_cut(
    mini: SignalsCheck, cut: float, question: str, text: str, right: str, wrong: str
) -> None:
    strips = evidence(text)
    supported, held_nowhere = mini(question, right, strips), mini(question, wrong, strips)
    assert supported.confidence is not None
    assert held_nowhere.confidence is not None
    assert held_nowhere.confidence < cut <= supported.confidence
    assert held_nowhere.supports == []
    assert held_nowhere.signals["s_ans"] == NOWHERE


@pytest.mark.parametrize(
    "answer",
    ["Joseph Strauss", "It was the engineer Joseph Strauss.", "joseph STRAUSS", "Joseph Strauss [2]"],
)
def test_supports_are_characters_of_their_strip(answer: str) -> None:
    strips = evidence("Fog is common. " + BRIDGE)
    (place,) = SignalsCheck(Scores())(WHO, answer, strips).supports
    assert place.strip == 2
    assert "Joseph Strauss".endswith(strips[1].text[place.start : place.end].removeprefix("engineer "))


@pytest.mark.parametrize(
    ("question", "answer", "text"),
    [
        ("Is it a bridge?", "Yes.", BRIDGE),
        ("它是桥吗？", "是的", "金门大桥是一座桥。"),
        ("It is a bridge.", "False", BRIDGE),
        ("Which one?", "B", BRIDGE),
        ("Which one?", "(c)", BRIDGE),
        (WHO, "Strauss did it. He was an engineer.", BRIDGE),
        (WHO, "word " * 60, BRIDGE),
        ("How many people in both?", "68", "North has 40 people. South has 28 people."),
        ("How many more in the north?", "12", "North has 40 people. South has 28 people."),
        ("How many minutes?", "180", "The trip takes 3 hours."),
        ("Which colours?", "green, red and blue", "One is green and one is red. The other is blue."),
        ("What colour?", "emerald", "The bridge is painted green."),
        ("Who designed it?", "约瑟夫", BRIDGE),
    ],
)
def test_what_may_follow_without_standing_anywhere_is_not_judged(
    question: str, answer: str, text: str
) -> None:
    found = SignalsCheck(Scores())(question, answer, evidence(text))
    assert found.confidence is None
    assert found.why_not


def test_what_the_grader_cannot_judge_has_no_confidence() -> None:
    assert SignalsCheck(Scores(None))(WHO, "Joseph Strauss", evidence(BRIDGE)).confidence is None
    assert SignalsCheck(Scores())(WHO, "Joseph Strauss", evidence(BRIDGE, score=None)).confidence is None


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("Joseph Strauss designed the Golden Gate Bridge", 1.0),
        ("Joseph Strauss" + " and so on" * 5 + " designed the Golden Gate Bridge", 0.0),
        ("Joseph Strauss lived. Joseph Strauss designed it", 0.25),
    ],
)
def test_nearness_is_the_share_of_the_questions_words(text: str, near: float) -> None:
    assert nearness(WHO, "Joseph Strauss", text) == near


def test_a_confidence_grows_with_each_signal() -> None:
    weights = Scores.check_weights
    low = weights.confidence(qa=-1, prox=0, s_ans=-1)
    assert (
        0 < low < weights.confidence(qa=1, prox=0, s_ans=-1) < weights.confidence(qa=1, prox=1, s_ans=1) < 1
    )


def test_ten_long_strips_are_searched_in_few_steps() -> None:
    """Where an answer stands is found by halves: a strip may be a whole page."""
    page = "Fog is common. " * 5000 + "Joseph Strauss designed it."
    (strip,) = evidence(page, 0.5)[-1:]
    (place,) = SignalsCheck(Scores())(WHO, "Strauss", [strip]).supports
    assert strip.text[place.start : place.end] == "Strauss"
