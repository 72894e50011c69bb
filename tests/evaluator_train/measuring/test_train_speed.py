"""Timing a grader: the official loop on the same weights, the same logits, and a share of the machine's own rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.measuring.speed import time_grader

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("head", ["segments", "true_false"])
def test_the_official_loop_gives_the_same_logits_and_is_slower(tiny: Any, tmp_path: Path, head: str) -> None:
    folder = tiny.save_grader(tmp_path / "grader", head)
    pairs = tiny.make_pairs(128)
    official, fast = time_grader(
        str(folder),
        [(question, text) for question, text, _ in pairs],
        [label for _, _, label in pairs],
        official=8,
        precisions=["fp32"],
    )

    assert (official.way, fast.way) == ("official loop", "T5Grader")
    assert fast.difference is not None
    assert fast.difference < 1e-4
    assert fast.times_official > 2
    assert fast.auc is not None
    assert fast.of_matmul is not None
    assert fast.of_matmul > 0


def test_nothing_to_time_is_an_error(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no pairs"):
        time_grader(str(tiny.save_grader(tmp_path / "grader", "segments")), [])
