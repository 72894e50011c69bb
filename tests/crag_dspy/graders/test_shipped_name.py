"""A folder called "mini" where a command runs must not take the shipped grader's place: it did once, unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from crag_dspy.errors import ArtefactError
from crag_dspy.graders.adapt import as_grader
from crag_dspy.graders.t5 import T5Grader


def test_a_folder_of_that_name_is_another_grader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mini").mkdir()
    monkeypatch.chdir(tmp_path)
    assert as_grader("mini") is T5Grader.from_pretrained("mini")
    with pytest.raises(ArtefactError):
        as_grader("./mini")
