"""The paired test: what is more than noise, and what would have been found."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.statistics.differences import holm, paired_difference
from crag_dspy.optimize.statistics.wording import shown_p, told_power

numbers = st.floats(-1, 1, allow_nan=False)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=7))
def test_the_p_value_is_the_share_of_all_sign_flips_as_extreme(pairs: list[tuple[float, float]]) -> None:
    before, after = zip(*pairs, strict=True)
    change = [round(b - a, 9) for a, b in pairs]
    flips = [
        abs(sum(s * c for s, c in zip(signs, change, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(change))
    ]
    observed = abs(sum(change))
    expected = np.mean([flip >= observed - 1e-9 * max(1, observed) for flip in flips])
    assert paired_difference(before, after, samples=50).p_value == pytest.approx(expected)


def test_random_flips_agree_with_scipy() -> None:
    change = np.random.default_rng(6).normal(0.3, 1.0, size=40)
    found = paired_difference(np.zeros(40), change).p_value
    theirs = stats.permutation_test(
        (change,), lambda x, axis: abs(x.sum(axis=axis)), permutation_type="samples", vectorized=True,
        n_resamples=9999, alternative="greater", rng=np.random.default_rng(0),
    ).pvalue  # fmt: skip
    assert found == pytest.approx(theirs, abs=0.015)


def test_the_flip_that_was_observed_counts_among_the_random_ones() -> None:
    """Without it p would be 0, which no test of so many flips can say."""
    for samples in (10, 99, 500):
        assert paired_difference(np.zeros(40), np.ones(40), samples=samples).p_value == 1 / (samples + 1)


def test_documents_are_swapped_whole() -> None:
    """Four documents that all gained cannot be told from chance, however many questions each has."""
    before, after, groups = [0.0] * 40, [1.0] * 40, list("abcd") * 10
    assert paired_difference(before, after).improved
    grouped = paired_difference(before, after, groups)
    assert grouped.p_value == 2 / 2**4
    assert not grouped.improved
    assert (grouped.groups, grouped.better) == (4, 40)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40))
def test_swapping_the_two_turns_the_difference_around(pairs: list[tuple[float, float]]) -> None:
    before, after = zip(*pairs, strict=True)
    one = paired_difference(before, after, samples=300)
    other = paired_difference(after, before, samples=300)
    assert one.difference == pytest.approx(-other.difference)
    assert (one.low, one.high) == (pytest.approx(-other.high), pytest.approx(-other.low))
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


def test_fourteen_equal_answers_do_not_show_that_there_is_no_difference() -> None:
    same = paired_difference([1, 0] * 7, [1, 0] * 7)
    assert same.difference == 0
    assert same.low < -0.1 < 0.1 < same.high
    assert same.detectable is not None
    assert same.detectable > 0.1


def test_a_change_of_the_size_it_says_is_found_in_four_of_five_cases() -> None:
    rng = np.random.default_rng(8)
    pilot = rng.normal(0.0, 0.3, size=60)
    wanted = paired_difference(np.zeros(60), pilot).detectable
    assert wanted is not None
    spread = pilot.std(ddof=1)
    found = [
        paired_difference(np.zeros(60), rng.normal(wanted, spread, size=60), samples=400).improved
        for _ in range(300)
    ]
    assert 0.72 <= np.mean(found) <= 0.88


def test_power_is_said_in_words() -> None:
    rng = np.random.default_rng(8)
    groups = [i // 10 for i in range(120)]
    change = paired_difference(np.zeros(120), rng.normal(size=120), groups)
    assert told_power(change).startswith("120 questions of 12 documents find a difference of ")
    assert "with 80% power" in told_power(change)
    one = paired_difference([0.5], [0.7])
    assert told_power(one) == "too few questions to say what difference would be found"


def test_no_p_value_is_nought() -> None:
    assert shown_p(9.999e-05) == "< 0.0001"
    assert shown_p(paired_difference(np.zeros(300), np.ones(300)).p_value) == "< 0.0001"
    assert (shown_p(0.0004), shown_p(0.0314)) == ("= 0.0004", "= 0.031")


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_only_raises_and_keeps_the_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(a >= p for a, p in zip(adjusted, p_values, strict=True))
    assert max(adjusted) <= 1
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    assert [adjusted[i] for i in order] == sorted(adjusted)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_difference([1.0], [1.0, 0.0]), "equal length, got 1 and 2"),
        (lambda: paired_difference([], []), "before is empty"),
        (lambda: paired_difference([1.0], [float("nan")]), r"after\[0\] must be a finite number"),
        (lambda: paired_difference([1.0], [1.0], samples=0), "samples must be at least 1"),
        (lambda: paired_difference([1.0], [1.0], level=0), "level must be between 0 and 1, got 0"),
    ],
)
def test_bad_arguments_of_a_difference_are_named(call, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=message):
        call()
