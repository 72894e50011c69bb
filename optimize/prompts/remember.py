"""What does not depend on the prompts is worked out once: retrieval, grades and searches, shared by all candidates.

An optimizer runs the same questions through dozens of copies of a program. Their prompts differ; the passages, and
what the grader says of them, do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from crag_dspy.contracts import Grader
from crag_dspy.live.held import Held
from crag_dspy.passages import Passage, as_passages
from crag_dspy.steps import Grade, Retrieve, Search


class Remembered(Held):
    """A retriever or web search that is asked the same thing once. What fails is asked again."""

    def __init__(self, part: Any) -> None:
        self.part = part
        self.known: dict[tuple[str, int], list[Passage]] = {}

    def __call__(self, query: str, k: int) -> list[Passage]:
        if (query, k) not in self.known:
            self.known[query, k] = as_passages(self.part(query, k))
        return list(self.known[query, k])


class RememberedGrader(Held):
    """A grader that is asked about a pair of question and text once."""

    def __init__(self, part: Grader) -> None:
        self.part = part
        self.known: dict[tuple[str, str], float | None] = {}

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def fingerprint(self) -> str:
        return self.part.fingerprint

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        new = [text for text in dict.fromkeys(texts) if (question, text) not in self.known]
        if new:
            for text, score in zip(new, self.part.score(question, new), strict=True):
                self.known[question, text] = score
        return [self.known[question, text] for text in texts]


def remember(program: dspy.Module) -> None:
    """Make the live parts of a program remember. A grader whose own prompt is being compiled is left alone."""
    for step in _steps(program):
        if isinstance(step, Grade):
            learns = isinstance(step.part, dspy.Module) and step.part.named_predictors()
            step.part = step.part if learns else RememberedGrader(step.part)
        else:
            step.part = Remembered(step.part)


def _steps(program: dspy.Module) -> list[Any]:
    found = [module for _, module in program.named_sub_modules(dspy.Module)]
    return [module for module in found if isinstance(module, (Retrieve, Grade, Search))]
