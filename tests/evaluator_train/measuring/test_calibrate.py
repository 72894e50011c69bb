"""Calibration: the exact fit, honest errors, and thresholds that keep their promises."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from command_line import run_command
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crag_dspy.actions import Thresholds
from crag_dspy.errors import ArtefactError, ConfigError
from crag_dspy.evaluator_train.measuring.calibration import calibrate, calibrate_artefact
from crag_dspy.evaluator_train.measuring.cuts import suggest_thresholds
from crag_dspy.evaluator_train.measuring.platt import crossed_probabilities, fit
from crag_dspy.evaluator_train.measuring.reliability import calibration_error, log_loss, reliability
from crag_dspy.evaluator_train.pairs.pair_files import Pair, write_pairs
from crag_dspy.graders.t5 import T5Grader

if TYPE_CHECKING:
    from pathlib import Path


def overconfident(size: int = 3000, factor: float = 4.0, shift: float = 1.5, seed: int = 0):
    """Labels drawn with known probabilities, and logits that are `factor` times too large and shifted."""
    random = np.random.default_rng(seed)
    true_logits = random.normal(0, 1.5, size)
    labels = (random.random(size) < 1 / (1 + np.exp(-true_logits))).astype(int)
    return (factor * (true_logits + shift)).tolist(), labels.tolist()


def test_platt_recovers_the_distortion() -> None:
    raws, labels = overconfident(size=20000)
    found = fit(raws, labels)
    assert found.a == pytest.approx(1 / 4, rel=0.05)
    assert found.b == pytest.approx(-1.5, abs=0.08)


def smooth_loss(logits: np.ndarray, target: np.ndarray) -> float:
    return float(np.sum(np.logaddexp(0, logits) - target * logits))


@pytest.mark.parametrize("method", ["platt", "temperature"])
def test_the_fit_is_the_least_log_loss_on_platts_targets(method: str) -> None:
    """Newton's method, written out, to the last digits."""
    raws, labels = overconfident(size=300)
    positives, negatives = sum(labels), len(labels) - sum(labels)
    target = np.where(labels, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    columns = [np.array(raws), np.ones(len(raws))][: 2 if method == "platt" else 1]
    design = np.stack(columns, axis=1)
    best = np.zeros(design.shape[1])
    for _ in range(50):
        probability = 1 / (1 + np.exp(-design @ best))
        curvature = (design * (probability * (1 - probability))[:, None]).T @ design
        best -= np.linalg.solve(curvature, design.T @ (probability - target))
    found = fit(raws, labels, method)
    assert [found.a, found.b][: len(best)] == pytest.approx(list(best), abs=1e-8)
    assert smooth_loss(design @ best, target) < smooth_loss(design @ (best * 1.01), target)


def test_a_pair_is_judged_by_a_fit_that_has_not_seen_its_question() -> None:
    """Labels without information: only what has seen them can lower the log loss below that of a coin."""
    random = np.random.default_rng(5)
    values, truth = random.normal(size=60), random.permutation([0.0, 1.0] * 30)
    questions = [f"question {n // 3}" for n in range(60)]
    before = crossed_probabilities(values, truth, questions, with_shift=True)
    for asked in dict.fromkeys(questions):
        own = np.array([question == asked for question in questions])
        turned = np.where(own, 1 - truth, truth)
        after = crossed_probabilities(values, turned, questions, with_shift=True)
        assert after[own] == pytest.approx(before[own], abs=1e-12), "its own labels changed its probability"
        assert not np.allclose(after[~own], before[~own], atol=1e-6)


def test_with_one_question_there_is_nothing_else_to_fit_on() -> None:
    values, truth = np.array([-1.0, 0.5, 1.0, -0.5]), np.array([0.0, 1.0, 1.0, 0.0])
    crossed = crossed_probabilities(values, truth, ["q"] * 4, with_shift=True)
    found = fit(values.tolist(), truth.astype(int).tolist())
    assert crossed == pytest.approx(1 / (1 + np.exp(-(found.a * values + found.b))))


def test_temperature_has_no_shift_and_agrees_where_none_is_needed() -> None:
    raws, labels = overconfident(size=20000, shift=0)
    cold, full = fit(raws, labels, "temperature"), fit(raws, labels, "platt")
    assert cold.b == 0
    assert cold.a == pytest.approx(full.a, rel=0.01)


def test_separable_logits_of_any_size_give_a_finite_fit() -> None:
    for size in (1e-4, 1.0, 1e4):
        found = fit([-2 * size, -size, size, 2 * size], [0, 0, 1, 1])
        assert math.isfinite(found.a)
        assert found.a > 0


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.floats(-50, 50), st.integers(0, 1)), min_size=4, max_size=40),
    st.floats(0.01, 100),
    st.floats(-20, 20),
)
def test_probabilities_do_not_depend_on_the_scale_of_the_logits(rows, factor: float, shift: float) -> None:
    raws, labels = [raw for raw, _ in rows], [label for _, label in rows]
    assume(0 < sum(labels) < len(labels))
    assume(max(raws) - min(raws) > 0.1)
    try:
        plain = fit(raws, labels)
    except ConfigError:
        assume(False)
    moved = fit([factor * raw + shift for raw in raws], labels)
    for raw in raws:
        assert moved.a * (factor * raw + shift) + moved.b == pytest.approx(
            plain.a * raw + plain.b, abs=1e-4, rel=1e-4
        )


def test_a_prior_shifts_the_odds_and_nothing_else() -> None:
    raws, labels = overconfident()
    share = sum(labels) / len(labels)
    plain, rare = fit(raws, labels), fit(raws, labels, prior=0.05)
    assert rare.a == plain.a
    assert rare.b - plain.b == pytest.approx(math.log(0.05 / 0.95) - math.log(share / (1 - share)))
    assert fit(raws, labels, prior=share).b == pytest.approx(plain.b)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"method": "isotonic"}, "method must be one of platt, temperature"),
        ({"prior": 1.0}, "prior"),
        ({"labels": [1, 1, 1]}, "both"),
        ({"labels": [1, 0]}, "one length"),
        ({"raws": [3.0, -1.0, math.inf]}, "finite"),
    ],
)
def test_what_cannot_be_fitted_is_named(change: dict, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        fit(**{"raws": [2.0, -1.0, 0.5], "labels": [1, 0, 0], **change})


def test_a_grader_that_runs_against_the_labels_is_refused() -> None:
    raws, labels = overconfident(size=200)
    with pytest.raises(ConfigError, match="run against the labels"):
        fit([-raw for raw in raws], labels)


def test_the_reliability_table_by_hand() -> None:
    table = reliability([0, 1, 1, 1], [0.05, 0.15, 0.95, 1.0], bins=10)
    assert [(round(row.low, 1), row.pairs, row.observed) for row in table] == [
        (0.0, 1, 0),
        (0.1, 1, 1),
        (0.9, 2, 1),
    ]
    assert table[-1].predicted == pytest.approx(0.975)
    assert calibration_error([0, 1, 1, 1], [0.05, 0.15, 0.95, 1.0], bins=10) == pytest.approx(
        (0.05 + 0.85 + 2 * 0.025) / 4
    )


@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), min_size=1, max_size=50), st.integers(1, 20))
def test_the_table_accounts_for_every_pair_and_the_error_is_a_share(rows, bins: int) -> None:
    labels, probabilities = zip(*rows, strict=True)
    table = reliability(labels, probabilities, bins)
    assert sum(row.pairs for row in table) == len(rows)
    assert 0 <= calibration_error(labels, probabilities, bins) <= 1


def test_the_log_loss_by_hand() -> None:
    truth, probability = np.array([1.0, 0.0, 1.0]), np.array([0.9, 0.2, 0.5])
    assert log_loss(truth, probability) == pytest.approx(
        -(math.log(0.9) + math.log(0.8) + math.log(0.5)) / 3, abs=1e-8
    )
    assert math.isfinite(log_loss(np.array([1.0]), np.array([0.0])))


def test_calibration_lowers_error_and_log_loss_on_questions_it_did_not_see() -> None:
    raws, labels = overconfident()
    report = calibrate(raws, labels, [f"question {n // 4}" for n in range(len(raws))])
    assert report.error_before > 0.15
    assert report.error_after < 0.03
    assert report.log_loss_after < report.log_loss_before


def test_what_was_not_judged_is_counted_and_left_out() -> None:
    raws, labels = overconfident(size=200)
    questions = [f"question {n}" for n in range(200)]
    with_gaps = calibrate([*raws, None, None], [*labels, 1, 0], [*questions, "a", "b"])
    whole = calibrate(raws, labels, questions)
    assert (with_gaps.a, with_gaps.b, with_gaps.unjudged) == (whole.a, whole.b, 2)


scored = st.lists(st.tuples(st.integers(0, 1), st.floats(-1, 1)), min_size=2, max_size=80).filter(
    lambda rows: 0 < sum(label for label, _ in rows) < len(rows)
)


@given(scored, st.floats(0, 1), st.floats(0, 1))
def test_thresholds_are_in_order_in_range_and_lose_no_more_than_promised(rows, precision, missed) -> None:
    labels, scores = zip(*rows, strict=True)
    cuts = suggest_thresholds(labels, scores, precision=precision, missed=missed)
    assert -1 <= cuts.lower <= cuts.upper <= 1
    lowest = sum(score <= cuts.lower for label, score in rows if label) / sum(labels)
    assert cuts.missed == pytest.approx(lowest)
    # Where all of the lowest scores are equal to -1, "at or below" cannot exclude them.
    assert lowest <= missed + 1e-9 or cuts.lower == -1


def test_thresholds_on_a_clear_case() -> None:
    labels = [0] * 50 + [0, 1] * 10 + [1] * 50
    scores = [*np.linspace(-0.9, -0.5, 50), *np.linspace(-0.2, 0.2, 20), *np.linspace(0.5, 0.9, 50)]
    cuts = suggest_thresholds(labels, scores, precision=1.0, missed=0.0)
    assert cuts.precision == 1
    assert cuts.missed == 0
    assert -0.5 < cuts.lower < -0.1
    assert 0.1 < cuts.upper < 0.5
    assert (cuts.trusted, cuts.dropped) == (pytest.approx(51 / 120), pytest.approx(51 / 120))


def test_a_precision_that_is_never_reached_gives_the_best_there_is() -> None:
    labels, scores = [1, 0, 0, 1, 0, 0], [0.9, 0.8, 0.7, 0.2, 0.1, 0.0]
    cuts = suggest_thresholds(labels, scores, precision=1.0, missed=0.0, support=0.5)
    assert cuts.precision == 0.5
    assert 0.1 < cuts.upper < 0.2


def test_one_cut_that_keeps_both_promises_is_both_thresholds() -> None:
    cuts = suggest_thresholds([0, 0, 1, 1], [-0.8, -0.6, 0.6, 0.8], precision=0.5, missed=0.5)
    assert cuts.lower == cuts.upper
    assert cuts.precision == 1


def test_thresholds_want_bounded_scores() -> None:
    with pytest.raises(ConfigError, match=r"scores must be in \[-1, 1\]"):
        suggest_thresholds([0, 1], [-3.0, 7.0])


def graded_pairs(grader: Any, tiny: Any, count: int = 400) -> list[Pair]:
    """Labels by the untrained model's own logits plus noise: a grader that knows something, uncalibrated."""
    asked = [(question, text) for question, text, _ in tiny.make_pairs(count, seed=3)]
    raws = np.array(grader.raw_pairs(asked))
    noisy = raws + np.random.default_rng(0).normal(0, raws.std(), count)
    labels = (noisy > np.median(noisy)).astype(int)
    return [Pair(question, text, int(label)) for (question, text), label in zip(asked, labels, strict=True)]


@pytest.mark.parametrize("head", ["true_false", "regression", "segments"])
def test_a_calibrated_artefact_scores_on_the_new_scale_and_says_so(
    head: str, tiny: Any, tmp_path: Path
) -> None:
    folder = tiny.save_grader(tmp_path / "tiny", head)
    before = T5Grader.from_pretrained(folder, device="cpu", precision="fp32")
    pairs = graded_pairs(before, tiny)
    report = calibrate_artefact(folder, pairs)
    assert report.error_after < report.error_before

    after = T5Grader.from_pretrained(folder, device="cpu", precision="fp32")
    asked = [(pair.question, pair.text) for pair in pairs[:20]]
    raws = np.array(before.raw_pairs(asked), dtype=float)
    assert after.score_pairs(asked) == pytest.approx(np.tanh((report.a * raws + report.b) / 2), abs=1e-5)
    assert after.fingerprint != before.fingerprint
    assert after.thresholds == Thresholds(report.cuts.upper, report.cuts.lower)
    assert after.spec.metrics["calibration"]["pairs"] == 400
    assert (after.spec.head, after.spec.scale) == (head, "tanh")


def test_calibrating_again_changes_nothing(tiny: Any, tmp_path: Path) -> None:
    folder = tiny.save_grader(tmp_path / "tiny")
    pairs = graded_pairs(T5Grader.from_pretrained(folder), tiny)
    first = calibrate_artefact(folder, pairs)
    described = (folder / "grader.json").read_text()
    second = calibrate_artefact(folder, pairs)
    assert (second.a, second.b, second.cuts) == (first.a, first.b, first.cuts)
    assert (
        json.loads(described)["fingerprint"]
        == json.loads((folder / "grader.json").read_text())["fingerprint"]
    )


def test_a_dry_run_prints_the_fit_and_leaves_the_folder_alone(
    tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny.save_grader(tmp_path / "tiny")
    write_pairs(graded_pairs(T5Grader.from_pretrained(folder), tiny), tmp_path / "dev.jsonl")
    described = (folder / "grader.json").read_bytes()
    arguments = [
        "grader",
        "calibrate",
        str(folder),
        "--pairs",
        str(tmp_path / "dev.jsonl"),
        "--dry-run",
        "--json",
    ]
    assert run_command(*arguments) == 0
    assert json.loads(capsys.readouterr().out)["pairs"] == 400
    assert (folder / "grader.json").read_bytes() == described
    assert run_command(*arguments[:5]) == 0
    assert "calibration error" in capsys.readouterr().out
    assert (folder / "grader.json").read_bytes() != described


def test_only_a_grader_folder_is_calibrated(tiny: Any, tmp_path: Path) -> None:
    pairs = [Pair("q", "t", 1), Pair("q", "u", 0)]
    for name in ("mini", tiny.save_plain(tmp_path / "plain")):
        with pytest.raises(ArtefactError, match="copy its folder first"):
            calibrate_artefact(name, pairs)
