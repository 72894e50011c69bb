"""What compiling may take at most, told before any language model is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from crag_dspy.optimize.prompts.alternate import fitting_turns, runs_of_measuring
from crag_dspy.optimize.prompts.job import CompileJob
from crag_dspy.state.plain import Plain

PROPOSAL_TOKENS = (
    4000  # of a call by which an optimizer has an instruction written: it reads code and examples
)


@dataclass(frozen=True)
class Estimate(Plain):
    """An upper bound of LM calls, tokens and web searches.

    Every question is taken to need as much as the neediest that was tried without a language model. Not in it: replies
    that cannot be read and are asked for again, and the calls of a metric that is a judge; under a budget they count,
    and the whole is not more than the budget.

    Attributes:
        parts: the calls by what they are for; None for a ready-made optimizer, whose size only a budget bounds.
        tokens: in and out, with as many demonstrations as the optimizer may add.
        searches: of the web.
        sizes: how large the optimizer is planned.
        questions: how many examples it learns from, chooses by, and is judged on.
    """

    SHOWN: ClassVar[str] = "optimizer lm_calls tokens searches parts sizes questions budget"

    optimizer: str
    parts: Mapping[str, int | None]
    tokens: int | None
    searches: int | None
    sizes: Mapping[str, Any]
    questions: Mapping[str, int]
    budget: int | None = None

    @property
    def lm_calls(self) -> int | None:
        """In all; None when nothing bounds them."""
        known = [calls for calls in self.parts.values() if calls is not None]
        total = sum(known) if len(known) == len(self.parts) else None
        return total if self.budget is None else min(self.budget, total or self.budget)

    def __str__(self) -> str:
        bounds = [
            "an unknown number of" if bound is None else f"at most {bound:,}"
            for bound in (self.lm_calls, self.tokens, self.searches)
        ]
        parts = ", ".join(
            f"{name} {'?' if calls is None else f'{calls:,}'}" for name, calls in self.parts.items()
        )
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        questions = ", ".join(f"{count} {name}" for name, count in self.questions.items())
        budget = "" if self.budget is None else f" of a budget of {self.budget:,}"
        return (
            f"{self.optimizer}({sizes}), {questions}: {bounds[0]} LM calls{budget} ({parts}), {bounds[1]} tokens, "
            f"{bounds[2]} web searches"
        )


def estimated(job: CompileJob) -> Estimate:
    """What the job may take. Raises `ConfigError` when its budget does not suffice."""
    share, learned, held = job.share, job.a_question, job.a_held_question
    turns, plan = fitting_turns(job, share) if job.arguments.alternate else (1, job.plan(share))
    measuring = turns * runs_of_measuring(job) + len(job.turn) if job.arguments.alternate else 0
    optimizing = plan.calls(learned.most)
    parts: dict[str, int | None] = {
        "judging before": job.judging,
        "optimizing": None if optimizing is None else turns * optimizing,
        "thresholds and choosing": measuring * learned.most,
        "judging after": job.judging,
    }
    if not measuring:
        del parts["thresholds and choosing"]
    tokens = searches = None
    if plan.runs is not None:
        runs, judged = turns * plan.runs + measuring, 2 * len(job.division.held)
        shots = 1 + max(
            int(plan.options.get(name) or 0) for name in ("max_bootstrapped_demos", "max_demos", "k")
        )
        proposals = turns * plan.own_calls * PROPOSAL_TOKENS
        tokens = shots * (runs * learned.tokens + judged * held.tokens) + proposals
        searches = runs * learned.searches + judged * held.searches
    return Estimate(plan.name, parts, tokens, searches, plan.shown, job.division.sizes, job.arguments.budget)
