"""Make a grader's score mean something: (score + 1) / 2 becomes the probability that the text is relevant.

    raw -> a * raw + b -> score = tanh((a * raw + b) / 2)

Temperature scaling (Guo et al. 2017, arXiv 1706.04599) fits a alone, Platt scaling (Platt 1999) a and b.
Neither changes the order of the texts. On the calibrated scale two thresholds follow from what a user can
say: how sure the grader must be before retrieval is trusted, and how much relevant text it may write off.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crag_dspy.errors import ArtefactError
from crag_dspy.evaluator_train.measuring.cuts import Cuts, suggest_thresholds
from crag_dspy.evaluator_train.measuring.platt import (
    Method,
    checked,
    crossed_probabilities,
    fit,
    sigmoid,
)
from crag_dspy.evaluator_train.measuring.reliability import Bin, calibration_error, log_loss, reliability
from crag_dspy.evaluator_train.pairs.labels import verdicts
from crag_dspy.graders.artefact import Calibration, SuggestedThresholds
from crag_dspy.state.plain import Plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from crag_dspy.evaluator_train.pairs.pair_files import Pair
    from crag_dspy.graders.artefact import GraderSpec

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CalibrationReport(Plain):
    """What was fitted and what it changed, on development pairs.

    The values after are cross-validated: each pair by a fit on other questions, without the shift by `prior`.
    """

    method: Method
    a: float
    b: float
    pairs: int
    relevant: int
    unjudged: int
    error_before: float
    error_after: float
    log_loss_before: float
    log_loss_after: float
    cuts: Cuts
    reliability: tuple[Bin, ...]


def calibrate(
    raws: Sequence[float | None],
    labels: Sequence[int],
    questions: Sequence[str],
    *,
    before: Sequence[float | None] | None = None,
    method: Method | str = "platt",
    prior: float | None = None,
    precision: float = 0.9,
    missed: float = 0.05,
) -> CalibrationReport:
    """Fit on development pairs, and say what it is worth on questions that the fit has not seen.

    Args:
        raws: logits, None where the grader could not judge (left out, and counted).
        labels, questions: of the same pairs.
        before: the scores in [-1, 1] as they are now; None for tanh(raw / 2).
        method, prior: see `fit`. precision, missed: see `suggest_thresholds`.
    """
    judged = [index for index, raw in enumerate(raws) if raw is not None]
    values, truth = checked([raws[index] for index in judged], [labels[index] for index in judged])
    asked = [questions[index] for index in judged]
    calibration = fit(values.tolist(), truth.astype(int).tolist(), method, prior)
    now = (
        np.tanh(values / 2) if before is None else np.array([before[index] for index in judged], dtype=float)
    )
    old = np.clip((now + 1) / 2, 0, 1)
    new = crossed_probabilities(values, truth, asked, with_shift=method == "platt")
    final = sigmoid(calibration.a * values + calibration.b)
    known = truth.astype(int).tolist()
    return CalibrationReport(
        method="platt" if method == "platt" else "temperature",
        a=calibration.a,
        b=calibration.b,
        pairs=len(judged),
        relevant=int(truth.sum()),
        unjudged=len(raws) - len(judged),
        error_before=calibration_error(known, old.tolist()),
        error_after=calibration_error(known, new.tolist()),
        log_loss_before=log_loss(truth, old),
        log_loss_after=log_loss(truth, new),
        cuts=suggest_thresholds(known, (2 * final - 1).tolist(), precision=precision, missed=missed),
        reliability=tuple(reliability(known, new.tolist())),
    )


def calibrate_artefact(
    folder: Path | str,
    pairs: Sequence[Pair],
    *,
    method: Method | str = "platt",
    prior: float | None = None,
    precision: float = 0.9,
    missed: float = 0.05,
    write: bool = True,
) -> CalibrationReport:
    """Calibrate a grader folder on development pairs and store a, b and the thresholds in its grader.json.

    The scale becomes "tanh" whatever the head, and the fingerprint changes with it. Nothing else in the
    folder does; `write=False` changes nothing at all.
    """
    from crag_dspy.graders.artefact import SPEC_FILE, read_spec, update_spec
    from crag_dspy.graders.t5 import T5Grader

    labels = verdicts(pairs, "pairs")
    target = Path(folder)
    spec = read_spec(target) if target.is_dir() else None
    if spec is None:
        raise ArtefactError(
            f"grader {str(folder)!r} is not a folder with {SPEC_FILE}: to calibrate a shipped grader or "
            "one of a hub, copy its folder first"
        )
    grader = T5Grader.from_pretrained(target)
    raws = grader.raw_pairs([(pair.question, pair.text) for pair in pairs])
    report = calibrate(
        raws,
        labels,
        [pair.question for pair in pairs],
        before=[None if raw is None else _score(spec, raw) for raw in raws],
        method=method,
        prior=prior,
        precision=precision,
        missed=missed,
    )
    if write:
        update_spec(
            target,
            scale="tanh",
            calibration=Calibration(a=report.a, b=report.b),
            thresholds=SuggestedThresholds(upper=report.cuts.upper, lower=report.cuts.lower),
            metrics={**spec.metrics, "calibration": report.to_json()},
        )
    return report


def _score(spec: GraderSpec, raw: float) -> float:
    value = spec.calibration.a * raw + spec.calibration.b
    return float(np.tanh(value / 2) if spec.scale == "tanh" else np.clip(value, -1, 1))
