"""The four kinds of task of the paper: what answers them, how they are judged, and what support means there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.measures import never_unsupported, unsupported, unsupported_sentences
from crag_dspy.signatures.answer import ChoiceAnswer, ClaimCheck, LongAnswer, ShortAnswer
from crag_dspy.state.arguments import check_choice

if TYPE_CHECKING:
    from crag_dspy.crag import CRAG


@dataclass(frozen=True)
class Task:
    """A kind of task.

    Attributes:
        signature: of the generator.
        metric: name of the metric in `METRICS`.
        support: a measure that is 1 for an answer without support.
    """

    name: str
    signature: Any
    metric: str
    support: Callable[..., float]

    def program(self, crag: CRAG) -> CRAG:
        """A copy of `crag` that answers this kind of task; the same where it does already, with its demonstrations."""
        copy: CRAG = crag.deepcopy()
        signature = getattr(crag.generate, "signature", None)
        if signature is None or not signature.equals(self.signature):
            copy.generate = dspy.Predict(self.signature)
        return copy


TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task("short", ShortAnswer, "contains_word", unsupported),  # PopQA
        Task("claim", ClaimCheck, "claim_accuracy", never_unsupported),  # PubHealth
        Task("choice", ChoiceAnswer, "choice_accuracy", never_unsupported),  # ARC-Challenge
        Task(
            "long", LongAnswer, "grounded", unsupported_sentences
        ),  # Biography; FActScore where there is a judge
    )
}


def read_task(given: str) -> tuple[str, str | None]:
    """(task, file) of "claim:pubhealth.jsonl", or (task, None) of "claim". Raises ConfigError for another task."""
    name, _, path = given.partition(":")
    check_choice("a task", name, list(TASKS))
    if given.endswith(":"):
        raise ConfigError(f"{given!r} names no file: write {name}:FILE, or {name} alone")
    return name, path or None
