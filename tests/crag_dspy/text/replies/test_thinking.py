"""What stands around an answer is no part of it."""

from __future__ import annotations

from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy import CRAG, Passage
from crag_dspy.text.replies import reply_text


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<think>Hm.</think>Paris", "Paris"),
        ("<think>\nRome?\nNo.\n</think>\n\nParis", "Paris"),
        ("<THINK>Rome?</THINK> Paris", "Paris"),
        ("<thinking>Rome?</thinking>Paris", "Paris"),
        ("Rome? No.</think>\nParis", "Paris"),  # the prompt opened it
        ("<think>Rome? It must be", ""),  # cut
        ("<think>a<think>b</think>c</think>Paris", "Paris"),
        ("The tag <think> begins it", "The tag <think> begins it"),
        ("I think it is Paris", "I think it is Paris"),
        ("Javed Ahmad Ghamidi [[ ## completed ## ]]", "Javed Ahmad Ghamidi"),
        ("[[ ## answer ## ]]\nParis\n\n[[ ## completed ## ]]", "Paris"),
        ("[[ ## answer ## ]] Paris", "Paris"),
        ("[[ ## reasoning ## ]]\nIt is big.\n[[ ## answer ## ]]\nParis", "Paris"),
        ("Paris [[ ## question ## ]] And Rome?", "Paris"),
        ("a[[0]] of [[1]]", "a[[0]] of [[1]]"),
        (None, ""),
        (42, "42"),
    ],
)
def test_thinking_and_markers_are_no_part_of_a_reply(said: Any, text: str) -> None:
    assert reply_text(said, "answer") == text


@given(st.text(max_size=80))
def test_any_text_is_read_and_reading_twice_changes_nothing(text: str) -> None:
    assert reply_text(reply_text(text)) == reply_text(text)


@pytest.mark.parametrize(
    "answer", ["1931 [[ ## completed ## ]]", "<think>1867? No, that is another one.</think>\n1931"]
)
def test_an_answer_of_the_program_is_the_answer_alone(scripted_lm: Any, answer: str) -> None:
    program = CRAG([Passage("The Ardent Bridge opened in 1931.")], lambda question, texts: [0.9] * len(texts))
    with dspy.context(lm=scripted_lm({"answer": answer})):
        prediction = program(question="When did the Ardent Bridge open?")
    assert prediction.answer == "1931"
    assert prediction.grounded
