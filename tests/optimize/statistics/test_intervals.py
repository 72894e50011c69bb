"""Intervals and the paired test."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.statistics.intervals import mean_interval, paired_difference

numbers = st.floats(-1, 1, allow_nan=False)


@given(st.lists(numbers, min_size=1, max_size=30), st.integers(0, 5))
def test_the_interval_lies_within_the_values_and_repeats_with_its_seed(
    values: list[float], seed: int
) -> None:
    interval = mean_interval(values, samples=200, seed=seed)
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9
    assert interval == mean_interval(values, samples=200, seed=seed)
    assert interval.mean == pytest.approx(np.mean(values))


def test_it_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(300):
        interval = mean_interval(rng.random(80) < 0.4, samples=400, seed=trial)
        covered += interval.low <= 0.4 <= interval.high
    assert 0.90 <= covered / 300 <= 0.98


def test_resampling_distinct_values_has_the_standard_error_of_resampling_questions() -> None:
    values = np.random.default_rng(2).normal(size=500)
    interval = mean_interval(values, samples=4000)
    assert (interval.high - interval.low) / 2 == pytest.approx(1.96 * values.std() / 500**0.5, rel=0.08)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=7))
def test_the_p_value_is_the_share_of_all_sign_flips_as_extreme(pairs: list[tuple[float, float]]) -> None:
    before, after = zip(*pairs, strict=True)
    change = [round(b - a, 12) for a, b in pairs]
    flips = [
        abs(sum(s * c for s, c in zip(signs, change, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(change))
    ]
    observed = abs(sum(change))
    expected = np.mean([flip >= observed - 1e-9 * max(1, observed) for flip in flips])
    assert paired_difference(before, after, samples=50).p_value == pytest.approx(expected)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40))
def test_swapping_the_two_turns_the_difference_around(pairs: list[tuple[float, float]]) -> None:
    before, after = zip(*pairs, strict=True)
    one = paired_difference(before, after, samples=300)
    other = paired_difference(after, before, samples=300)
    assert one.difference == pytest.approx(-other.difference)
    assert (one.better, one.worse, one.equal) == (other.worse, other.better, other.equal)
    assert not (one.improved and other.improved)


def test_a_clear_gain_is_one_and_noise_is_not() -> None:
    rng = np.random.default_rng(3)
    before = (rng.random(200) < 0.4).astype(float)
    clearly = np.where(rng.random(200) < 0.3, 1.0, before)
    shuffled = rng.permutation(before)
    assert paired_difference(before, clearly).improved
    assert not paired_difference(before, shuffled).improved
    assert not paired_difference(before, before).improved
    assert paired_difference(before, before).p_value == 1


def test_a_million_questions_cost_no_more_than_a_hundred() -> None:
    right = np.random.default_rng(4).random(1_000_000) < 0.5
    assert mean_interval(right, samples=2000).high - mean_interval(right, samples=2000).low < 0.004


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([]), "values is empty"),
        (lambda: mean_interval([1.0, float("nan")]), r"values\[1\] must be a finite number"),
        (lambda: mean_interval([1.0], level=95), "level must be between 0 and 1, got 95"),
        (lambda: mean_interval([1.0], samples=0), "samples must be at least 1"),
        (lambda: paired_difference([1.0], [1.0, 0.0]), "equal length, got 1 and 2"),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=message):
        call()
