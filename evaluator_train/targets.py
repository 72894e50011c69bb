"""What a grader is trained towards: pairs whose label may be soft, a probability instead of a verdict.

A teacher's opinion of any two texts costs nothing and says more than 0 or 1 does.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Target:
    """A question, a text, and the probability that the text is relevant, in [0, 1]."""

    question: str
    text: str
    label: float

    def __post_init__(self) -> None:
        for name in ("question", "text"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise ConfigError(f"{name} must be a text that is not empty, got {value!r}")
        label = self.label
        if isinstance(label, bool) or not isinstance(label, int | float) or not 0 <= label <= 1:
            raise ConfigError(f"label must be a number in [0, 1], got {label!r}: 1 is relevant, 0 is not")


def read_targets(path: Path | str) -> list[Target]:
    """The pairs of a file. JSONL labels are any numbers in [0, 1]; for the other layouts see `pair_files`."""
    from crag_dspy.evaluator_train.pair_files import read_pairs

    file = Path(path)
    if file.suffix != ".jsonl" or not file.is_file():
        return [Target(pair.question, pair.text, float(pair.label)) for pair in read_pairs(file)]
    targets = []
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                targets.append(_target(file.name, number, line))
    if not targets:
        raise ConfigError(f"{file.name}: holds no pairs: expected lines of question, text and label")
    return targets


def _target(name: str, number: int, line: str) -> Target:
    try:
        row: Any = json.loads(line)
        return Target(row["question"], row["text"], row["label"])
    except (ValueError, TypeError, KeyError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ConfigError(f"{name}:{number}: {problem}") from error


def split_by_question(targets: Sequence[Target], share: float) -> tuple[list[Target], list[Target]]:
    """(train, dev): about `share` of the questions, whole, go to dev; the same ones on every machine."""

    def in_dev(question: str) -> bool:
        digest = hashlib.sha256(question.encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64 < share

    dev = [target for target in targets if in_dev(target.question)]
    return [target for target in targets if not in_dev(target.question)], dev


def digest(targets: Iterable[Target]) -> str:
    """Of the pairs in their order: what a run was trained on, whatever file they came from."""
    found = hashlib.sha256()
    for target in targets:
        found.update(json.dumps([target.question, target.text, target.label]).encode())
    return found.hexdigest()[:16]


def hard_labels(targets: Sequence[Target]) -> list[int]:
    """0 or 1 for each, for AUC; ConfigError unless both are there."""
    labels = [int(target.label >= 0.5) for target in targets]
    if len(set(labels)) < 2 or any(math.isnan(target.label) for target in targets):
        raise ConfigError(
            "development pairs must hold both relevant (label 1) and irrelevant (label 0) texts"
        )
    return labels
