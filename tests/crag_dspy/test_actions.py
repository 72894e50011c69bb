"""decide(): total, monotone, and honest about what was not judged."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.actions import Action, Thresholds, decide
from crag_dspy.errors import ConfigError

CUTS = Thresholds(upper=0.5, lower=-0.5)
score = st.floats(-1, 1)
cuts = st.tuples(score, score).map(lambda pair: Thresholds(max(pair), min(pair)))
RANK = {Action.INCORRECT: 0, Action.AMBIGUOUS: 1, Action.CORRECT: 2}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.5], Action.CORRECT),
        ([-0.9, 0.7, -0.9], Action.CORRECT),
        ([-0.5], Action.INCORRECT),
        ([-0.9, -0.6], Action.INCORRECT),
        ([0.49, -0.9], Action.AMBIGUOUS),
        ([], Action.INCORRECT),
    ],
)
def test_max_policy_is_the_papers(scores: list[float], expected: Action) -> None:
    assert decide(scores, CUTS, "max") is expected


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.9, -0.9], Action.CORRECT),
        ([0.9, 0.0], Action.AMBIGUOUS),
        ([0.0, 0.2], Action.INCORRECT),
        ([-0.9], Action.INCORRECT),
        ([], Action.INCORRECT),
    ],
)
def test_vote_policy_judges_every_passage(scores: list[float], expected: Action) -> None:
    assert decide(scores, CUTS, "vote") is expected


@given(st.lists(score, max_size=6), cuts, st.sampled_from(["max", "vote"]))
def test_total_over_the_scale(scores: list[float], thresholds: Thresholds, policy: str) -> None:
    assert decide(scores, thresholds, policy) in Action


@given(st.lists(score, min_size=1, max_size=6), cuts, st.data())
def test_max_is_monotone_in_every_score(
    scores: list[float], thresholds: Thresholds, data: st.DataObject
) -> None:
    raised = list(scores)
    place = data.draw(st.integers(0, len(scores) - 1))
    raised[place] = data.draw(st.floats(scores[place], 1))
    assert RANK[decide(raised, thresholds)] >= RANK[decide(scores, thresholds)]


@given(st.lists(score, max_size=5), cuts, st.sampled_from(["max", "vote"]))
def test_an_unjudged_passage_is_neither_relevant_nor_irrelevant(
    scores: list[float], thresholds: Thresholds, policy: str
) -> None:
    """Field case 8: a passage without a score is not a passage with score 0."""
    sure = policy == "max" and decide(scores, thresholds, policy) is Action.CORRECT
    assert decide([*scores, None], thresholds, policy) is (Action.CORRECT if sure else Action.AMBIGUOUS)


@pytest.mark.parametrize("value", [0.995001 + 1, -1.5, math.nan, math.inf, True, "0.5", None])
@pytest.mark.parametrize("name", ["upper", "lower"])
def test_thresholds_are_signed_numbers_and_the_error_names_the_field(name: str, value: object) -> None:
    """Field case 2."""
    with pytest.raises(ConfigError, match=name):
        Thresholds(**{"upper": 1.0, "lower": -1.0, name: value})  # type: ignore[arg-type]


def test_a_positive_lower_bound_is_refused_with_the_fix() -> None:
    """Field case 2: "0.995" meant as the paper's -0.995."""
    with pytest.raises(ConfigError, match=r"lower must not be above upper.*-0\.995"):
        Thresholds(upper=0.59, lower=0.995)


@pytest.mark.parametrize("bad", [math.nan, 1.01, True, "high"])
def test_a_score_off_the_scale_is_refused(bad: object) -> None:
    with pytest.raises(ConfigError, match="score"):
        decide([bad], CUTS)  # type: ignore[list-item]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match="policy must be one of max, vote, got 'mean'"):
        decide([0.0], CUTS, "mean")
