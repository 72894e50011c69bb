"""Scores and outcomes of a development set as arrays, checked once, with errors that name the question."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from crag_dspy.actions import POLICIES, Action, Policy
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

# The order of the columns of `DevsetArrays.values`, and what `DevsetArrays.actions` returns indices into.
ACTIONS = (Action.CORRECT, Action.INCORRECT, Action.AMBIGUOUS)
CORRECT, INCORRECT, AMBIGUOUS = range(3)


@dataclass(frozen=True, slots=True)
class DevsetArrays:
    """n questions. Under either policy an action depends on `top`, `unsure`, `empty`, and (vote) `scores`.

    values: (n, 3) what each action is worth, in the order of `ACTIONS`; 0 for an action that cannot be
    reached. top: (n,) the best known score, -inf when there is none.
    unsure: (n,) whether some passage could not be judged.
    empty: (n,) whether nothing was retrieved.
    scores, owner: every score of the questions that are neither, and whose it is; ordered by owner.
    """

    values: Floats
    top: Floats
    unsure: Bools
    empty: Bools
    scores: Floats
    owner: Ints

    @property
    def n(self) -> int:
        return len(self.top)

    def actions(self, upper: float, lower: float, policy: Policy) -> npt.NDArray[np.int8]:
        """`decide` for every question at once, as indices into `ACTIONS`."""
        chosen = np.full(self.n, AMBIGUOUS, dtype=np.int8)
        if policy == "max":
            chosen[~self.unsure & (self.top <= lower)] = INCORRECT
            chosen[self.top >= upper] = CORRECT
        else:
            between = (self.scores > lower) & (self.scores < upper)
            hedging = np.bincount(self.owner[between], minlength=self.n) > 0
            chosen[~self.unsure & ~hedging] = CORRECT
            chosen[~self.unsure & (self.top < upper)] = INCORRECT
        chosen[self.empty] = INCORRECT
        return chosen

    def values_at(self, upper: float, lower: float, policy: Policy) -> Floats:
        """(n,) what each question is worth at these thresholds."""
        return self.values[np.arange(self.n), self.actions(upper, lower, policy)]

    def subset(self, index: Ints) -> DevsetArrays:
        """The questions at `index`, in ascending order."""
        place = np.full(self.n, -1, dtype=np.int64)
        place[index] = np.arange(len(index))
        kept = place[self.owner] >= 0
        return DevsetArrays(
            self.values[index],
            self.top[index],
            self.unsure[index],
            self.empty[index],
            self.scores[kept],
            place[self.owner[kept]],
        )


def read_devset(
    scores: Sequence[Sequence[float | None]], outcomes: Sequence[Mapping[Action, float]]
) -> DevsetArrays:
    """Check and convert. Raises `ConfigError` naming the question and the field."""
    n = len(scores)
    if n != len(outcomes):
        raise ConfigError(f"scores and outcomes must be of equal length, got {n} and {len(outcomes)}")
    if n == 0:
        raise ConfigError("no questions: thresholds need at least one question with outcomes")
    lengths = np.fromiter(map(len, scores), dtype=np.int64, count=n)
    flat = list(chain.from_iterable(scores))
    all_scores = _flat_scores(flat, lengths)
    owner = np.repeat(np.arange(n), lengths)
    missing = np.isnan(all_scores)
    unsure = np.bincount(owner[missing], minlength=n) > 0
    top = np.full(n, -np.inf)
    np.maximum.at(top, owner[~missing], all_scores[~missing])
    judged = ~unsure[owner]
    empty = lengths == 0
    values = _values(outcomes, top, unsure, empty)
    return DevsetArrays(values, top, unsure, empty, all_scores[judged], owner[judged])


def checked_policy(policy: str) -> Policy:
    for known in POLICIES:
        if policy == known:
            return known
    raise ConfigError(f"policy must be one of {', '.join(POLICIES)}, got {policy!r}")


def _flat_scores(flat: list[Any], lengths: Ints) -> Floats:
    for kind in set(map(type, flat)):
        number = issubclass(kind, (int, float, np.floating, np.integer)) and not issubclass(kind, bool)
        if kind is not type(None) and not number:
            where = next(i for i, score in enumerate(flat) if type(score) is kind)
            raise ConfigError(f"{_name(where, lengths)} must be a float or None, got {flat[where]!r}")
    numbers = np.array(flat, dtype=np.float64)  # None becomes NaN
    wrong = np.flatnonzero(~(np.abs(numbers) <= 1))
    for where in map(int, wrong):
        if flat[where] is not None:
            raise ConfigError(f"{_name(where, lengths)} must be in [-1, 1], got {flat[where]!r}")
    return numbers


def _name(where: int, lengths: Ints) -> str:
    question = int(np.searchsorted(np.cumsum(lengths), where, side="right"))
    return f"scores[{question}][{where - int(lengths[:question].sum())}]"


def _values(outcomes: Sequence[Mapping[Action, float]], top: Floats, unsure: Bools, empty: Bools) -> Floats:
    try:
        columns = [[outcome.get(action, np.nan) for outcome in outcomes] for action in ACTIONS]
        values = np.array(columns, dtype=np.float64).T.copy()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"an outcome must map each Action to a number: {error}") from error
    # What no thresholds can reach need not have been tried: nothing retrieved is INCORRECT, and a passage
    # that could not be judged rules INCORRECT out, and CORRECT too when nothing else was judged.
    needed = np.ones_like(values, dtype=bool)
    needed[unsure, INCORRECT] = False
    needed[unsure & np.isneginf(top), CORRECT] = False
    needed[empty] = np.arange(3) == INCORRECT
    wrong = np.argwhere(needed & ~np.isfinite(values))
    if len(wrong):
        question, column = map(int, wrong[0])
        action = ACTIONS[column]
        found = outcomes[question].get(action, "nothing")
        raise ConfigError(f"outcomes[{question}][{action.value}] must be a finite number, got {found}")
    values[~np.isfinite(values)] = 0.0
    return values
