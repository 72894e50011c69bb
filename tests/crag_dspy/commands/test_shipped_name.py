"""A folder called "mini" where a command runs must not take the shipped grader's place: it did once, unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from crag_dspy.commands.demo_systems import _grader_table
from crag_dspy.evaluator_train.measuring.named_graders import named_grader
from crag_dspy.graders.t5 import T5Grader


def test_a_folder_of_that_name_is_another_grader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mini").mkdir()
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path)
    assert named_grader("mini") is T5Grader.from_pretrained("mini")
    assert _grader_table("mini") == {"source": "mini"}
    assert _grader_table("own") == {"source": str(tmp_path / "own")}
