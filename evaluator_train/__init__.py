"""What trains, calibrates and benchmarks the grader. Names are imported when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.live.lazy_names import lazy_names

if TYPE_CHECKING:
    from crag_dspy.evaluator_train.measuring.benchmarking import benchmark
    from crag_dspy.evaluator_train.measuring.calibration import calibrate_artefact as calibrate
    from crag_dspy.evaluator_train.training.grader import train_grader as train

_HOMES = {
    "benchmark": "measuring.benchmarking",
    "calibrate": "measuring.calibration:calibrate_artefact",
    "train": "training.grader:train_grader",
}

__all__ = ["benchmark", "calibrate", "train"]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
