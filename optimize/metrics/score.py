"""What a metric returns: a number that every DSPy optimizer can use, with the reason in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dspy

from crag_dspy.text.untrusted import as_asked

# (example, prediction), and where it wants them trace, pred_name and pred_trace; gives a number or a `Score`.
Metric = Callable[..., Any]


class Score(dspy.Prediction):
    """A score with feedback.

    DSPy asks three things of a metric's result, and a plain `dspy.Prediction(score=0.0, feedback=...)` gets
    the first one wrong: it is true, so bootstrapping takes WRONG answers as demonstrations.

    - `bool(score)`: whether the answer is right in full, so good enough for a demonstration.
    - arithmetic and order: those of the number, for Evaluate, MIPROv2 and SIMBA.
    - `score.score` and `score.feedback`: GEPA's and SIMBA's.

    `dspy.Evaluate(save_as_json=...)` writes numbers only (a score that is a float would lose its feedback in SIMBA):
    give it `lambda example, pred: float(metric(example, pred))`, or use `evaluate(run=...)`, which writes all of it.

    Fields:
        score: what is maximised. In [0, 1] before prices.
        feedback: one or more sentences: what was wrong, and where it went wrong. It quotes answers, pages and
            errors, and an optimizer puts it into a prompt: they write no structure there.
        quality: present when prices were taken off `score`: what it was before.
        objective_scores: present on a combination: each part by name, as GEPA's Pareto search wants them.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(feedback := self.get("feedback"), str):
            self["feedback"] = as_asked(feedback)

    def __bool__(self) -> bool:
        return float(self.get("quality", self["score"])) >= 1 - 1e-9

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):
            return float(self) == other
        return isinstance(other, dspy.Example) and super().__eq__(other) is True

    def __hash__(self) -> int:
        return hash(float(self))

    # dspy.Prediction adds, divides and compares; weighted sums need these too.
    def __mul__(self, other: Any) -> float:
        return float(self) * float(other)

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> float:
        return float(self) - float(other)

    def __rsub__(self, other: Any) -> float:
        return float(other) - float(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """A zero-dimensional array: without this numpy would iterate over the names of the fields."""
        import numpy as np

        return np.array(float(self), dtype=dtype)
