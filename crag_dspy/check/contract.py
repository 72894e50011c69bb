"""What checks an answer, and what it finds. Anything with such a call fits; nothing needs to inherit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from crag_dspy.state.plain import Plain

if TYPE_CHECKING:
    from crag_dspy.passages import Strip


@dataclass(frozen=True)
class Support(Plain):
    """Where the evidence carries an answer.

    Args:
        strip: number of the strip in the evidence, from 1, as citations count.
        start, end: characters of the strip's text.
    """

    strip: int
    start: int
    end: int


@dataclass(frozen=True)
class Checked(Plain):
    """What a check found.

    Args:
        confidence: how likely the evidence supports the answer, in [0, 1]; None where this check cannot judge it.
        supports: where the evidence carries it.
        signals: what it was judged by, as plain data.
        why_not: why it was not judged, in words; "" where it was.
    """

    confidence: float | None
    supports: Sequence[Support] = ()
    signals: Mapping[str, Any] = field(default_factory=dict)
    why_not: str = ""


@runtime_checkable
class AnswerCheck(Protocol):
    """Checks an answer against its evidence. May raise: that is a warning, and an answer that was not judged."""

    def __call__(self, question: str, answer: str, evidence: Sequence[Strip]) -> Checked: ...


@runtime_checkable
class CheckingGrader(Protocol):
    """A grader that is fitted to check answers by its scores (see `by_signals`)."""

    @property
    def check_weights(self) -> Any:
        """`CheckWeights`, or None where it was not fitted: one class may hold models of both kinds."""
        ...

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]: ...
