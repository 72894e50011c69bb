"""Ranking a few texts once gives the order of an index over them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.evaluator_train.pairs.closest import ranked
from crag_dspy.retrievers.bm25 import BM25

texts = st.lists(
    st.lists(st.sampled_from("abcdef长江"), min_size=1, max_size=8).map(" ".join), min_size=1, max_size=8
)


@given(texts, st.lists(st.sampled_from("abcdefg江"), min_size=1, max_size=4).map(" ".join))
def test_the_order_is_that_of_an_index(documents: list[str], query: str) -> None:
    found = dict(BM25(documents).top(query, len(documents)))
    order = ranked(query, documents)
    assert sorted(order) == list(range(len(documents)))
    scores = [found.get(index, 0.0) for index in order]
    assert all(before >= after - 1e-9 for before, after in pairwise(scores))


def test_nothing_is_found_in_nothing() -> None:
    assert ranked("a", []) == []


def test_chinese_is_ranked_by_characters_and_their_pairs() -> None:
    assert ranked("寺庙在哪里？", ["这条河很长。", "这座寺庙很古老。", "The old tower."])[0] == 1
