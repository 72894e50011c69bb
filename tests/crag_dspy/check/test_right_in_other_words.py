"""A strong model's right answers that stand nowhere word for word are not called unsupported."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from crag_dspy import Passage
from crag_dspy.check.by_signals import SignalsCheck
from crag_dspy.graders.artefact import CheckWeights
from crag_dspy.passages import Strip
from crag_dspy.refine import strips_of

Asked = tuple[str, str, str]  # question, answer, evidence
COLOURS = ["red", "green", "blue", "white", "black", "yellow"]
IN_OTHER_WORDS = [
    ("What happened to the population?", "it roughly doubled", "The population rose from 2 to 4 million."),
    ("How did he travel?", "by ship", "He sailed from Lisbon."),
    ("Why was it closed?", "too expensive", "It was shut down because of its high cost."),
    ("What did she do?", "a physician", "She treated the sick in the town's hospital."),
    ("Where is it?", "close to the sea", "The house stands by the coast."),
    ("他怎么去的？", "坐船去的", "他从里斯本乘船出发。"),
]


def sums(drawn: random.Random) -> Asked:
    one, other = drawn.sample(range(11, 900), 2)
    text = f"The north has {one} houses. The south has {other} houses."
    if drawn.random() < 0.5:
        return "How many houses are there?", str(one + other), text
    return "How many more houses are there?", f"{abs(one - other)} houses", text


def units(drawn: random.Random) -> Asked:
    hours = drawn.randint(2, 40)
    text = f"The journey takes {hours} hours."
    minutes = drawn.choice([f"{hours * 60} minutes", f"{hours * 3600:,} seconds", f"{hours / 24:.3g} days"])
    return "How long is the journey?", minutes, text


def lists(drawn: random.Random) -> Asked:
    one, two, three = drawn.sample(COLOURS, 3)
    text = f"The door is {one}. The roof is {two}. The wall is {three}."
    return "Which colours has the house?", f"{one}, {two} and {three}", text


def verdicts(drawn: random.Random) -> Asked:
    answer = drawn.choice(["Yes", "No.", "yes", "no", "True", "False.", "Yes.", "是", "否", "对"])
    return "Is the door red?", answer, "The door is red."


def paraphrases(drawn: random.Random) -> Asked:
    return drawn.choice(IN_OTHER_WORDS)


class Worst:
    """The grader under which nothing that is judged is supported."""

    check_weights = CheckWeights(bias=-9.0, qa=0.0, prox=0.0, s_ans=0.0)

    def score(self, question: str, texts: list[str]) -> list[float | None]:
        return [-1.0 for _ in texts]


@pytest.mark.parametrize("kind", [sums, units, lists, verdicts, paraphrases])
def test_at_most_five_of_a_hundred_are_judged(kind: Callable[[random.Random], Asked]) -> None:
    check, judged = SignalsCheck(Worst()), 0
    for seed in range(100):
        question, answer, text = kind(random.Random(seed))
        strips: list[Strip] = [replace(strip, score=0.9) for strip in strips_of([Passage(text)], "internal")]
        judged += check(question, answer, strips).confidence is not None
    assert judged <= 5
