"""BM25 in memory: the formula, and both kinds of script."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.retrievers.bm25 import BM25
from crag_dspy.text.matching import terms

TEXTS = [
    "The Eiffel Tower stands in Paris.",
    "The tower of Pisa leans.",
    "江上有一座长桥。",
    "武汉长江大桥于1957年建成通车。",
]


@pytest.mark.parametrize(
    ("query", "best"), [("eiffel", 0), ("LEANS", 1), ("长江", 3), ("tower Pisa", 1), ("ｐａｒｉｓ", 0)]
)
def test_the_text_that_shares_the_rarest_words_is_first(query: str, best: int) -> None:
    assert BM25(TEXTS).top(query, 4)[0][0] == best


def test_only_texts_with_a_word_of_the_query_are_found() -> None:
    assert BM25(TEXTS).top("lighthouse", 4) == []
    assert BM25([]).top("lighthouse", 4) == []
    assert {index for index, _ in BM25(TEXTS).top("tower", 4)} == {0, 1}


def test_scores_fall_and_equal_texts_keep_their_order() -> None:
    found = BM25(["a b", "a b", "a b c d e"]).top("a b", 3)
    assert [index for index, _ in found] == [0, 1, 2]
    assert found[0][1] == found[1][1] > found[2][1] > 0


texts = st.lists(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8).map(" ".join), min_size=1, max_size=8
)


def reference(query: str, documents: list[str]) -> list[float]:
    """Okapi BM25 with k1 1.2 and b 0.75, as it is written in textbooks."""
    split = [document.split() for document in documents]
    mean = sum(map(len, split)) / len(split)
    scores = []
    for document in split:
        total = 0.0
        for term in query.split():
            containing = sum(term in other for other in split)
            idf = math.log(1 + (len(split) - containing + 0.5) / (containing + 0.5))
            count = document.count(term)
            total += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(document) / mean))
        scores.append(total)
    return scores


@given(texts, st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=4).map(" ".join))
def test_scores_are_those_of_the_formula(documents: list[str], query: str) -> None:
    scores = reference(query, documents)
    found = BM25(documents).top(query, len(documents))
    assert [score for _, score in found] == pytest.approx([scores[index] for index, _ in found])
    assert {index for index, _ in found} == {index for index, score in enumerate(scores) if score > 0}


def test_chinese_terms_are_characters_and_their_pairs() -> None:
    assert terms("寺庙 old 山") == ["寺", "庙", "old", "山", "寺庙"]


def test_nothing_is_found_in_nothing() -> None:
    assert BM25([]).top("a", 3) == []
    assert BM25(["a b"]).top("a", 0) == []
    assert BM25(["...", "a"]).top("...", 5) == []


@given(texts, st.lists(st.sampled_from("abcdefg江"), min_size=1, max_size=4).map(" ".join))
def test_the_order_of_all_texts_begins_with_what_is_found(documents: list[str], query: str) -> None:
    index = BM25(documents)
    found = [place for place, _ in index.top(query, len(documents))]
    order = index.order(query)
    assert order[: len(found)] == found
    assert order[len(found) :] == sorted(set(range(len(documents))) - set(found))
