"""Dividing examples into those to learn from, those to choose by and those to be judged on, without overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.questions.datasets import split
from crag_dspy.optimize.questions.groups import By, groups_of, question_of

HELD_OUT = 0.4  # of the examples, when none are given to be judged on

_PARTS = {"train": "to learn from", "val": "to choose by", "turn": "to judge turns by", "held": "held out"}


@dataclass(frozen=True, slots=True)
class Division:
    """No question is in two of these, and none twice in one.

    turn: by which a turn is judged, where `val` chose what it made.
    notes: what a reader of a result should know: repeated questions, and documents that are in several parts.
    """

    train: list[dspy.Example]
    val: list[dspy.Example]
    held: list[dspy.Example]
    notes: list[str] = field(default_factory=list)
    turn: list[dspy.Example] = field(default_factory=list)

    @property
    def sizes(self) -> dict[str, int]:
        found = {told: len(getattr(self, name)) for name, told in _PARTS.items()}
        return found if self.turn else {told: n for told, n in found.items() if told != _PARTS["turn"]}


def divide(
    trainset: Sequence[dspy.Example],
    valset: Sequence[dspy.Example] | None = None,
    heldout: Sequence[dspy.Example] | None = None,
    *,
    chooses: bool = True,
    turns: bool = False,
    by: By | None = None,
    seed: int = 0,
) -> Division:
    """Use what is given, and take the rest out of `trainset`, whole documents at a time.

    Where the examples are of too few documents for that, single questions are dealt, and the notes say so. A question
    that is repeated counts once.

    Args:
        chooses: whether examples to choose by are needed at all.
        turns: whether others are needed to judge turns by.
        by: what tells documents apart; see `groups_of`.
        seed: of the division.

    Raises:
        ConfigError: too few examples, one without inputs, or a question that is in two of the given parts.
    """
    for name, examples in (("trainset", trainset), ("valset", valset), ("heldout", heldout)):
        if examples is not None and not examples:
            raise ConfigError(f"{name} is empty")
        for number, example in enumerate(examples or []):
            if not isinstance(example, dspy.Example) or not example.toDict() or not _inputs(example):
                raise ConfigError(
                    f"{name}[{number}] must be a dspy.Example with inputs: Example(...).with_inputs('question')"
                )
    notes: list[str] = []
    given = {
        name: _once(examples, _PARTS[name], notes)
        for name, examples in (("train", trainset), ("val", valset), ("held", heldout))
        if examples is not None
    }
    _check_apart(given)
    needed = ["train", *(["val"] if chooses and valset is None else []), *(["turn"] if turns else [])]
    shares = dict.fromkeys(needed, 1 / len(needed))
    if heldout is None:
        shares = {name: share * (1 - HELD_OUT) for name, share in shares.items()} | {"held": HELD_OUT}
    examples = given.pop("train")
    if len(examples) < 2 * len(shares):
        raise ConfigError(
            f"{len(examples)} examples are too few to divide into {', '.join(shares)}: give more, or pass heldout="
        )
    parts = {**_dealt(examples, shares, by, seed, notes), **given}
    if given:
        _note_shared_documents(parts, by, notes)
    return Division(parts["train"], parts.get("val", []), parts["held"], notes, parts.get("turn", []))


def _dealt(
    examples: list[dspy.Example], shares: Mapping[str, float], by: By | None, seed: int, notes: list[str]
) -> dict[str, list[dspy.Example]]:
    if len(shares) == 1:
        return {"train": examples}
    groups = groups_of(examples, by)
    if groups is None:
        return split(examples, shares, seed=seed, by=_asked)
    group = {id(example): name for example, name in zip(examples, groups, strict=True)}
    try:
        parts = split(examples, shares, seed=seed, by=lambda example: group[id(example)])
    except ConfigError:  # fewer documents than parts
        parts = {}
    if parts and all(len(parts[name]) >= len(examples) * share / 2 for name, share in shares.items()):
        return parts
    notes.append(
        f"the {len(examples)} questions are of {len(set(groups))} documents, which cannot be dealt whole into "
        f"{', '.join(_PARTS[name] for name in shares)}: questions of one document are in several parts, so the "
        f"held-out score may flatter the new program; pass heldout= of other documents"
    )
    return split(examples, shares, seed=seed, by=_asked)


def _once(examples: Sequence[dspy.Example], part: str, notes: list[str]) -> list[dspy.Example]:
    """The first of those that ask the same."""
    first: dict[str, dspy.Example] = {}
    for example in examples:
        first.setdefault(_asked(example), example)
    if len(first) < len(examples):
        notes.append(f"{len(examples) - len(first)} repeated questions of those {part} count once")
    return list(first.values())


def _asked(example: dspy.Example) -> str:
    """All inputs, as far as they matter: the same question on another text is another one."""
    others = {name: value for name, value in example.inputs().items() if name != "question"}
    return question_of(example) + (f" {sorted(others.items())}" if others and "question" in example else "")


def _inputs(example: dspy.Example) -> list[str]:
    try:
        return list(example.inputs().keys())
    except ValueError:
        return []


def _check_apart(given: Mapping[str, Sequence[dspy.Example]]) -> None:
    seen: dict[str, str] = {}
    for name, examples in given.items():
        for example in examples:
            other = seen.setdefault(_asked(example), name)
            if other != name:
                raise ConfigError(
                    f"the question {str(example.get('question', _asked(example)))[:80]!r} is both {_PARTS[other]} and "
                    f"{_PARTS[name]}, so a score on it would not be one: leave it out of one of them"
                )


def _note_shared_documents(
    parts: Mapping[str, Sequence[dspy.Example]], by: By | None, notes: list[str]
) -> None:
    """Of given parts nothing is moved; but whoever reads the result should know what they share."""
    everything = [(name, example) for name, examples in parts.items() for example in examples]
    groups = groups_of([example for _, example in everything], by)
    if groups is None:
        return
    within: dict[str, set[str]] = {}
    for (name, _), group in zip(everything, groups, strict=True):
        within.setdefault(group, set()).add(name)
    shared = sum("held" in names and len(names) > 1 for names in within.values())
    if shared:
        notes.append(
            f"{shared} of {sum('held' in names for names in within.values())} documents of the held-out questions are "
            f"also of questions to learn from or to choose by: what was learned of a document may help on it"
        )
