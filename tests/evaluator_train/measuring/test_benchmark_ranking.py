"""AUC, average precision and accuracy: equal to scikit-learn's, with ties, and true to their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.measuring.ranking import (
    accuracy_at,
    auc,
    auc_interval,
    average_precision,
    best_accuracy,
    roc,
)

# Few distinct values, so that ties are common.
scored = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0])), min_size=2, max_size=60
).filter(lambda rows: 0 < sum(label for label, _ in rows) < len(rows))


metrics = pytest.importorskip("sklearn.metrics")


def split(rows: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [label for label, _ in rows], [score for _, score in rows]


@given(scored)
def test_auc_and_average_precision_are_scikit_learns(rows: list[tuple[int, float]]) -> None:
    labels, scores = split(rows)
    assert auc(labels, scores) == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert average_precision(labels, scores) == pytest.approx(metrics.average_precision_score(labels, scores))


@given(scored)
def test_auc_is_the_share_of_pairs_in_the_right_order_with_ties_at_one_half(
    rows: list[tuple[int, float]],
) -> None:
    relevant = [score for label, score in rows if label]
    others = [score for label, score in rows if not label]
    ordered = sum((r > o) + 0.5 * (r == o) for r in relevant for o in others)
    assert auc(*split(rows)) == pytest.approx(ordered / (len(relevant) * len(others)))


@given(scored)
def test_auc_depends_on_the_order_only_and_mirrors(rows: list[tuple[int, float]]) -> None:
    labels, scores = split(rows)
    assert auc(labels, [math.tanh(3 * score - 1) for score in scores]) == pytest.approx(auc(labels, scores))
    assert auc(labels, [-score for score in scores]) == pytest.approx(1 - auc(labels, scores))


@given(scored)
def test_area_below_the_roc_curve_is_the_auc(rows: list[tuple[int, float]]) -> None:
    labels, scores = split(rows)
    false_rate, true_rate = roc(labels, scores)
    assert (false_rate[0], true_rate[0]) == (0, 0)
    assert (false_rate[-1], true_rate[-1]) == (1, 1)
    assert np.trapezoid(true_rate, false_rate) == pytest.approx(auc(labels, scores))


@given(scored, st.randoms(use_true_random=False))
def test_metrics_do_not_depend_on_the_order_of_the_pairs(rows: list[tuple[int, float]], random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    for metric in (auc, average_precision, best_accuracy):
        assert metric(*split(shuffled)) == pytest.approx(metric(*split(rows)))


@given(scored)
def test_no_cut_beats_the_best_and_the_best_cut_reaches_it(rows: list[tuple[int, float]]) -> None:
    labels, scores = split(rows)
    best, cut = best_accuracy(labels, scores)
    assert accuracy_at(labels, scores, cut) == pytest.approx(best)
    tried = [accuracy_at(labels, scores, value) for value in [*scores, math.inf, -math.inf]]
    assert best == pytest.approx(max(tried))


def test_a_text_that_was_not_judged_is_never_right() -> None:
    assert accuracy_at([1, 0], [None, None], 0.0) == 0
    assert accuracy_at([1, 0, 1], [0.4, None, 0.0], 0.0) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("labels", "scores", "names"),
    [
        ([1, 1], [0.1, 0.2], "both classes"),
        ([1, 0], [0.1], "one length"),
        ([1, 0], [0.1, float("nan")], "not judged"),
        ([1, 2], [0.1, 0.2], "0 or 1"),
        ([], [], "both classes"),
    ],
)
def test_what_cannot_be_ranked_is_refused(labels: list[int], scores: list[float], names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        auc(labels, scores)


def test_the_interval_holds_the_auc_is_repeatable_and_narrows_with_more_questions() -> None:
    random = np.random.default_rng(1)

    def sample(questions: int) -> tuple[list[int], list[float], list[int]]:
        labels = [1, 0] * questions
        scores = [float(random.normal(label)) for label in labels]
        return labels, scores, [number // 2 for number in range(2 * questions)]

    few, many = sample(20), sample(500)
    interval = auc_interval(*few)
    assert interval == auc_interval(*few)
    assert interval.low < auc(*few[:2]) < interval.high
    wide, narrow = (i.high - i.low for i in (interval, auc_interval(*many)))
    assert narrow < wide / 3


def test_the_interval_draws_questions_not_pairs() -> None:
    """Copies of the same pair under one question bring no certainty."""
    labels, scores = [1, 0, 0, 1] * 5, [0.9, 0.1, 0.8, 0.3] * 5
    questions = [n % 4 // 2 + 2 * (n // 4) for n in range(20)]
    once = auc_interval(labels, scores, questions)
    copied = auc_interval(labels * 50, scores * 50, questions * 50)
    assert copied == once
