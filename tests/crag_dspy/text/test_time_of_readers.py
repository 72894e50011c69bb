"""What others wrote is read in time in proportion to its length, also where it was written to be slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from linear_time import HOSTILE, assert_linear, repeated

from crag_dspy.self_rag import tokens
from crag_dspy.text import common_words, matching, replies, scripts, sentences, unicode_forms
from crag_dspy.websearch.query import clean_query

CHOICES = {"A": "a planet", "B": "the Moon"}
READERS: dict[str, Callable[[str], Any]] = {
    "sentence_spans": sentences.sentence_spans,
    "normalize": matching.normalize,
    "tokens": matching.tokens,
    "words": matching.words,
    "phrases": matching.phrases,
    "contains_answer": lambda text: matching.contains_answer(text, ["The Beatles", "3.5", "北京", text[:50]]),
    "contained_answer": lambda text: matching.contains_answer("one text", text),
    "token_f1": lambda text: matching.token_f1(text, [text, "one"]),
    "says_something": common_words.says_something,
    "language_of": scripts.language_of,
    "normal_form": lambda text: unicode_forms.normal_form("NFKC", text),
    "abstention_for": replies.abstention_for,
    "is_abstention": replies.is_abstention,
    "check_citations": lambda text: replies.check_citations(text, 5),
    "uncited": replies.uncited,
    "broken_citations": replies.broken_citations,
    "reply_text": lambda text: replies.reply_text(text, "answer"),
    "unwrapped": replies.unwrapped,
    "read_choice": lambda text: replies.read_choice(text, CHOICES),
    "read_relevance": replies.read_relevance,
    "read_truth": replies.read_truth,
    "read_support": replies.read_support,
    "read_usefulness": replies.read_usefulness,
    "read_yes_no": replies.read_yes_no,
    "clean_query": lambda text: clean_query(text, text),
    "answer_of": tokens.answer_of,
    "reflection_of": lambda text: tokens.reflection_of(0, text),
    "prompt_of": lambda text: tokens.prompt_of(text, text),
}


@pytest.mark.parametrize("reader", READERS)
def test_time_grows_with_the_length(reader: str) -> None:
    for unit in HOSTILE:
        assert_linear(READERS[reader], repeated(unit))


# One beginning, and then what never ends it.
BEGUN = [
    ("[9]", " "), ("answer", ":"), ("answer", " "), ("A", ","), ("<think>", "<think"), ("a", "\u0323\u0301"),
    ("the context does not ", "say "), ("based on ", "a"), ("```", "a "), ('{"query": "', "a "),
    ("i'm ", "sorry, "), ("the ", "context "), ("1", "1,"), ("x", "but "), ("我", "无法"),
    ("不", "，"), ("我无法", "中"), ("whether ", "it "),
    ("[[ ## answer ## ]]", "[[ ## "), ("“", "a。"), ('"', "a. "),
]  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_a_beginning_without_an_end_costs_no_more(reader: str) -> None:
    for start, unit in BEGUN:
        assert_linear(READERS[reader], lambda n, start=start, unit=unit: start + repeated(unit)(n) + "x")
