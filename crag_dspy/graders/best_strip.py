"""A text judged by its best sentence: CRAG's `grade_by="strips"`, for texts that have no title."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.contracts import PairsGrader, TunedGrader
from crag_dspy.refine import decompose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_dspy.contracts import Grader


class BestStrip:
    """Gives a text the best score of its sentences. None where one could not be judged and none was relevant."""

    def __init__(self, grader: Grader) -> None:
        self.grader = grader
        self.name, self.fingerprint = f"strips:{grader.name}", f"strips:{grader.fingerprint}"
        self.thresholds = grader.thresholds if isinstance(grader, TunedGrader) else None

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        """As a Grader; the strips of all texts are scored together."""
        return self.score_pairs([(question, text) for text in texts])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """The same for pairs of many questions."""
        cut = [[text[start:end] for start, end in decompose(text)] or [text] for _, text in pairs]
        flat = [
            (question, strip) for (question, _), strips in zip(pairs, cut, strict=True) for strip in strips
        ]
        scores = iter(_scored(self.grader, flat))
        return [_best([next(scores) for _ in strips]) for strips in cut]


def _scored(grader: Grader, pairs: list[tuple[str, str]]) -> list[float | None]:
    if isinstance(grader, PairsGrader):
        return list(grader.score_pairs(pairs))
    return [grader.score(question, [strip])[0] for question, strip in pairs]


def _best(scores: list[float | None]) -> float | None:
    judged = [score for score in scores if score is not None]
    if len(judged) < len(scores) and max(judged, default=-1.0) <= 0:
        return None
    return max(judged)
