"""What a grader that reads once is asked, and what it answers. Needs no numpy, as `contracts` names both."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_dspy.read_once.vectors import PassageVectors, Span


class Judged(NamedTuple):
    """Scores in [-1, 1] of a passage and of its strips, in order; None where the grader cannot judge."""

    passage: float | None
    strips: list[float | None]


class ToJudge(NamedTuple):
    """A passage as it is judged: its vectors, its strips' characters, and what is shown of each strip.

    `around` are the characters of what else is shown with each strip: headings, the header of its table.
    """

    vectors: PassageVectors
    spans: Sequence[Span]
    texts: Sequence[str]
    around: Sequence[Sequence[Span]] = ()
