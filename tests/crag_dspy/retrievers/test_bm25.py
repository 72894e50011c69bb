import pytest

from crag_dspy.retrievers.bm25 import BM25

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
