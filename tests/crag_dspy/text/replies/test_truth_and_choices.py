"""What a free-text answer says of a claim, and which choice it names."""

import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.text.replies import read_choice, read_choices, read_truth

MOONS = {"A": "a planet", "B": "the Moon", "C": "an infectious disease", "D": "a chronic infectious disease"}


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("True", True),
        ("true.", True),
        ("**True**", True),
        ("Yes", True),
        ("Yes, it is supported by the evidence.", True),
        ("The claim is correct.", True),
        ("SUPPORTS", True),
        ("That is not false.", True),
        ("No doubt, this is true.", True),
        ("这个说法是正确的。", True),
        ("属实", True),
        ("False", False),
        ("No.", False),
        ("No, that is wrong.", False),
        ("The claim is not true.", False),
        ("It isn't really correct.", False),
        ("The claim isn’t supported.", False),
        ("REFUTES", False),
        ("False. It is true that he was there, but not that day.", False),
        ("There is no evidence for this.", False),
        ("这个说法不正确。", False),
        ("错误", False),
        ("It was said in 1990. The claim is false.", False),
        ("The claim is true and false.", None),
        ("Partly true", None),
        ("mixture", None),
        ("", None),
        ("Paris", None),
        ("I do not know whether it is true.", None),
        ("部分正确", None),
    ],
)
def test_verdicts(answer: str, verdict: bool | None) -> None:
    assert read_truth(answer) is verdict


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("B", "B"),
        ("b", "B"),
        ("(B)", "B"),
        ("B.", "B"),
        ("Ｂ", "B"),
        ("B: the Moon", "B"),
        ("B) the Moon", "B"),
        ("The answer is B.", "B"),
        ("the correct answer is B", "B"),
        ("Answer: (B)", "B"),
        ("**Answer:** B", "B"),
        ("答案是B。", "B"),
        ("选B", "B"),
        ("the Moon", "B"),
        ("It is the Moon, of course.", "B"),
        ("It must be a chronic infectious disease", "D"),
        ("A planet", "A"),
        ("The answer is a planet", "A"),
        ("A", "A"),
        ("A star of the night", None),  # the article, not the label
        ("The answer is a star", None),
        ("A or B", None),
        ("A, B", None),
        ("a planet or the Moon", None),
        ("Z", None),
        ("", None),
    ],
)
def test_choices(answer: str, label: str | None) -> None:
    assert read_choice(answer, MOONS) == label


def test_numbered_choices() -> None:
    assert read_choice("2", {"1": "ice", "2": "steam"}) == "2"
    assert read_choice("The answer is 2.", {"1": "ice", "2": "steam"}) == "2"
    assert read_choice("12", {"1": "ice", "2": "steam"}) is None


@pytest.mark.parametrize(
    "choices",
    [{"A": "ice", "B": "steam"}, ["ice", "steam"], {"label": ["A", "B"], "text": ["ice", "steam"]}],
)
def test_choices_come_in_three_shapes(choices: object) -> None:
    assert read_choices(choices) == {"A": "ice", "B": "steam"}


@pytest.mark.parametrize("choices", ["ice", [], {}, None, 3])
def test_other_shapes_are_refused(choices: object) -> None:
    with pytest.raises(ConfigError, match="choices must map labels to texts"):
        read_choices(choices)
