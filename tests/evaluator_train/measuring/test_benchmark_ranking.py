"""AUC, average precision and accuracy: true to their definitions, counted out by hand, with ties."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError, MissingPackageError
from crag_dspy.evaluator_train.measuring.ranking import (
    accuracy_at,
    auc,
    auc_bounds,
    average_precision,
    best_accuracy,
    roc,
)

# Few distinct values, so that ties are common.
scored = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0])), min_size=2, max_size=60
).filter(lambda rows: 0 < sum(label for label, _ in rows) < len(rows))


def split(rows: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [label for label, _ in rows], [score for _, score in rows]


@given(scored)
def test_average_precision_is_precision_times_the_recall_gained_at_each_distinct_score(
    rows: list[tuple[int, float]],
) -> None:
    found, relevant = 0.0, sum(label for label, _ in rows)
    for cut in {score for _, score in rows}:
        above = [label for label, score in rows if score >= cut]
        gained = sum(label for label, score in rows if score == cut)
        found += sum(above) / len(above) * gained / relevant
    assert average_precision(*split(rows)) == pytest.approx(found, abs=1e-8)


@given(scored)
def test_auc_is_the_share_of_pairs_in_the_right_order_with_ties_at_one_half(
    rows: list[tuple[int, float]],
) -> None:
    relevant = [score for label, score in rows if label]
    others = [score for label, score in rows if not label]
    ordered = sum((r > o) + 0.5 * (r == o) for r in relevant for o in others)
    assert auc(*split(rows)) == pytest.approx(ordered / (len(relevant) * len(others)), abs=1e-8)


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
    interval = auc_bounds(*few)
    assert interval == auc_bounds(*few)
    low, high = interval
    assert low < auc(*few[:2]) < high
    wide, narrow = (top - bottom for bottom, top in (interval, auc_bounds(*many)))
    assert narrow < wide / 3


def test_the_interval_draws_questions_not_pairs() -> None:
    """Copies of the same pair under one question bring no certainty."""
    labels, scores = [1, 0, 0, 1] * 5, [0.9, 0.1, 0.8, 0.3] * 5
    questions = [n % 4 // 2 + 2 * (n // 4) for n in range(20)]
    once = auc_bounds(labels, scores, questions)
    copied = auc_bounds(labels * 50, scores * 50, questions * 50)
    assert copied == once


def test_the_interval_is_the_spread_of_areas_counted_out_over_drawn_questions() -> None:
    random = np.random.default_rng(2)
    labels = [1, 0, 0] * 12
    scores = [round(float(random.normal(label)), 1) for label in labels]
    questions = [n // 3 for n in range(len(labels))]
    again, areas = np.random.default_rng(0), []
    for _ in range(50):
        drawn = np.bincount(again.integers(12, size=12), minlength=12)
        pairs = [
            (drawn[n // 3] * drawn[m // 3], (scores[n] > scores[m]) + 0.5 * (scores[n] == scores[m]))
            for n in range(36)
            for m in range(36)
            if labels[n] > labels[m]
        ]
        areas.append(sum(w * right for w, right in pairs) / sum(w for w, _ in pairs))
    expected = np.quantile(areas, [0.025, 0.975])
    assert auc_bounds(labels, scores, questions, draws=50) == pytest.approx(tuple(expected), abs=1e-8)


def test_a_missing_scikit_learn_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(MissingPackageError, match=r'pip install "\.\[train\]"'):
        auc([0, 1], [0.0, 1.0])
