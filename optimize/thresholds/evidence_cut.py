"""The third threshold: how good the best strip must be for there to be evidence at all.

What declining is worth is known for every question and action without asking anything again, so cuts are tried as the
two other thresholds are, on outcomes that are there. At each cut the best pair is found exactly (`landscape.py`), and
the cuts are tried one after another: all that differ where questions are few, quantiles of them where they are many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crag_dspy.actions import Policy, Thresholds
from crag_dspy.optimize.thresholds.devset_arrays import ACTIONS
from crag_dspy.optimize.thresholds.landscape import best_placed, landscape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crag_dspy.actions import Action
    from crag_dspy.optimize.thresholds.devset_arrays import DevsetArrays, Floats, Ints
    from crag_dspy.optimize.thresholds.landscape import Placed

NEVER = -1.0  # no score is below it
EXACT_UP_TO = 200  # questions, with up to three cuts each
QUANTILES = 200
OF_A_FOLD = 40  # cuts tried on the questions that choose, where the choice is made many times over


@dataclass(frozen=True, slots=True)
class Declining:
    """What it is worth not to answer.

    scores: (n, 3) of the evidence of each action, in the order of `ACTIONS`; infinite where there is none to decline.
    values: (n, 3) what declining is worth there.
    """

    scores: Floats
    values: Floats

    @classmethod
    def read(cls, known: Sequence[Mapping[Action, tuple[float | None, float]]]) -> Declining:
        """From (score, worth) of each question's actions; an action that is missing, or without a score, stays."""
        scores, values = np.full((len(known), 3), np.inf), np.zeros((len(known), 3))
        for row, actions in enumerate(known):
            for action, (score, worth) in actions.items():
                if score is not None:
                    scores[row, ACTIONS.index(action)] = score
                    values[row, ACTIONS.index(action)] = worth
        return cls(scores, values)

    def at(self, devset: DevsetArrays, cut: float) -> DevsetArrays:
        """The same questions with this cut."""
        return replace(devset, values=np.where(self.scores < cut, self.values, devset.values))

    def subset(self, index: Ints) -> Declining:
        return Declining(self.scores[index], self.values[index])

    def cuts(self, most: int | None = None) -> Floats:
        """Cuts worth trying, ascending: none, and the middle between two scores next to each other."""
        known = np.unique(self.scores[np.isfinite(self.scores)])
        if not len(known):
            return np.array([NEVER])
        middles = np.append((known[:-1] + known[1:]) / 2, min(1.0, float(np.nextafter(known[-1], 2))))
        if most is not None and len(middles) > most:
            middles = middles[np.unique(np.linspace(0, len(middles) - 1, most).round().astype(int))]
        return np.concatenate([[NEVER], middles])


@dataclass(frozen=True, slots=True)
class PlacedCut:
    """The best cut with the best pair for it. `cut_range`: other cuts decline the same. `gap`: how much better, at
    most, a cut between those that were tried could be; 0 where all were."""

    cut: float
    pair: Placed
    cut_range: tuple[float, float]
    gap: float = 0.0


def best_with_cut(
    devset: DevsetArrays,
    declining: Declining,
    policy: Policy,
    *,
    keep: Thresholds | None = None,
    keep_cut: float | None = None,
    most: int | None = None,
) -> PlacedCut:
    """The cut and the pair with the largest mean value.

    Args:
        keep, keep_cut: what is returned when nothing else is better.
        most: cuts to try; None is all of them up to `EXACT_UP_TO` questions, then `QUANTILES`.
    """
    if most is None and devset.n > EXACT_UP_TO:
        most = QUANTILES
    tried = [float(cut) for cut in declining.cuts(most)]
    if keep_cut is not None:
        tried = [keep_cut, *tried]  # first, so that it stays on a tie
    found = [_placed(declining.at(devset, cut), policy, keep) for cut in tried]
    first = max(range(len(tried)), key=lambda place: (round(found[place][0], 12), -place))
    cut, pair = tried[first], found[first][1]
    scores = declining.scores
    below = scores[scores < cut]
    above = scores[np.isfinite(scores) & (scores >= cut)]
    reach = (float(below.max()) if below.size else NEVER, float(above.min()) if above.size else 1.0)
    return PlacedCut(cut, pair, reach, _gap(devset, declining, np.unique(tried)) if most is not None else 0.0)


def _placed(devset: DevsetArrays, policy: Policy, keep: Thresholds | None) -> tuple[float, Placed]:
    pair = best_placed(landscape(devset, policy), keep)
    return float(devset.values_at(pair.upper, pair.lower, policy).mean()), pair


def _gap(devset: DevsetArrays, declining: Declining, tried: Floats) -> float:
    """No cut between two that were tried moves more than the questions whose scores lie between them."""
    block = np.searchsorted(tried, declining.scores, side="right")
    gained = np.where(np.isfinite(declining.scores), np.abs(declining.values - devset.values), 0.0)
    worst = 0.0
    for number in range(1, len(tried)):
        worst = max(worst, float(np.where(block == number, gained, 0.0).max(axis=1).sum()))
    return worst / devset.n
