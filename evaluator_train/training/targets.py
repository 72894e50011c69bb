"""What a grader is trained towards: pairs whose label may be soft, a probability instead of a verdict.

A teacher's opinion of any two texts costs nothing and says more than 0 or 1 does.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.pair_files import check_words, read_rows, soft_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Target:
    """A question, a text, and the probability that the text is relevant, in [0, 1]."""

    question: str
    text: str
    label: float

    def __post_init__(self) -> None:
        check_words(self.question, self.text)
        object.__setattr__(self, "label", soft_label(self.label))


def read_targets(path: Path | str) -> list[Target]:
    """The pairs of a file in any layout of `pair_files`; labels are numbers in [0, 1], or verdicts."""
    found: list[Target] = read_rows(
        path, lambda question, text, label, source, doc: Target(question, text, label)
    )
    return found


def split_by_question(targets: Sequence[Target], share: float) -> tuple[list[Target], list[Target]]:
    """(train, dev): about `share` of the questions, whole, go to dev; the same ones on every machine."""

    def in_dev(question: str) -> bool:
        digest = hashlib.sha256(question.encode()).digest()
        return int.from_bytes(digest[:8], "big") / 2**64 < share

    dev = [target for target in targets if in_dev(target.question)]
    return [target for target in targets if not in_dev(target.question)], dev


def targets_digest(targets: Iterable[Target]) -> str:
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
