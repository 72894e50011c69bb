"""Runs kept before answers were checked go on: a check that only marks answers changes none."""

from __future__ import annotations

import pytest

from crag_dspy import CRAG
from crag_dspy.optimize.runs.fingerprints import changes, program_identity

ADDED = ("part check", "part check.part", "settings.answer_threshold", "settings.on_unsupported")


@pytest.mark.parametrize("check", ["auto", None])
def test_an_older_identity_is_the_same_program(check: str | None) -> None:
    now = program_identity(CRAG(["The bridge opened in 1931."], check=check))
    before = {name: value for name, value in now.items() if name not in ADDED}
    assert len(before) < len(now)
    assert changes(before, now) == []


def test_holding_answers_back_is_another_program() -> None:
    before = program_identity(CRAG(["The bridge opened in 1931."]))
    now = program_identity(CRAG(["The bridge opened in 1931."], on_unsupported="abstain"))
    assert changes(before, now) == ["settings.on_unsupported (flag -> abstain)"]
