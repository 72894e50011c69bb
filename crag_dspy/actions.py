"""From scores to an action: the decision at the heart of corrective retrieval (arXiv 2401.15884, section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, get_args

from crag_dspy.errors import ConfigError

Policy = Literal["max", "vote"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
# Which actions may be taken: all three, all but one, or one alone.
Allowed = Literal["all", "no_correct", "no_incorrect", "no_ambiguous", "correct", "incorrect", "ambiguous"]
ALLOWED: tuple[Allowed, ...] = get_args(Allowed)


class Action(StrEnum):
    """What to do with what was retrieved."""

    CORRECT = "correct"  # keep the relevant strips of the passages
    INCORRECT = "incorrect"  # drop the passages, search the web instead
    AMBIGUOUS = "ambiguous"  # both, side by side


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Two cuts of the grader's scale, -1 <= lower <= upper <= 1.

    The paper's, for its T5-large grader: 0.59 / -0.99 on PopQA, 0.5 / -0.91 on PubHealth and ARC-Challenge. They mean
    nothing on another grader's scale, which is why a program stores the grader they were tuned on.
    """

    upper: float = 0.59
    lower: float = -0.99

    def __post_init__(self) -> None:
        for name in ("upper", "lower"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ConfigError(
                    f"{name} must be a number in [-1, 1], got {value!r} ({type(value).__name__})"
                )
            if not -1 <= value <= 1:  # also false for NaN
                raise ConfigError(
                    f"{name} must be in [-1, 1], got {value!r}: scores are signed, -1 is irrelevant"
                )
            object.__setattr__(self, name, float(value))
        if self.lower > self.upper:
            raise ConfigError(
                f"lower must not be above upper, got lower={self.lower}, upper={self.upper}: "
                f"swap them, or write the lower one as a negative number ({-self.lower})"
            )


def decide(
    scores: Sequence[float | None],
    thresholds: Thresholds,
    policy: Policy | str = "max",
    allowed: Allowed | str = "all",
) -> Action:
    """Choose the action for one question from the scores of its passages.

    Args:
        scores: one a passage, each in [-1, 1], or None where the grader could not judge.
        thresholds: the two cuts; a score equal to a cut is on its outer side.
        policy: "max" (the paper): the best passage decides. "vote": every passage is judged by the same two cuts;
            correct when some is correct and none is ambiguous, incorrect when none is correct.
        allowed: the actions there are; "all", or for ablations as in the paper's section 5.5: "no_correct" and
            "no_incorrect" make it AMBIGUOUS instead; "no_ambiguous" has one cut, in the middle of the two, and
            searches where nothing could be judged; "correct", "incorrect" or "ambiguous" is always that.

    Returns:
        INCORRECT when there is no passage at all. A None is never read as relevant or irrelevant: it leaves CORRECT
        alone under "max", and makes everything else AMBIGUOUS.
    """
    if policy not in POLICIES:
        raise ConfigError(f"policy must be one of {', '.join(POLICIES)}, got {policy!r}")
    if allowed != "all":
        return _restricted(scores, thresholds, policy, allowed)
    known = [_checked(score) for score in scores if score is not None]
    if len(known) < len(scores):
        sure = policy == "max" and any(score >= thresholds.upper for score in known)
        return Action.CORRECT if sure else Action.AMBIGUOUS
    if not known:
        return Action.INCORRECT
    if policy == "max":
        best = max(known)
        if best >= thresholds.upper:
            return Action.CORRECT
        return Action.INCORRECT if best <= thresholds.lower else Action.AMBIGUOUS
    if not any(score >= thresholds.upper for score in known):
        return Action.INCORRECT
    unsure = any(thresholds.lower < score < thresholds.upper for score in known)
    return Action.AMBIGUOUS if unsure else Action.CORRECT


def _restricted(
    scores: Sequence[float | None], thresholds: Thresholds, policy: Policy | str, allowed: str
) -> Action:
    if allowed not in ALLOWED:
        raise ConfigError(f"allowed must be one of {', '.join(ALLOWED)}, got {allowed!r}")
    if not allowed.startswith("no_"):
        return Action(allowed)
    missing = Action(allowed.removeprefix("no_"))
    if missing is Action.AMBIGUOUS:
        middle = (thresholds.upper + thresholds.lower) / 2
        action = decide(scores, Thresholds(middle, middle), policy)
        return Action.INCORRECT if action is missing else action  # not judged is never taken for relevant
    action = decide(scores, thresholds, policy)
    return Action.AMBIGUOUS if action is missing else action


def _checked(score: Any) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)) or math.isnan(score) or abs(score) > 1:
        raise ConfigError(f"a score must be a float in [-1, 1] or None, got {score!r}")
    return float(score)
