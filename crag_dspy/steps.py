"""The live parts as small modules: each shows up as a span of its own in DSPy callbacks and MLflow traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dspy

from crag_dspy.contracts import Grader, Retriever, WebSearch
from crag_dspy.flow import in_thread
from crag_dspy.passages import Passage, as_passages


class Retrieve(dspy.Module):
    """Passages for a query, best first, without empty ones and exact repeats."""

    def __init__(self, part: Retriever) -> None:
        super().__init__()
        self.part = part

    def forward(self, query: str, k: int) -> list[Passage]:
        return _distinct(self.part(query, k))[:k]

    async def aforward(self, query: str, k: int) -> list[Passage]:
        return _distinct(await _acall(self.part, query, k))[:k]


class Search(dspy.Module):
    """Web pages for a query."""

    def __init__(self, part: WebSearch) -> None:
        super().__init__()
        self.part = part

    def forward(self, query: str, max_results: int) -> list[Passage]:
        return _distinct(self.part(query, max_results))[:max_results]

    async def aforward(self, query: str, max_results: int) -> list[Passage]:
        return _distinct(await _acall(self.part, query, max_results))[:max_results]


class Grade(dspy.Module):
    """One score in [-1, 1] a text, or None where the grader could not judge."""

    def __init__(self, part: Grader) -> None:
        super().__init__()
        self.part = part

    def forward(self, question: str, texts: Sequence[str]) -> list[float | None]:
        return _bounded(self.part.score(question, texts), len(texts), self.part)

    async def aforward(self, question: str, texts: Sequence[str]) -> list[float | None]:
        scores = await in_thread(self.part.score, question, texts)
        return _bounded(scores, len(texts), self.part)


async def _acall(part: Any, *arguments: Any) -> Any:
    if hasattr(part, "acall"):
        return await part.acall(*arguments)
    return await in_thread(part, *arguments)


# A page that is longer is cut: grading it would take minutes, and nothing that long is one passage.
MAX_CHARACTERS = 200_000


def _distinct(result: Any) -> list[Passage]:
    seen, passages = set(), []
    for found in as_passages(result):
        too_long = len(found.text) > MAX_CHARACTERS
        passage = replace(found, text=found.text[:MAX_CHARACTERS]) if too_long else found
        key = " ".join(passage.text.split())
        if key not in seen:
            seen.add(key)
            passages.append(passage)
    return passages


def _bounded(scores: Any, expected: int, grader: Grader) -> list[float | None]:
    """Hold a grader to its contract: its mistakes must not become decisions."""
    scores = list(scores)
    if len(scores) != expected:
        raise ValueError(
            f"grader {grader.name!r} gave {len(scores)} scores for {expected} texts: one a text is due"
        )
    checked: list[float | None] = []
    for score in scores:
        number = None if score is None else float(score)
        # NaN is a failure to judge; a value outside the scale is cut to it.
        checked.append(None if number is None or number != number else max(-1.0, min(1.0, number)))
    return checked
