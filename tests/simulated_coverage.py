"""How often the intervals hold the truth: simulated, where the truth is known.

python -P tests/simulated_coverage.py --trials 1000      # prints the table of docs/statistics.md

Questions come alone, or in 12 documents of 10 that stand or fall together. An interval of 95% should hold the truth in
95% of cases. Beside it stands what was before: single questions resampled, thresholds judged where they were chosen.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from crag_dspy.actions import Action, Thresholds
from crag_dspy.optimize.statistics.differences import paired_difference
from crag_dspy.optimize.statistics.intervals import mean_interval
from crag_dspy.optimize.thresholds.cross_fit import cross_validate
from crag_dspy.optimize.thresholds.exact import BestThresholds, best_thresholds

DOCUMENTS, QUESTIONS = 12, 120
OLD = Thresholds(0.5, -0.5)
Floats = Any


@dataclass(frozen=True)
class Design:
    """How questions are drawn. `shared`: of the spread of a document's effect; None for questions of their own."""

    shared: float | None

    @property
    def groups(self) -> list[int] | None:
        return None if self.shared is None else [i * DOCUMENTS // QUESTIONS for i in range(QUESTIONS)]

    def effects(self, rng: np.random.Generator, n: int, kinds: int) -> Floats:
        """(n, kinds) what a question's document adds; the questions of one stand together."""
        if self.shared is None:
            return np.zeros((n, kinds))
        size = QUESTIONS // DOCUMENTS
        return np.repeat(rng.normal(0, self.shared, size=(-(-n // size), kinds)), size, axis=0)[:n]


ALONE, IN_DOCUMENTS = Design(None), Design(1.0)


def chances(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


def a_devset(rng: np.random.Generator, design: Design, n: int, informed: bool) -> tuple[Floats, Floats]:
    """(n,) best scores, and (n, 3) the chance that each action answers; the score says something, or nothing."""
    scores = np.tanh(rng.normal(0, 0.8, size=n)).round(3)
    effects = design.effects(rng, n, 3 if informed else 1)
    if not informed:
        return scores, chances(np.repeat(effects, 3, axis=1))
    return scores, chances(
        np.stack([0.2 + 2 * scores, np.full(n, 0.3), 0.5 + 0.5 * scores], axis=1) + effects
    )


def searched(scores: Floats, outcomes: Floats, keep: Thresholds | None = None) -> BestThresholds:
    rows = [
        dict(zip((Action.CORRECT, Action.INCORRECT, Action.AMBIGUOUS), row, strict=True)) for row in outcomes
    ]
    return best_thresholds([[score] for score in scores.tolist()], rows, keep=keep)


@cache
def population(design: Design, informed: bool) -> BestThresholds:
    """So many questions that what thresholds are worth on them is the truth."""
    return searched(*a_devset(np.random.default_rng(99), design, 60_000, informed))


def bootstrapped(values: Floats, rng: np.random.Generator) -> tuple[float, float]:
    """What was done before: single questions resampled, and percentiles of their means."""
    means = values[rng.integers(0, len(values), size=(500, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


Trial = Callable[[np.random.Generator, Design], tuple[bool, bool]]


def rate(rng: np.random.Generator, design: Design) -> tuple[bool, bool]:
    """Right or wrong."""
    values = (rng.random(QUESTIONS) < chances(design.effects(rng, QUESTIONS, 1)[:, 0] - 0.5)).astype(float)
    truth = _true_rate(design, -0.5)
    found, (low, high) = mean_interval(values, design.groups), bootstrapped(values, rng)
    return found.low <= truth <= found.high, low <= truth <= high


def share(rng: np.random.Generator, design: Design) -> tuple[bool, bool]:
    """A score between 0 and 1."""
    effects = design.effects(rng, QUESTIONS, 1)[:, 0]
    values = chances(effects - 0.5 + rng.normal(0, 1.5, size=QUESTIONS))
    truth = _true_share(design)
    found, (low, high) = mean_interval(values, design.groups), bootstrapped(values, rng)
    return found.low <= truth <= found.high, low <= truth <= high


def difference(rng: np.random.Generator, design: Design) -> tuple[bool, bool]:
    """Two systems, right or wrong, on the same questions."""
    effects = design.effects(rng, QUESTIONS, 2)
    drawn = rng.random((QUESTIONS, 2))
    before, after = (
        (drawn[:, i] < chances(effects[:, i] + shift)).astype(float) for i, shift in ((0, -0.5), (1, 0.3))
    )
    truth = _true_rate(design, 0.3) - _true_rate(design, -0.5)
    found = paired_difference(before, after, design.groups, samples=1)
    low, high = bootstrapped(after - before, rng)
    return found.low <= truth <= found.high, low <= truth <= high


def optimum(rng: np.random.Generator, design: Design) -> tuple[bool, bool]:
    """What the thresholds that a search found are worth on new questions."""
    scores, worth = a_devset(rng, design, QUESTIONS, informed=True)
    best = searched(scores, (rng.random(worth.shape) < worth).astype(float))
    truth = population(design, True).value_at(best.upper, best.lower)
    found = cross_validate(best, groups=design.groups, seed=int(rng.integers(2**31))).estimate
    low, high = bootstrapped(best.devset.values_at(best.upper, best.lower, best.policy), rng)
    return found.low <= truth <= found.high, low <= truth <= high


def false_gain(rng: np.random.Generator, design: Design) -> tuple[bool, bool]:
    """Whether a search calls its thresholds better where no thresholds are: cross-fitted, and in-sample."""
    scores, worth = a_devset(rng, design, QUESTIONS, informed=False)
    best = searched(scores, (rng.random(worth.shape) < worth).astype(float), keep=OLD)
    was = best.devset.values_at(OLD.upper, OLD.lower, best.policy)
    seed = int(rng.integers(2**31))
    found = cross_validate(best, groups=design.groups, keep=OLD, before=was, seed=seed).change
    here = best.devset.values_at(best.upper, best.lower, best.policy)
    return found is not None and found.improved, paired_difference(was, here, samples=500).improved


COVERED: dict[str, Trial] = {
    "mean, right or wrong": rate,
    "mean, a share": share,
    "difference": difference,
    "threshold optimum": optimum,
}


def simulated(trial: Trial, design: Design, trials: int, seed: int = 0) -> tuple[float, float]:
    """The share of trials that are true: with the library's intervals, and as it was before."""
    rng = np.random.default_rng(seed)
    found = np.array([trial(rng, design) for _ in range(trials)]).mean(axis=0)
    return float(found[0]), float(found[1])


@cache
def _true_rate(design: Design, shift: float) -> float:
    effects = design.effects(np.random.default_rng(98), 2_000_000, 1)[:, 0]
    return float(chances(effects + shift).mean())


@cache
def _true_share(design: Design) -> float:
    rng = np.random.default_rng(97)
    effects = design.effects(rng, 2_000_000, 1)[:, 0]
    return float(chances(effects - 0.5 + rng.normal(0, 1.5, size=2_000_000)).mean())


def table(trials: int) -> str:
    lines = [
        f"| of {trials} simulations | 120 questions | as before | 12 documents of 10 | as before |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, trial in {**COVERED, "called better where nothing is": false_gain}.items():
        cells = [
            f"{part:.1%}" for design in (ALONE, IN_DOCUMENTS) for part in simulated(trial, design, trials)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    sys.stdout.write(table(parser.parse_args().trials) + "\n")
