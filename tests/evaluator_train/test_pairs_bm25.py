"""BM25 for mining: the formula, both ways of computing it, and both kinds of script."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.evaluator_train.bm25 import BM25, ranked, terms

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
def test_the_order_is_that_of_the_formula(documents: list[str], query: str) -> None:
    scores = reference(query, documents)
    for found in (BM25(documents).top(query, len(documents)), ranked(query, documents)):
        values = [scores[index] for index in found]
        assert values == pytest.approx(sorted(values, reverse=True))
    assert set(BM25(documents).top(query, 99)) == {i for i, score in enumerate(scores) if score > 0}
    assert sorted(ranked(query, documents)) == list(range(len(documents)))


def test_chinese_is_found_by_characters_and_their_pairs() -> None:
    assert terms("寺庙 old 山") == ("寺", "庙", "old", "山", "寺庙")
    documents = ["这条河很长。", "这座寺庙很古老。", "The old tower."]
    assert BM25(documents).top("寺庙在哪里？", 2) == [1]
    assert ranked("寺庙在哪里？", documents)[0] == 1


def test_nothing_is_found_in_nothing() -> None:
    assert BM25([]).top("a", 3) == []
    assert ranked("a", []) == []
    assert BM25(["a b"]).top("a", 0) == []
    assert BM25(["...", "a"]).top("...", 5) == []
