"""What a benchmark of graders found: one row a grader and file, and the scores it was computed from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One grader on one file. Shares and areas are in [0, 1]; None where all that was judged has one label.

    Args:
        auc_low, auc_high: 95% bootstrap interval of `auc` over questions.
        cut, accuracy: the grader's own: its `cut` where it has one, else 0, the middle of the scale.
        best_cut, best_accuracy: the best on these very pairs, an upper bound.
        calibration_error: expected error of (score + 1) / 2 as a probability, 15 bins.
        unjudged: share of pairs with the score None, as for text that is unknown to the tokenizer.
    """

    grader: str
    fingerprint: str
    file: str
    pairs: int
    relevant: int
    auc: float | None
    auc_low: float | None
    auc_high: float | None
    average_precision: float | None
    cut: float
    accuracy: float
    best_cut: float | None
    best_accuracy: float | None
    calibration_error: float | None
    unjudged: float
    pairs_per_second: float


@dataclass(frozen=True, slots=True)
class Result:
    """A row, with the labels and scores it was computed from."""

    row: Row
    labels: tuple[int, ...]
    scores: tuple[float | None, ...]

    def judged(self) -> tuple[list[int], list[float]]:
        """Labels and scores without what was not judged."""
        both = [(y, s) for y, s in zip(self.labels, self.scores, strict=True) if s is not None]
        return [label for label, _ in both], [score for _, score in both]
