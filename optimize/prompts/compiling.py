"""One call to improve a program, and an honest answer to whether it did.

    compiled = compile_program(crag, trainset, contains_word, optimizer="mipro", budget=600)
    print(compiled)              # held-out quality before and after, with intervals, and what is kept
    compiled.program.save("crag.json")

Examples are divided so that no question is used twice: the optimizer learns from some and chooses by others, and the
held-out rest is asked before and after. A program that is not better beyond noise is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import dspy

from crag_dspy.optimize.metrics.objective import metric_name
from crag_dspy.optimize.metrics.score import Metric
from crag_dspy.optimize.prompts.alternate import alternated
from crag_dspy.optimize.prompts.arguments import CompileArguments
from crag_dspy.optimize.prompts.estimate import Estimate, estimated
from crag_dspy.optimize.prompts.folder import finish, opened, store_candidate, stored_candidate
from crag_dspy.optimize.prompts.job import CompileJob
from crag_dspy.optimize.prompts.judging import judged
from crag_dspy.optimize.prompts.optimizing import optimized
from crag_dspy.optimize.report.page import write_report
from crag_dspy.optimize.runs.cap import capped
from crag_dspy.optimize.statistics.differences import PairedDifference
from crag_dspy.optimize.statistics.intervals import MeanInterval
from crag_dspy.optimize.statistics.wording import shown_p, told_groups, told_power
from crag_dspy.state.plain import Plain


@dataclass(frozen=True)
class Compiled(Plain):
    """What came of compiling.

    Attributes:
        program: the one to use: the new one when it is better beyond noise, else the one that was given.
        candidate: the new one in either case; None when the optimizer produced none.
        improved: whether `program` is the new one.
        before, after: held-out quality, a mean with its interval. `after` is None without a candidate.
        change: the paired comparison of the two, on the questions that did not fail before: an outage is no fault of
            the old program. None without a candidate, or when all failed.
        failures: held-out questions that failed before and after. They count as not right, and the same run in its
            folder asks them again.
        lm_calls: made in all, by what they were for. Replies from DSPy's cache are not counted.
        note: what the intervals are over.
        notes: what else a reader of the result should know.
    """

    SHOWN: ClassVar[str] = (
        "predictors metric seed improved before after change verdict failures estimate lm_calls note notes"
    )

    program: dspy.Module
    candidate: dspy.Module | None
    improved: bool
    before: MeanInterval
    after: MeanInterval | None
    change: PairedDifference | None
    estimate: Estimate
    lm_calls: Mapping[str, int]
    predictors: Sequence[str]
    metric: str
    seed: int
    failures: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def verdict(self) -> str:
        """In one sentence: what happened, and which program is kept."""
        if self.after is None:
            return "There is no new program: the old one is kept."
        if self.change is None:
            return "Every held-out question failed, so nothing is judged: the old program is kept."
        moved = f"{self.change.difference:+.3f} [{self.change.low:+.3f}, {self.change.high:+.3f}]"
        told = f"{moved}, p {shown_p(self.change.p_value)}, {self.change.better} better, {self.change.worse} worse"
        if self.improved:
            return f"Better beyond noise ({told}): the new program is kept."
        return f"Not better beyond noise ({told}; {told_power(self.change)}): the old program is kept."

    def __str__(self) -> str:
        lines = [
            f"{self.estimate.optimizer} compiled {', '.join(self.predictors)}",
            f"held-out {self.metric} on {self.before.n} questions",
            f"  before {self.before}",
            f"  after  {self.after if self.after is not None else 'no new program'}",
            self.verdict,
            *self._failed(),
            self.note,
            f"LM calls: {sum(self.lm_calls.values())} ({', '.join(f'{k} {v}' for k, v in self.lm_calls.items())})",
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _failed(self) -> list[str]:
        if not any(self.failures.values()):
            return []
        told = ", ".join(f"{when} {count}" for when, count in self.failures.items())
        return [f"failed: {told}; these questions count as not right; run the same again to ask them again"]

    def to_json(self) -> dict[str, Any]:
        return {"optimizer": self.estimate.optimizer, **super().to_json()}


def compile_program(
    program: dspy.Module,
    trainset: Sequence[dspy.Example],
    metric: Metric,
    arguments: CompileArguments | None = None,
    **changed: Any,
) -> Compiled:
    """Improve a program by examples and a metric. The program that is given is never changed.

    Args:
        program: any DSPy program; one that is compiled already is compiled further.
        trainset: what `division.divide` divides. Each example has its inputs marked and what the metric reads.
        metric: one of `metrics`, or any function of (example, prediction) and optionally (trace, pred_name,
            pred_trace).
        arguments, changed: how; see `CompileArguments`. `compile_program(crag, train, metric, optimizer="mipro")`.

    Raises:
        ConfigError: before any LM call: no language model, a wrong name or option, too few examples, or a budget that
            does not suffice, saying what would.
        StaleOutcomesError: `run` has results of another program, optimizer, metric or data.
        OptimizerError: the optimizer failed, with the cause.
        BudgetSpentError: the calls did not suffice for the judging, or a cap around the call is spent. What was paid
            for is in `run`, and the same call goes on from there.
    """
    return compile_job(CompileJob(program, trainset, metric, _arguments(arguments, changed)))


def compile_job(job: CompileJob) -> Compiled:
    """Do what was asked for, and judge it."""
    given = job.arguments
    job.check_models()
    told = estimated(job)  # raises before anything is spent
    with opened(job, told.optimizer) as run, capped(job.cap):
        before = judged(job, job.program, "before")
        candidate = stored_candidate(given.folder, job.program)
        if candidate is not None:
            job.notes.append(f"the new program is the one that an earlier run left in {given.folder}")
        else:
            candidate = alternated(job, run) if given.alternate else optimized(job, job.program, job.share)
            if candidate is not None:
                store_candidate(given.folder, candidate)
        after = None if candidate is None else judged(job, candidate, "after")
    judged_on = [place for place, row in enumerate(before.rows) if not row["error"]]
    change = None
    if after is not None and judged_on:
        change = after.chosen(judged_on).compared_with(before.chosen(judged_on), level=given.level)
    improved = change is not None and change.improved
    compiled = Compiled(
        program=candidate if improved and candidate is not None else job.program,
        candidate=candidate,
        improved=improved,
        before=before.interval(level=given.level),
        after=after.interval(level=given.level) if after is not None else None,
        change=change,
        estimate=told,
        lm_calls=dict(job.calls),
        predictors=tuple(job.names),
        metric=metric_name(job.metric),
        seed=given.seed,
        failures={
            "before": len(before.failures),
            **({} if after is None else {"after": len(after.failures)}),
        },
        note=told_groups(len(before.rows), before.groups),
        notes=tuple(job.notes),
    )
    finish(given.folder, compiled.program, compiled.to_json())
    if given.folder is not None:
        write_report(given.folder)
    return compiled


def estimate(
    program: dspy.Module,
    trainset: Sequence[dspy.Example],
    metric: Metric,
    arguments: CompileArguments | None = None,
    **changed: Any,
) -> Estimate:
    """What `compile_program` with the same arguments may cost at most. Calls no language model and no web search."""
    return estimated(CompileJob(program, trainset, metric, _arguments(arguments, changed)))


def _arguments(given: CompileArguments | None, changed: Mapping[str, Any]) -> CompileArguments:
    return replace(given or CompileArguments(), **changed)
