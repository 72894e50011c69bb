"""One call to improve a program, and an honest answer to whether it did.

    compiled = compile_program(crag, trainset, contains_word, optimizer="mipro", budget=600)
    print(compiled)              # held-out quality before and after, with intervals, and what is kept
    compiled.program.save("crag.json")

Examples are divided so that no question is used twice: the optimizer learns from some and chooses by others, and the
held-out rest is asked before and after. A program that is not better beyond noise is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import dspy

from crag_dspy.optimize.metrics.objective import metric_name
from crag_dspy.optimize.prompts.estimate import Estimate
from crag_dspy.optimize.prompts.folder import finish
from crag_dspy.optimize.prompts.job import CompileJob
from crag_dspy.optimize.report.page import write_report
from crag_dspy.optimize.statistics.differences import PairedDifference
from crag_dspy.optimize.statistics.intervals import MeanInterval
from crag_dspy.optimize.statistics.wording import shown_p, told_power
from crag_dspy.state.plain import Plain


@dataclass(frozen=True)
class Compiled(Plain):
    """What came of compiling.

    Attributes:
        program: the one to use: the new one when it is better beyond noise, else the one that was given.
        candidate: the new one in either case; None when the optimizer produced none.
        improved: whether `program` is the new one.
        before, after: held-out quality, a mean with its interval. `after` is None without a candidate.
        change: the paired comparison of the two, on the same questions.
        lm_calls: made in all, by what they were for. Replies from DSPy's cache are not counted.
        notes: what a reader of the result should know.
    """

    SHOWN: ClassVar[str] = (
        "predictors metric seed improved before after change verdict estimate lm_calls notes"
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
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def verdict(self) -> str:
        """In one sentence: what happened, and which program is kept."""
        if self.change is None or self.after is None:
            return "There is no new program: the old one is kept."
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
            f"LM calls: {sum(self.lm_calls.values())} ({', '.join(f'{k} {v}' for k, v in self.lm_calls.items())})",
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def to_json(self) -> dict[str, Any]:
        return {"optimizer": self.estimate.optimizer, **super().to_json()}


def compile_program(
    program: dspy.Module,
    trainset: Sequence[dspy.Example],
    metric: Callable[..., Any],
    *,
    optimizer: Any = "bootstrap",
    predictors: Iterable[str] | None = None,
    valset: Sequence[dspy.Example] | None = None,
    heldout: Sequence[dspy.Example] | None = None,
    budget: int | None = None,
    options: Mapping[str, Any] | None = None,
    prompt_lm: Any = None,
    alternate: bool = False,
    run: str | Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    level: float = 0.95,
    progress: bool | None = None,
    fresh: bool = False,
) -> Compiled:
    """Improve a program by examples and a metric. The program that is given is never changed.

    Args:
        program: any DSPy program; one that is compiled already is compiled further.
        trainset: what `division.divide` divides. Each example has its inputs marked and what the metric reads.
        metric: one of `metrics`, or any function of (example, prediction) and optionally (trace, pred_name,
            pred_trace).
        optimizer: a name in `optimizers.OPTIMIZERS`, sized to the budget; or a DSPy optimizer of your own, used as it
            is.
        predictors: which may change, by name ("rewrite", "generate", "reflect"); see `predictors.choose`. The others
            work, and stay as they are.
        valset, heldout: examples to choose candidates by, and to be judged on; taken out of `trainset` when None.
        budget: LM calls in all, judging included. The optimizer is sized to fit, and a call beyond is refused.
        options: arguments of the optimizer or of its `compile`: `{"max_bootstrapped_demos": 2}`.
        prompt_lm: proposes instructions (MIPROv2, GEPA, SIMBA, COPRO); None for the configured model.
        alternate: compile prompts and search thresholds in turns until neither improves (`CRAG` and its like).
        run: a folder for what comes out; a run that was killed goes on there.
        seed: of the division, of the order of examples, and of the optimizer where it has one.
        threads: questions at a time; None for DSPy's setting.
        level: of the intervals and of the test that decides.
        progress: bars on stderr while judging; None shows them on a terminal only. DSPy's optimizers write theirs to
            stdout.
        fresh: throw away what `run` has.

    Raises:
        ConfigError: before any LM call: no language model, a wrong name or option, too few examples, or a budget that
            does not suffice, saying what would.
        StaleOutcomesError: `run` has results of another program, optimizer, metric or data.
    """
    job = CompileJob(
        program,
        trainset,
        metric,
        optimizer=optimizer,
        predictors=predictors,
        valset=valset,
        heldout=heldout,
        budget=budget,
        options=options,
        prompt_lm=prompt_lm,
        alternate=alternate,
        run=run,
        seed=seed,
        threads=threads,
        level=level,
        progress=progress,
        fresh=fresh,
    )
    return compile_job(job)


def compile_job(job: CompileJob) -> Compiled:
    """Do what was asked for, and judge it."""
    before, candidate, after = job.candidate()
    change = after.compared_with(before, level=job.level) if after is not None else None
    improved = change is not None and change.improved
    compiled = Compiled(
        program=candidate if improved and candidate is not None else job.program,
        candidate=candidate,
        improved=improved,
        before=before.interval(level=job.level),
        after=after.interval(level=job.level) if after is not None else None,
        change=change,
        estimate=job.estimate,
        lm_calls=dict(job.calls),
        predictors=tuple(job.names),
        metric=metric_name(job.metric),
        seed=job.seed,
        notes=tuple(job.notes),
    )
    finish(job.folder, compiled.program, compiled.to_json())
    if job.folder is not None:
        write_report(job.folder)
    return compiled


def estimate(
    program: dspy.Module, trainset: Sequence[dspy.Example], metric: Callable[..., Any], **arguments: Any
) -> Estimate:
    """What `compile_program` with the same arguments would cost. Calls no language model and no web search."""
    return CompileJob(program, trainset, metric, **arguments).estimate
