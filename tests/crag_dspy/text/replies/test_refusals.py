"""Saying that the evidence is not there, and recognising it."""

from __future__ import annotations

import pytest

from crag_dspy.text.replies import abstention_for, is_abstention


@pytest.mark.parametrize(
    ("question", "word"),
    [("Who built it?", "evidence"), ("谁建的？", "没有答案"), ("誰が建てましたか。", "ありません")],
)
def test_an_abstention_is_in_the_language_of_the_question_and_recognised(question: str, word: str) -> None:
    assert word in abstention_for(question)
    assert is_abstention(f" {abstention_for(question)}\n")


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I don't know.",
        "Unknown",
        "The context does not say who built it.",
        "The provided context doesn't contain the answer.",
        "Passages do not mention it",
        "不知道。",
        "无法确定",
    ],
)
def test_plain_ways_of_not_knowing(answer: str) -> None:
    assert is_abstention(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "1931",
        "The Unknown Soldier",
        "The context does not name him, but it was built by Ardent.",
        "未知数",
        "No. 5",
    ],
)
def test_answers_are_not_abstentions(answer: str) -> None:
    assert not is_abstention(answer)
