"""What trains, calibrates and benchmarks the grader: `train`, `calibrate` and `benchmark`, imported when they are used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crag_dspy.evaluator_train.measuring.benchmarking import benchmark
    from crag_dspy.evaluator_train.measuring.calibration import calibrate_artefact as calibrate
    from crag_dspy.evaluator_train.training.grader import train_grader as train

__all__ = ["benchmark", "calibrate", "train"]

_HOMES = {
    "benchmark": ("measuring.benchmarking", "benchmark"),
    "calibrate": ("measuring.calibration", "calibrate_artefact"),
    "train": ("training.grader", "train_grader"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
