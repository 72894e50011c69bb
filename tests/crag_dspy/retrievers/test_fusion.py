from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.retrievers.fusion import fuse

RANKINGS = st.lists(st.lists(st.integers(0, 20), unique=True), max_size=4)


@given(RANKINGS)
def test_every_key_comes_once_with_falling_scores(rankings: list[list[int]]) -> None:
    fused = fuse(rankings)
    assert sorted(key for key, _ in fused) == sorted({key for ranking in rankings for key in ranking})
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)


@given(st.lists(st.integers(), unique=True))
def test_rankings_that_agree_are_kept(ranking: list[int]) -> None:
    assert [key for key, _ in fuse([ranking, ranking])] == ranking
    assert [key for key, _ in fuse([ranking])] == ranking


@given(RANKINGS, st.integers(0, 20))
def test_a_better_rank_never_hurts(rankings: list[list[int]], key: int) -> None:
    before = dict(fuse(rankings)).get(key, 0.0)
    raised = [[key, *(other for other in ranking if other != key)] for ranking in rankings]
    assert not raised or dict(fuse(raised))[key] >= before


def test_two_middling_ranks_beat_one_first_rank() -> None:
    assert next(key for key, _ in fuse([["first", "both"], ["other", "both"]])) == "both"


def test_ties_go_to_the_better_rank_then_to_the_earlier_ranking() -> None:
    assert [key for key, _ in fuse([["a", "b"], ["c", "d"]])] == ["a", "c", "b", "d"]


def test_the_score_is_that_of_the_paper() -> None:
    """Sum of 1 / (60 + rank), ranks from 1 (Cormack, Clarke, Buettcher 2009)."""
    assert dict(fuse([["a", "b"], ["b"]])) == {"b": 1 / 61 + 1 / 62, "a": 1 / 61}
    assert dict(fuse([["a"]], damping=0)) == {"a": 1.0}
