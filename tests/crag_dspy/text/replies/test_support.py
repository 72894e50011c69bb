"""Judgements in words are read as people mean them, and never guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.text.replies import read_support, read_usefulness


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("fully", 1.0),
        ("Fully supported.", 1.0),
        ("[Fully supported]", 1.0),
        ("Yes, the context states that it was chosen in 1857.", 1.0),
        ("The context fully supports the answer.", 1.0),
        ("The answer is fully supported, and nothing is missing.", 1.0),
        ("Support: fully", 1.0),
        ("完全支持", 1.0),
        ("支持", 1.0),
        ("partially", 0.5),
        ("[Partially supported]", 0.5),
        ("Partially: the year is stated, the place is not.", 0.5),
        ("It is not fully supported.", 0.5),
        ("The context doesn't completely support it", 0.5),
        ("Mostly supported", 0.5),
        ("部分支持", 0.5),
        ("不完全支持", 0.5),
        ("no", 0.0),
        ("No.", 0.0),
        ("[No support / Contradictory]", 0.0),
        ("Not supported", 0.0),
        ("not at all", 0.0),
        ("No, the context says 1930.", 0.0),
        ("The context does not support the answer", 0.0),
        ("The context contradicts it.", 0.0),
        ("It isn't in the context.", 0.0),
        ("不支持", 0.0),
        ("没有支持", 0.0),
        ("矛盾", 0.0),
        ("<think>It is fully there. No, wait.</think>\nVerdict: no", 0.0),
        ("The year stands there. So the answer is partially supported.", 0.5),
        ("fully, partially or no", None),
        ("fully/partially/no", None),
        ("Perhaps", None),
        ("I cannot tell", None),
        ("不确定", None),
        ("banana", None),
        ("", None),
    ],
)
def test_support(text: str, meant: float | None) -> None:
    assert read_support(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("5", 5),
        ("5.", 5),
        ("4.0", 4),
        ("4/5", 4),
        ("4 out of 5", 4),
        ("Rating: 3", 3),
        ("[Utility:2]", 2),
        ("four", 4),
        ("I would rate it a 4.", 4),
        ("On a scale from 1 to 5, I give it 2.", 2),
        ("5 - it answers in full", 5),
        ("4: it names 2 of the 3 authors", 4),
        ("3分", 3),
        ("五分", 5),
        ("★★★★", 4),
        ("<think>1? no.</think>3", 3),
        ("3-4", None),
        ("3 or 4", None),
        ("4.5", None),
        ("8/10", None),
        ("10", None),
        ("80%", None),
        ("0", None),
        ("very useful", None),
        ("yes", None),
        ("", None),
    ],
)
def test_usefulness(text: str, meant: int | None) -> None:
    assert read_usefulness(text) == meant


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert read_support(text) in (None, 0.0, 0.5, 1.0)
    assert read_usefulness(text) in (None, 1, 2, 3, 4, 5)
