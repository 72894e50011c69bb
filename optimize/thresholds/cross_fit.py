"""What a choice made on some questions is worth on others.

The questions are dealt into folds, whole documents at a time; each fold is judged at what was chosen without it.
Other folds would choose, and so judge, a little differently. The folds are dealt several times, and how far the results
differ adds to the error of their mean: without that, an interval of 95% holds the truth in about 90% of cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from crag_dspy.actions import Thresholds
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.statistics.differences import PairedDifference, paired_difference
from crag_dspy.optimize.statistics.intervals import MeanInterval, group_numbers, mean_interval
from crag_dspy.optimize.thresholds.evidence_cut import NEVER, OF_A_FOLD, best_with_cut
from crag_dspy.optimize.thresholds.landscape import best_placed, landscape
from crag_dspy.state.plain import Plain

if TYPE_CHECKING:
    from crag_dspy.optimize.statistics.intervals import Groups
    from crag_dspy.optimize.thresholds.devset_arrays import DevsetArrays, Floats, Ints
    from crag_dspy.optimize.thresholds.evidence_cut import Declining
    from crag_dspy.optimize.thresholds.exact import BestThresholds

Choice = TypeVar("Choice")

REPEATS = 10
_WORK = 1_000_000_000  # of all searches together, in questions times distinct scores, before there are fewer repeats


@dataclass(frozen=True)
class CrossFitted(Generic[Choice]):
    """`values`: (repeats, questions) what each question is worth at what was chosen without it. `choices`: those of the
    first repeat, one a fold."""

    values: Floats
    choices: list[Choice]


@dataclass(frozen=True, slots=True)
class CrossValidated(Plain):
    """What thresholds found on some questions are worth on others.

    estimate: the mean over all questions, each at the thresholds found without its fold. Unlike the value of the
        optimum it is not flattered by the search.
    change: the same against thresholds that there were before, None where there were none.
    thresholds: one pair a fold, of the first repeat: how far they scatter is how far to trust them.
    """

    estimate: MeanInterval
    change: PairedDifference | None
    thresholds: list[Thresholds]


def cross_fit(
    n: int,
    choose: Callable[[Ints], Choice],
    worth: Callable[[Choice, Ints], Floats],
    *,
    groups: Groups | None = None,
    folds: int = 5,
    repeats: int = REPEATS,
    seed: int = 0,
) -> CrossFitted[Choice]:
    """Choose on all folds but one, judge on that one, in turn.

    Args:
        n: the number of questions.
        choose: makes the choice on the questions with these numbers, in ascending order.
        worth: what a choice is worth to each of the questions with these numbers.
        groups: what each question belongs to: no group is in two folds.
        folds: at least 2; the number of groups when there are fewer.
        repeats: how often the folds are dealt, at least 2.
        seed: of the dealing.
    """
    if folds < 2 or n < 2:
        raise ConfigError(f"cross-validation needs 2 folds and 2 questions, got {folds} and {n}")
    member = group_numbers(groups, n)
    rng = np.random.default_rng(seed)
    values = np.zeros((repeats, n))
    choices: list[Choice] = []
    for row in values:
        order = rng.permutation(int(member.max()) + 1)
        for fold in np.array_split(order, min(folds, len(order))):
            held = np.isin(member, fold)
            choice = choose(np.flatnonzero(~held))
            row[held] = worth(choice, np.flatnonzero(held))
            choices.append(choice)
    return CrossFitted(values, choices[: min(folds, int(member.max()) + 1)])


def cross_validate(
    best: BestThresholds,
    folds: int = 5,
    *,
    groups: Groups | None = None,
    keep: Thresholds | None = None,
    before: Floats | None = None,
    declining: tuple[DevsetArrays, Declining, float] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> CrossValidated:
    """Search the thresholds on all folds but one, judge on that one, in turn, and over again with other folds.

    Args:
        best: the search on all questions.
        folds, groups: see `cross_fit`.
        keep: as in `best_thresholds`.
        before: what each question was worth before the search.
        declining: where the cut of the evidence is searched too: the questions without any, what declining is worth,
            and the cut that there was.
        level: of the intervals.
        seed: of the folds and of the test.
    """
    policy = best.policy
    devset, spared, keep_cut = declining or (best.devset, None, None)

    def choose(chosen: Ints) -> tuple[Thresholds, float]:
        some = devset.subset(chosen)
        if spared is None:
            pair, cut = best_placed(landscape(some, policy), keep), NEVER
        else:
            found = best_with_cut(
                some, spared.subset(chosen), policy, keep=keep, keep_cut=keep_cut, most=OF_A_FOLD
            )
            pair, cut = found.pair, found.cut
        return Thresholds(pair.upper, pair.lower), cut

    def worth(choice: tuple[Thresholds, float], held: Ints) -> Floats:
        pair, cut = choice
        some = devset.subset(held)
        if spared is not None:
            some = spared.subset(held).at(some, cut)
        return some.values_at(pair.upper, pair.lower, policy)

    repeats = repeats_of(devset, policy, folds)
    found = cross_fit(devset.n, choose, worth, groups=groups, folds=folds, repeats=repeats, seed=seed)
    return CrossValidated(
        mean_interval(found.values, groups, level=level),
        None if before is None else paired_difference(before, found.values, groups, level=level, seed=seed),
        [pair for pair, _ in found.choices],
    )


def repeats_of(devset: DevsetArrays, policy: str, searches: int) -> int:
    """How often folds are dealt where each dealing takes so many searches: fewer where one takes seconds, as of
    thousands of passages under "vote".
    """
    if policy == "max":
        return REPEATS
    distinct = len(np.unique(devset.scores))
    work = searches * (distinct + 1) * (distinct + devset.n)
    return max(2, min(REPEATS, _WORK // work))
