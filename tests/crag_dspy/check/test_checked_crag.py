"""CRAG with a check: `grounded` is supported, and an answer that is not is marked or held back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import dspy
import pytest

from crag_dspy import CRAG, Passage, T5Grader
from crag_dspy.check.contract import Checked, Support
from crag_dspy.errors import ConfigError
from crag_dspy.passages import Strip
from crag_dspy.text.replies import is_abstention
from crag_dspy.text.untrusted import visible

BRIDGE = Passage("The Ardent Bridge was designed by Joseph Strauss in 1931.", title="Ardent Bridge")
QUESTION = "Who designed the Ardent Bridge?"


class Grader:
    name, fingerprint = "same", "same-1"

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        return [0.9 for _ in texts]


class Sure:
    """A check that is as sure as it is told."""

    def __init__(self, confidence: Any) -> None:
        self.confidence = confidence

    def __call__(self, question: str, answer: str, evidence: Sequence[Strip]) -> Checked:
        if isinstance(self.confidence, Exception):
            raise self.confidence
        return Checked(self.confidence, [Support(1, 0, 3)], {"told": 1.0}, "" if self.confidence else "told")


def asked(
    scripted_lm: Callable[..., Any], check: Any, answer: str = "Marta", how: str = "sync", **more: Any
) -> Any:
    program = CRAG([BRIDGE], Grader(), check=check, **more)
    with dspy.context(lm=scripted_lm({"answer": answer})):
        return program(question=QUESTION) if how == "sync" else asyncio.run(program.acall(question=QUESTION))


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize(("confidence", "grounded"), [(0.9, True), (0.5, True), (0.1, False), (None, True)])
def test_grounded_is_supported(
    scripted_lm: Callable[..., Any], how: str, confidence: float | None, grounded: bool
) -> None:
    found = asked(scripted_lm, Sure(confidence), how=how, answer_threshold=0.5)
    assert (found.answer, found.grounded, found.confidence) == ("Marta", grounded, confidence)
    assert found.supported_by == [Support(1, 0, 3)]
    assert found.failed is None
    assert found.trace.check["told"] == 1.0


@pytest.mark.parametrize("how", ["sync", "async"])
def test_an_unsupported_answer_is_held_back_where_the_settings_say_so(
    scripted_lm: Callable[..., Any], how: str
) -> None:
    found = asked(scripted_lm, Sure(0.1), how=how, on_unsupported="abstain")
    assert is_abstention(found.answer)
    assert (found.grounded, found.confidence, found.failed) == (False, 0.1, None)
    assert found.trace.unsupported == "Marta"
    story = json.loads(json.dumps(found.trace.to_json()))
    assert (story["unsupported"], story["confidence"]) == ("Marta", 0.1)


@pytest.mark.parametrize("broken", [ValueError("down"), 1.5, float("nan"), "high"])
def test_a_check_that_fails_is_a_warning(scripted_lm: Callable[..., Any], broken: Any) -> None:
    found = asked(scripted_lm, Sure(broken))
    assert (found.answer, found.grounded, found.confidence, found.failed) == ("Marta", True, None, None)
    assert any("could not be checked" in warning for warning in found.warnings)
    careful = asked(scripted_lm, Sure(broken), on_unsupported="abstain")
    assert is_abstention(careful.answer)
    assert careful.grounded is False
    assert "answer check" in careful.failed
    assert careful.trace.unsupported == "Marta"


def test_without_a_check_all_is_as_it_was(scripted_lm: Callable[..., Any]) -> None:
    for check in (None, "auto"):  # this grader has no weights
        found = asked(scripted_lm, check)
        assert (found.grounded, found.confidence, found.supported_by) == (True, None, [])
    for wrong in ("signals", 3):
        with pytest.raises(ConfigError, match="check must be"):
            CRAG([BRIDGE], Grader(), check=wrong)


def test_a_declining_answer_is_not_checked(scripted_lm: Callable[..., Any]) -> None:
    found = asked(scripted_lm, Sure(0.9), answer="I don't know.")
    assert (found.grounded, found.confidence) == (False, None)


@pytest.mark.parametrize(("answer", "grounded"), [("Joseph Strauss", True), ("Marta Ellison", False)])
def test_mini_tells_a_contradiction(scripted_lm: Callable[..., Any], answer: str, grounded: bool) -> None:
    program = CRAG([BRIDGE, Passage("Cats sleep most of the day.")])
    assert (
        program.settings.answer_threshold == T5Grader.from_pretrained("mini").check_weights.answer_threshold
    )  # type: ignore[union-attr]
    lm = scripted_lm({"answer": answer})
    with dspy.context(lm=lm):
        found = program(question=QUESTION)
    assert (found.answer, found.grounded) == (answer, grounded)
    assert [BRIDGE.text[place.start : place.end] for place in found.supported_by] == [answer] * grounded
    from rich.console import Console

    with Console(width=200, record=True, file=open("/dev/null", "w")) as console:
        console.print(found.trace.tree())
    assert "confidence" in visible(console.export_text())


def test_a_copy_and_a_saved_program_keep_the_check(scripted_lm: Callable[..., Any], tmp_path: Any) -> None:
    program = CRAG([BRIDGE], on_unsupported="abstain", answer_threshold=0.4)
    program.save(tmp_path / "crag.json")
    loaded = CRAG([BRIDGE]).load(tmp_path / "crag.json")
    assert (loaded.settings.on_unsupported, loaded.settings.answer_threshold) == ("abstain", 0.4)
    assert program.deepcopy().check.part.grader is program.check.part.grader
    with pytest.raises(ConfigError, match="on_unsupported"):
        program.settings.update({"on_unsupported": "correct"})
