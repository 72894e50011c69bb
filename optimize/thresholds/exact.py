"""The best thresholds on a development set, exactly.

What an action answers does not depend on where the thresholds stand, so every question is run at most three
times, once an action, and any number of thresholds can be tried on what came out. `best_thresholds` tries
them all: see `landscape.py` for how. `search_thresholds` (in `search.py`) runs the program first.

The value of the best of many pairs flatters it: what it is worth on other questions is for `cross_fit.py` to say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crag_dspy.actions import Action, Policy, Thresholds
from crag_dspy.optimize.thresholds.devset_arrays import (
    ACTIONS,
    AMBIGUOUS,
    CORRECT,
    INCORRECT,
    DevsetArrays,
    checked_policy,
    read_devset,
)
from crag_dspy.optimize.thresholds.evidence_cut import Declining, PlacedCut, best_with_cut
from crag_dspy.optimize.thresholds.frontier import FrontierPoint, pareto
from crag_dspy.optimize.thresholds.landscape import best_placed, landscape
from crag_dspy.state.plain import Plain, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crag_dspy.optimize.thresholds.devset_arrays import Bools
    from crag_dspy.optimize.thresholds.landscape import Landscape, Placed


@dataclass(frozen=True)
class BestThresholds(Plain):
    """The optimum and what surrounds it.

    upper, lower: in the middle of their plateaus.
    value: the mean outcome there, the largest of any pair.
    searches: the number of questions that search the web there.
    upper_range, lower_range: the plateaus: each threshold can move this far, the other staying, and neither
        the value nor the number of searches changes.
    evidence: the cut of the evidence that is best together with them; None where it was not searched. Everything else
        here is at that cut.
    """

    SHOWN: ClassVar[str] = "upper lower value searches policy upper_range lower_range n"

    upper: float
    lower: float
    value: float
    searches: int
    policy: Policy
    upper_range: tuple[float, float]
    lower_range: tuple[float, float]
    devset: DevsetArrays = field(repr=False, compare=False)
    evidence: PlacedCut | None = None

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(self.upper, self.lower)

    @property
    def n(self) -> int:
        """The number of questions."""
        return self.devset.n

    @property
    def oracle(self) -> float:
        """The mean outcome if every question took its best action: no thresholds can do better."""
        return float(np.where(self._reachable, self.devset.values, -np.inf).max(axis=1).mean())

    def always(self, action: Action) -> float:
        """The mean outcome if every question took this action, where it can be taken at all."""
        column = ACTIONS.index(action)
        forced = np.where(self.devset.empty, INCORRECT, AMBIGUOUS)
        taken = np.where(self._reachable[:, column], column, forced)
        return float(self.devset.values[np.arange(self.n), taken].mean())

    def value_at(self, upper: float, lower: float) -> float:
        """The mean outcome at any other pair."""
        pair = Thresholds(upper, lower)
        return float(self.devset.values_at(pair.upper, pair.lower, self.policy).mean())

    def actions_at(self, upper: float, lower: float) -> dict[Action, int]:
        """How many questions take each action at any pair."""
        pair = Thresholds(upper, lower)
        chosen = np.bincount(self.devset.actions(pair.upper, pair.lower, self.policy), minlength=3)
        return {action: int(count) for action, count in zip(ACTIONS, chosen, strict=True)}

    def frontier(self, limit: int = 200) -> list[FrontierPoint]:
        """The pairs that no other pair beats on both value and searches, in order of searches."""
        return pareto(self._land, limit)

    def to_json(self) -> dict[str, Any]:
        """The optimum as plain data."""
        shown = super().to_json()
        shown["questions"] = shown.pop("n")
        if self.evidence is not None:
            shown |= {
                "evidence_threshold": self.evidence.cut,
                "evidence_range": list(self.evidence.cut_range),
                "gap": self.evidence.gap,
            }
        return {**shown, "actions": plain(self.actions_at(self.upper, self.lower)), "oracle": self.oracle}

    @cached_property
    def _land(self) -> Landscape:
        return landscape(self.devset, self.policy)

    @property
    def _reachable(self) -> Bools:
        reachable = np.ones((self.n, 3), dtype=bool)
        reachable[self.devset.unsure, INCORRECT] = False
        reachable[self.devset.unsure & ~np.isfinite(self.devset.top), CORRECT] = False
        reachable[self.devset.empty] = np.arange(3) == INCORRECT
        return reachable


def best_thresholds(
    scores: Sequence[Sequence[float | None]],
    outcomes: Sequence[Mapping[Action, float]],
    policy: Policy | str = "max",
    *,
    keep: Thresholds | None = None,
    declining: Declining | None = None,
    keep_cut: float | None = None,
) -> BestThresholds:
    """The thresholds with the largest mean outcome over ALL pairs, as `decide` would apply them.

    Args:
        scores: for each question, one score a passage in [-1, 1], or None where the grader could not judge.
        outcomes: for each question, what each action is worth to it (any finite numbers; prices already taken
            off). An action that no thresholds can lead to may be missing: nothing retrieved is always
            INCORRECT; a passage that could not be judged rules INCORRECT out, and when none could be, CORRECT
            too.
        policy: "max" takes O(n log n) for n questions, "vote" O(d (n + d)) for d distinct scores.
        keep: a pair that is returned as it is when no other is better.
        declining: what it is worth not to answer; the cut of the evidence is then searched too, and `keep_cut` is the
            one that stays when no other is better.

    Returns:
        The optimum. Of equally good pairs: `keep`, then fewer searches, then the widest gap between scores for
        upper, then the widest plateau for lower; each threshold then stands in the middle of its plateau.
        Questions with the same score are never split, whatever order they come in.

    Raises:
        ConfigError: a score or outcome that is not a number in range, naming its question.
    """
    known = checked_policy(policy)
    devset = read_devset(scores, outcomes)
    if declining is None:
        return best_of(devset, known, keep=keep)
    found = best_with_cut(devset, declining, known, keep=keep, keep_cut=keep_cut)
    return _at(declining.at(devset, found.cut), known, found.pair, found)


def best_of(devset: DevsetArrays, policy: Policy, *, keep: Thresholds | None = None) -> BestThresholds:
    """The same of questions that are arrays already."""
    return _at(devset, policy, best_placed(landscape(devset, policy), keep))


def _at(
    devset: DevsetArrays, policy: Policy, pair: Placed, evidence: PlacedCut | None = None
) -> BestThresholds:
    chosen = devset.actions(pair.upper, pair.lower, policy)
    return BestThresholds(
        upper=pair.upper,
        lower=pair.lower,
        value=math.fsum(devset.values[np.arange(devset.n), chosen]) / devset.n,
        searches=int((chosen != CORRECT).sum()),
        policy=policy,
        upper_range=pair.upper_range,
        lower_range=pair.lower_range,
        devset=devset,
        evidence=evidence,
    )
