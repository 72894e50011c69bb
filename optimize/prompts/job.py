"""The work of `compile_program`, step by step: divide, estimate, judge, optimize, judge again."""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import dspy

from crag_dspy.errors import ConfigError, StaleOutcomesError, cause_of, message_of
from crag_dspy.optimize.prompts.budget import Guarded, Meter
from crag_dspy.optimize.prompts.dry_run import CallsAQuestion, calls_a_question, labelled_demos
from crag_dspy.optimize.prompts.estimate import Estimate
from crag_dspy.optimize.prompts.folder import opened, store_candidate, stored_candidate
from crag_dspy.optimize.prompts.optimizer_sizes import Task
from crag_dspy.optimize.prompts.optimizers import (
    OPTIMIZERS,
    PROPOSING,
    Plan,
    checked_optimizer,
    fitting_plan,
    plan_of,
    shuffled,
)
from crag_dspy.optimize.prompts.predictors import (
    choose,
    predictors_of,
    prompts_of,
    student_of,
    with_prompts,
)
from crag_dspy.optimize.prompts.proposing import PresentInstruction
from crag_dspy.optimize.prompts.remember import remember
from crag_dspy.optimize.questions.division import divide
from crag_dspy.optimize.runs.checks import check_devset, check_metric
from crag_dspy.optimize.runs.evaluation import Evaluation, evaluate
from crag_dspy.optimize.runs.folder import Run
from crag_dspy.state.arguments import check_number, check_whole

log = logging.getLogger(__name__)


class CompileJob:
    """What `compile_program` was asked for, checked. See there for the arguments.

    `estimate` and `run()` may be called in any order; only `run()` calls a language model.
    """

    def __init__(
        self,
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
    ) -> None:
        if budget is not None:
            check_whole("budget", budget)
        check_whole("seed", seed, 0, 2**32 - 1)
        check_number("level", level, 0.5, 0.9999)
        optimizer = checked_optimizer(optimizer)
        check_metric(metric)
        self.program = program
        self.metric = metric
        self.optimizer = optimizer
        self.names = choose(program, predictors)
        entry = OPTIMIZERS.get(optimizer) if isinstance(optimizer, str) else None
        self.division = divide(
            trainset, valset, heldout, chooses=alternate or (entry.chooses if entry else True), seed=seed
        )
        check_devset([*self.division.train, *self.division.val, *self.division.held], [metric])
        self.budget = budget
        self.options = dict(options or {})
        self.prompt_lm = prompt_lm
        self.alternate = alternate
        self.folder = Path(run).expanduser() if run is not None else None
        self.seed = seed
        self.threads = threads
        self.level = level
        self.progress = progress
        self.fresh = fresh
        self.meter = Meter(budget)
        self.calls: dict[str, int] = {}
        self.notes: list[str] = []
        if alternate:
            from crag_dspy.optimize.thresholds.search import settings_of

            settings_of(program)  # raises for a program without thresholds

    @cached_property
    def a_question(self) -> CallsAQuestion:
        """LM calls a question, by a dry run on examples of all parts."""
        parts = self.division
        return calls_a_question(self.program, [*parts.train, *parts.val, *parts.held])

    @cached_property
    def estimate(self) -> Estimate:
        """What the work may cost. Calls no language model."""
        judging = math.ceil(len(self.division.held) * self.a_question.mean)
        parts: dict[str, int | None] = {"judging before": judging}
        if self.alternate:
            from crag_dspy.optimize.prompts.alternate import calls_of_turns

            plan, parts_of_turns = calls_of_turns(self)
            parts |= parts_of_turns
        else:
            plan = self.plan(self.left_by_estimate())
            parts["optimizing"] = plan.calls(self.a_question.mean)
        parts["judging after"] = judging
        return Estimate(plan.name, parts, self.a_question, plan.sizes, self.division.sizes, self.budget)

    def plan(self, calls: int | None) -> Plan:
        """The optimizer at the size that fits."""
        task = self._task()
        if isinstance(self.optimizer, str):
            return fitting_plan(self.optimizer, task, calls)
        return plan_of(self.optimizer, task)

    def candidate(self) -> tuple[Evaluation, dspy.Module | None, Evaluation | None]:
        """Judge, optimize, judge again: (before, the new program, after). The last two are None without a new one."""
        self._check_models()
        told = self.estimate  # raises before anything is spent
        with opened(self, told.optimizer) as run, self.meter.metering():
            before = self._judged(self.program, "before")
            made = stored_candidate(self.folder, self.program)
            if made is not None:
                self.notes.append(f"the new program is the one that an earlier run left in {self.folder}")
            else:
                made = self._made(run)
                if made is not None:
                    store_candidate(self.folder, made)
            after = None if made is None else self._judged(made, "after")
        return before, made, after

    def optimized(self, program: dspy.Module, calls: int | None = None) -> dspy.Module | None:
        """One run of the optimizer within `calls` more calls; None when it changed nothing or ran out of calls."""
        working = self.meter.metered_program(program)
        remember(working)
        student = student_of(working, self.names)
        refused = self.meter.refused
        adapter = PresentInstruction(dspy.settings.adapter or dspy.ChatAdapter())
        limited = self.meter.metering(self.limit(calls))
        with self.counting("optimizing"), limited, dspy.context(adapter=adapter):
            try:
                made = self._compiled(student, working, calls)
            except ConfigError:
                raise
            except Exception as error:
                log.debug("the optimizer failed", exc_info=True)
                spent = self.meter.refused > refused
                why = (
                    "the budget was spent before the optimizer had a result"
                    if spent
                    else "the optimizer failed"
                )
                self.notes.append(f"{why}: {cause_of(error)}")
                made = None
        if made is not None and self.meter.refused > refused:
            self.notes.append(
                "the budget was spent before the optimizer was done: its best until then is judged"
            )
        self.meter.refused = refused
        if made is None:
            return None
        new = with_prompts(program, made, self.names)
        if prompts_of(new) == prompts_of(program):
            self.notes.append("the optimizer found nothing better than the prompts there were")
            return None
        return new

    def score(self, program: dspy.Module, examples: Sequence[dspy.Example], name: str) -> float:
        """Mean quality on examples, kept nowhere."""
        with self.counting(name):
            counted = self.meter.metered_program(program)
            found = evaluate(counted, examples, self.metric, threads=self.threads, progress=self.progress)
        return found.score

    def left_for_optimizing(self) -> int | None:
        """Calls that may be made before the last judging needs the rest."""
        left = self.meter.left
        return None if left is None else max(0, left - self.reserve)

    def limit(self, calls: int | None = None) -> int | None:
        """Calls that may have been made in all after `calls` more; None for all but the last judging."""
        more = self.left_for_optimizing() if calls is None else calls
        return None if more is None else self.meter.spent + more

    # Steps

    def _made(self, run: Run) -> dspy.Module | None:
        if self.alternate:
            from crag_dspy.optimize.prompts.alternate import alternated

            return alternated(self, run)
        return self.optimized(self.program, self.left_for_optimizing())

    def _compiled(self, student: dspy.Module, working: dspy.Module, calls: int | None) -> dspy.Module | None:
        if self.optimizer == "labeled" or type(self.optimizer) is dspy.LabeledFewShot:
            return self._labelled(student, working)
        task = self._task()
        if isinstance(self.optimizer, str):
            try:
                plan = fitting_plan(self.optimizer, task, calls)
            except ConfigError as error:  # it was foreseen to fit, but what came before took more
                if calls is None:
                    raise
                self.notes.append(message_of(error))
                return None
            return plan.compile(student, task)
        ready = self.meter.metered_optimizer(self.optimizer, self.metric)
        return plan_of(ready, task).compile(student, task)

    def _labelled(self, student: dspy.Module, working: dspy.Module) -> dspy.Module:
        """Demonstrations from the gold answers, with the context that the program finds for them."""
        made = labelled_demos(working, shuffled(self.division.train, self.seed), self.names)
        if not any(made.values()):
            raise ConfigError(
                "no labelled demonstration can be made: no output of the predictors is labelled in the examples, or "
                "the evidence never has the answer. Use optimizer='bootstrap'"
            )
        given = getattr(self.optimizer, "k", None) or self.options.get("k", 4)
        for name, predictor in predictors_of(student).items():
            if made.get(name):
                predictor.demos = dspy.LabeledFewShot(given).compile(predictor, trainset=made[name]).demos
        bare = [name for name in self.names if not made.get(name)]
        if bare:
            self.notes.append(
                f"nothing in the examples labels what {', '.join(bare)} should say: left as it was"
            )
        return student

    def _judged(self, program: dspy.Module, when: str) -> Evaluation:
        folder = None if self.folder is None else self.folder / when
        counted = self.meter.metered_program(program)
        refused = self.meter.refused
        arguments: dict[str, Any] = {
            "run": folder,
            "threads": self.threads,
            "traces": True,
            "seed": self.seed,
        }
        with self.counting(f"judging {when}"):
            try:
                found = evaluate(
                    counted, self.division.held, self.metric, progress=self.progress, **arguments
                )
            except StaleOutcomesError:  # answers of an earlier candidate
                found = evaluate(
                    counted, self.division.held, self.metric, progress=self.progress, fresh=True, **arguments
                )
        if self.meter.refused > refused:
            if folder is not None:
                shutil.rmtree(folder)  # answers that are refusals must not be taken for the program's
            raise ConfigError(
                f"the budget of {self.budget} LM calls was spent while judging {when}, since questions took more calls "
                f"than foreseen: raise the budget{' and run again in the same folder' if folder else ''}"
            )
        return found

    def _task(self) -> Task:
        metered = self.meter.metered(self.prompt_lm)
        return Task(
            self.division.train,
            self.division.val,
            Guarded(self.metric, self.meter),
            self.a_question.mean,
            len(self.names),
            seed=self.seed,
            threads=self.threads,
            options=self.options,
            prompt_lm=metered,
            stopped=lambda: self.meter.refused > 0,
        )

    @property
    def reserve(self) -> int:
        """Calls to keep for judging once more, should every question take the most."""
        return len(self.division.held) * self.a_question.most

    def left_by_estimate(self) -> int | None:
        """What the budget leaves beside the judging. Raises `ConfigError` when it does not even pay that."""
        if self.budget is None:
            return None
        left = self.budget - 2 * self.reserve
        if left < 0:
            raise ConfigError(
                f"judging {len(self.division.held)} held-out questions before and after takes up to "
                f"{2 * self.reserve} LM calls, more than the budget of {self.budget}: raise it, or pass fewer "
                f"heldout examples"
            )
        return left

    @contextmanager
    def counting(self, name: str) -> Iterator[None]:
        start = self.meter.spent
        try:
            yield
        finally:
            self.calls[name] = self.calls.get(name, 0) + self.meter.spent - start

    def _check_models(self) -> None:
        models = {name: predictor.lm for name, predictor in predictors_of(self.program).items()}
        if dspy.settings.lm is None and any(models[name] is None for name in self.names):
            raise ConfigError(
                "no language model is configured: call dspy.configure(lm=dspy.LM('openai/gpt-4o-mini')), "
                "or use crag_dspy.local_lm() on a machine without a key"
            )
        if self.optimizer in PROPOSING and dspy.settings.lm is None and self.prompt_lm is None:
            raise ConfigError(
                f"{self.optimizer} needs a language model that proposes instructions: pass prompt_lm="
            )
