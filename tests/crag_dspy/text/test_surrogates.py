"""Text with half a character in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.text.surrogates import encodable


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a\ud83d", "a\ufffd"),
        ("\ude00b", "\ufffdb"),
        ("\ud83d\ude00", "😀"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("whole 😀 茶", "whole 😀 茶"),
    ],
)
def test_halves_are_joined_or_marked(text: str, written: str) -> None:
    assert encodable(text) == written


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Z", "C", "Cs")), max_size=30))
def test_the_result_can_be_encoded_and_whole_text_is_as_it_was(text: str) -> None:
    assert encodable(text).encode() or not text
    assert encodable(encodable(text)) == encodable(text)
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert encodable(text) == text
