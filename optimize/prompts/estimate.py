"""What compiling will cost in LM calls, told before any is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from crag_dspy.optimize.prompts.dry_run import CallsAQuestion
from crag_dspy.state.plain import Plain


@dataclass(frozen=True)
class Estimate(Plain):
    """LM calls: the most program runs that the optimizer may make, times what a question takes on average.

    Attributes:
        parts: the calls by what they are for; None where the optimizer is not one of ours to judge.
        a_question: calls and prompt tokens of one question, by a run without language models.
        sizes: how large the optimizer is planned.
        questions: how many examples it learns from, chooses by, and is judged on.
    """

    SHOWN: ClassVar[str] = "optimizer sizes lm_calls parts prompt_tokens questions budget"

    optimizer: str
    parts: Mapping[str, int | None]
    a_question: CallsAQuestion
    sizes: Mapping[str, Any]
    questions: Mapping[str, int]
    budget: int | None = None

    @property
    def lm_calls(self) -> int | None:
        """In all; None when a part is unknown."""
        known = [calls for calls in self.parts.values() if calls is not None]
        return sum(known) if len(known) == len(self.parts) else None

    @property
    def prompt_tokens(self) -> int | None:
        """About how many tokens all prompts have; demonstrations that are added make them longer."""
        if self.lm_calls is None or not self.a_question.mean:
            return None
        return round(self.lm_calls * self.a_question.tokens / self.a_question.mean)

    def __str__(self) -> str:
        total = "an unknown number of" if self.lm_calls is None else f"up to about {self.lm_calls:,}"
        parts = ", ".join(
            f"{name} {'?' if calls is None else f'{calls:,}'}" for name, calls in self.parts.items()
        )
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        questions = ", ".join(f"{count} {name}" for name, count in self.questions.items())
        tokens = f", about {self.prompt_tokens:,} prompt tokens" if self.prompt_tokens else ""
        budget = "" if self.budget is None else f" of a budget of {self.budget:,}"
        return (
            f"{self.optimizer}({sizes}), {questions}: {total} LM calls{budget} ({parts}{tokens}; "
            f"{self.a_question.mean:.1f} calls a question)"
        )

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "calls_a_question": self.a_question.mean}
