"""The labels of pairs, as what trains needs them and as what measures does; and which pairs they are."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crag_dspy.evaluator_train.pairs.pair_files import Pair


def soft_labels(pairs: Sequence[Pair], name: str) -> list[float]:
    """Each in [0, 1]; ConfigError with `name` at the first pair that nobody has judged."""
    unjudged = next((pair for pair in pairs if pair.label is None), None)
    if unjudged is not None:
        raise ConfigError(
            f"{name}: a pair of the question {unjudged.question[:60]!r} has no label: let a teacher judge it "
            "(crag-dspy grader pairs --teacher), or leave it out"
        )
    return [float(pair.label or 0) for pair in pairs]


def verdicts(pairs: Sequence[Pair], name: str, *, rounded: bool = False) -> list[int]:
    """Each 0 or 1, with both among them: else nothing can be ranked, and ConfigError says so with `name`.

    rounded: soft labels count as relevant from 0.5 on; without it they are refused.
    """
    labels = soft_labels(pairs, name)
    soft = next((label for label in labels if label not in (0, 1)), None)
    if soft is not None and not rounded:
        raise ConfigError(f"{name}: labels must be verdicts, 0 or 1, got {soft!r}")
    found = [int(label >= 0.5) for label in labels]
    if len(set(found)) < 2:
        held = f"only label {found[0]}" if found else "no pairs"
        raise ConfigError(f"{name}: holds {held}: relevant and irrelevant texts are both needed")
    return found


def pairs_digest(pairs: Iterable[Pair]) -> str:
    """Of the pairs in their order: what a run was trained on, whatever file they came from."""
    found = hashlib.sha256()
    for pair in pairs:
        found.update(json.dumps([pair.question, pair.text, pair.label]).encode())
    return found.hexdigest()[:16]
