"""The step after the generator: a check that cannot crash a question, and what follows from what it finds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dspy

from crag_dspy.check.by_signals import SignalsCheck
from crag_dspy.check.contract import AnswerCheck, Checked, CheckingGrader
from crag_dspy.errors import ConfigError, CragError, cause_of
from crag_dspy.flow import Call, Flow
from crag_dspy.state.plain import plain
from crag_dspy.text.replies import is_abstention
from crag_dspy.trace import CHECK, Trace

if TYPE_CHECKING:
    from crag_dspy.passages import Strip
    from crag_dspy.settings import Settings


class CheckAnswer(dspy.Module):
    """The check as a module: a span of its own in traces, and what it gives held to its contract."""

    def __init__(self, part: AnswerCheck) -> None:
        super().__init__()
        self.part = part

    def forward(self, question: str, answer: str, evidence: Sequence[Strip]) -> Checked:
        found = self.part(question, answer, evidence)
        if not isinstance(found, Checked):
            raise CragError(f"an answer check must give a Checked, got {type(found).__name__}")
        sure = found.confidence
        if sure is not None and not (
            isinstance(sure, (int, float)) and math.isfinite(sure) and 0 <= sure <= 1
        ):
            raise CragError(f"a confidence must be None or in [0, 1], got {sure!r}")
        return found


def as_check(check: Any, grader: Any) -> CheckAnswer | None:
    """The step that CRAG takes: "auto" checks by signals where the grader has weights for it, None not at all."""
    if check is None:
        return None
    if check == "auto":
        fitted = isinstance(grader, CheckingGrader) and grader.check_weights is not None
        return CheckAnswer(SignalsCheck(grader)) if fitted else None
    if isinstance(check, str) or not callable(check):
        raise ConfigError(
            f"check must be 'auto', None or an object with __call__(question, answer, evidence), got {check!r}"
        )
    return CheckAnswer(check)


def checked(
    check: CheckAnswer | None,
    question: str,
    answer: str | None,
    evidence: Sequence[Strip],
    settings: Settings,
    trace: Trace,
) -> Flow:
    """(the answer, whether the evidence supports it, where): the answer is None where the settings hold it back."""
    judged = any(strip.score is not None for strip in evidence)
    if evidence and not judged:
        trace.warn("no strip of the evidence was judged, so the answer does not count as grounded")
    if answer is None or is_abstention(answer):
        return answer, False, []
    if check is None or not evidence:
        return answer, judged, []
    careful = settings.on_unsupported == "abstain"
    with trace.timed("check"):
        try:
            call = Call(check, question=question, answer=answer, evidence=evidence)
            found: Checked = yield call.within(settings.time_limit, trace.warn)
        except Exception as error:  # noqa: BLE001 - whose check it may ever be: an answer not judged, not a crash
            trace.fault(CHECK, cause_of(error, check), "the answer could not be checked")
            if careful:
                trace.unsupported = answer
            return None if careful else answer, judged and not careful, []
    trace.confidence, trace.check = found.confidence, plain(found.signals)
    if found.confidence is None:
        trace.check["why_not"] = found.why_not
        return answer, judged, list(found.supports)
    if found.confidence >= settings.answer_threshold:
        return answer, True, list(found.supports)
    if careful:
        trace.unsupported = answer
    return None if careful else answer, False, list(found.supports)
