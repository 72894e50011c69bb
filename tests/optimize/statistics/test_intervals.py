"""The interval of a mean, on questions and on documents."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.statistics.intervals import mean_interval
from crag_dspy.optimize.statistics.wording import told_groups

numbers = st.floats(-1, 1, allow_nan=False)


@given(st.lists(numbers, min_size=1, max_size=30))
def test_the_interval_holds_the_mean_and_does_not_depend_on_the_order(values: list[float]) -> None:
    interval = mean_interval(values)
    assert interval.low - 1e-9 <= interval.mean <= interval.high + 1e-9 or len(set(values) - {-1, 0, 1}) == 0
    assert interval.mean == pytest.approx(np.mean(values))
    other = mean_interval(values[::-1])
    assert (other.low, other.high) == (pytest.approx(interval.low), pytest.approx(interval.high))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_the_interval_of_shares_is_one_of_shares(values: list[float]) -> None:
    interval = mean_interval(values)
    assert 0 <= interval.low <= interval.high <= 1


def test_single_questions_have_students_interval() -> None:
    values = np.random.default_rng(2).normal(size=40)
    interval = mean_interval(values)
    expected = stats.t.interval(0.95, 39, loc=values.mean(), scale=stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx(expected)


def test_documents_of_one_size_have_students_interval_on_their_means() -> None:
    values = np.random.default_rng(2).normal(size=(12, 10)) + np.random.default_rng(3).normal(size=(12, 1))
    interval = mean_interval(values.ravel(), [f"document {i // 10}" for i in range(120)])
    means = values.mean(axis=1)
    expected = stats.t.interval(0.95, 11, loc=means.mean(), scale=stats.sem(means))
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert (interval.n, interval.groups) == (120, 12)
    alone = mean_interval(values.ravel())
    assert interval.high - interval.low > 1.5 * (alone.high - alone.low)


def test_documents_of_unlike_size_have_the_jackknifes_error() -> None:
    values = np.random.default_rng(5).normal(size=9)
    groups = list("aaaaabbcc")
    without = [np.mean([v for v, g in zip(values, groups, strict=True) if g != left]) for left in "abc"]
    error = (2 / 3 * sum((each - np.mean(without)) ** 2 for each in without)) ** 0.5
    interval = mean_interval(values, groups)
    assert interval.high - interval.mean == pytest.approx(stats.t.ppf(0.975, 2) * error)


@pytest.mark.parametrize(("right", "n"), [(0, 14), (14, 14), (3, 14), (60, 120)])
def test_right_and_wrong_have_wilsons_interval(right: int, n: int) -> None:
    interval = mean_interval([1.0] * right + [0.0] * (n - right))
    expected = stats.binomtest(right, n).proportion_ci(method="wilson")
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_none_of_fourteen_is_not_never() -> None:
    assert mean_interval([0] * 14).high > 0.2
    # In documents the documents count: 14 of each of two say less than 28 alone.
    assert mean_interval([0] * 28, ["a", "b"] * 14).high > mean_interval([0] * 28).high
    assert mean_interval([0.0] * 120, [i // 10 for i in range(120)]).high > 0.2


def test_a_rate_of_documents_stays_between_0_and_1() -> None:
    values = np.zeros(120)
    values[:3] = 1
    interval = mean_interval(values, [i // 10 for i in range(120)])
    assert 0 <= interval.low < interval.mean < interval.high <= 1


def test_repeated_measurements_add_how_far_they_differ() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 30))
    within = np.mean([stats.sem(row) ** 2 for row in rows])
    between = rows.mean(axis=1).var(ddof=1) * 6 / 5
    interval = mean_interval(rows)
    assert interval.high - interval.mean == pytest.approx(stats.t.ppf(0.975, 29) * (within + between) ** 0.5)
    right = (rows > 0).astype(float)  # of right and wrong too
    wide, narrow = mean_interval(right), mean_interval(right[0])
    assert wide.high - wide.low > 1.02 * (narrow.high - narrow.low)
    one = mean_interval(rows[0])
    same = mean_interval(np.stack([rows[0]] * 5))
    assert (same.low, same.high) == (pytest.approx(one.low), pytest.approx(one.high))


def test_a_million_questions_cost_no_more_than_a_hundred() -> None:
    right = np.random.default_rng(4).random(1_000_000) < 0.5
    assert mean_interval(right).high - mean_interval(right).low < 0.004


def test_one_document_says_nothing_of_others_so_its_questions_are_counted_and_it_is_said() -> None:
    values = [0.1, 0.5, 0.7]
    assert mean_interval(values, ["a"] * 3) == mean_interval(values)
    assert "all 3 questions are of one document" in told_groups(3, ["a"] * 3)


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        (None, "intervals are over 20 questions, as if no two were of one document: nothing says which are"),
        (list("abcdefghij") * 2, "intervals are over the 10 documents of 20 questions"),
        (list(range(20)), "intervals are over 20 questions, no two of one document"),
        (
            list("abcd") * 5,
            "the 4 documents of 20 questions; with fewer than 8 they lean on every single one",
        ),
    ],
)
def test_what_intervals_are_over_is_said(groups: Any, told: str) -> None:
    assert told in told_groups(20, groups)
    assert ("fewer than 8" in told_groups(20, groups)) == ("fewer than 8" in told)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([]), "values is empty"),
        (lambda: mean_interval([1.0, float("nan")]), r"values\[1\] must be a finite number"),
        (lambda: mean_interval([[1.0], [float("inf")]]), r"values\[1\]\[0\] must be a finite number"),
        (lambda: mean_interval([1.0], level=95), "level must be between 0 and 1, got 95"),
        (lambda: mean_interval([1.0, 0.0], ["a"]), "groups must be one a value, got 1 for 2 values"),
    ],
)
def test_bad_arguments_are_named(call, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=message):
        call()
