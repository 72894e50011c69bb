"""Dividing examples into those to learn from, those to choose by and those to be judged on, without overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.questions.datasets import split
from crag_dspy.text.matching import normalize

HELD_OUT = 0.4  # of the examples, when none are given to be judged on


@dataclass(frozen=True, slots=True)
class Division:
    """No question is in two of these."""

    train: list[dspy.Example]
    val: list[dspy.Example]
    held: list[dspy.Example]

    @property
    def sizes(self) -> dict[str, int]:
        return {"to learn from": len(self.train), "to choose by": len(self.val), "held out": len(self.held)}


def divide(
    trainset: Sequence[dspy.Example],
    valset: Sequence[dspy.Example] | None = None,
    heldout: Sequence[dspy.Example] | None = None,
    *,
    chooses: bool = True,
    seed: int = 0,
) -> Division:
    """Use what is given, and take the rest out of `trainset`, whole documents at a time.

    Args:
        chooses: whether examples to choose by are needed at all.
        seed: of the division.

    Raises:
        ConfigError: too few examples, one without inputs, or a question that is in two parts.
    """
    for name, examples in (("trainset", trainset), ("valset", valset), ("heldout", heldout)):
        if examples is not None and not examples:
            raise ConfigError(f"{name} is empty")
        for number, example in enumerate(examples or []):
            if not isinstance(example, dspy.Example) or not example.toDict() or not _inputs(example):
                raise ConfigError(
                    f"{name}[{number}] must be a dspy.Example with inputs: Example(...).with_inputs('question')"
                )
    shares = {"train": 1.0}
    if chooses and valset is None:
        shares = {"train": 0.5, "val": 0.5}
    if heldout is None:
        shares = {name: share * (1 - HELD_OUT) for name, share in shares.items()} | {"held": HELD_OUT}
    if len(trainset) < 2 * len(shares):
        raise ConfigError(
            f"{len(trainset)} examples are too few to divide into {', '.join(shares)}: give more, or pass heldout="
        )
    parts = {"train": list(trainset)} if len(shares) == 1 else _split(trainset, shares, seed)
    division = Division(
        parts["train"],
        list(valset) if valset is not None else parts.get("val", []),
        list(heldout) if heldout is not None else parts["held"],
    )
    _check_apart(division)
    return division


def _split(
    examples: Sequence[dspy.Example], shares: dict[str, float], seed: int
) -> dict[str, list[dspy.Example]]:
    try:
        return split(examples, shares, seed=seed)
    except ConfigError:  # all from one or two documents
        return split(examples, shares, seed=seed, by=None)


def _inputs(example: dspy.Example) -> list[str]:
    try:
        return list(example.inputs().keys())
    except ValueError:
        return []


def _check_apart(division: Division) -> None:
    seen: dict[str, str] = {}
    for name, examples in (
        ("held out", division.held),
        ("to learn from", division.train),
        ("to choose by", division.val),
    ):
        for example in examples:
            question = normalize(str(example.get("question", dict(example.inputs().items()))))
            if seen.setdefault(question, name) == "held out" and name != "held out":
                raise ConfigError(
                    f"the question {str(example.get('question', question))[:80]!r} is both {name} and held out, so the "
                    f"held-out score would not be one: leave it out of one of them, or leave heldout away"
                )
