"""A program to compile with all that it takes: examples divided, calls counted, what each step took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.score import Metric
from crag_dspy.optimize.prompts.arguments import CompileArguments
from crag_dspy.optimize.prompts.dry_run import AQuestion, run_dry
from crag_dspy.optimize.prompts.optimizers import Assignment, entry_of
from crag_dspy.optimize.prompts.plan import Plan, fitting_plan
from crag_dspy.optimize.prompts.predictors import choose, predictors_of
from crag_dspy.optimize.questions.division import divide
from crag_dspy.optimize.runs.cap import Cap
from crag_dspy.optimize.runs.checks import check_devset, check_metric


class CompileJob:
    """What `compile_program` was asked for, checked. Making one calls no language model.

    Raises:
        ConfigError: a wrong name or option, too few examples, or questions that are in two parts.
    """

    def __init__(
        self,
        program: dspy.Module,
        trainset: Sequence[dspy.Example],
        metric: Metric,
        arguments: CompileArguments,
    ) -> None:
        check_metric(metric)
        self.program = program
        self.metric = metric
        self.arguments = arguments
        self.names = choose(program, arguments.predictors)
        found = entry_of(arguments.optimizer)
        # A ready-made optimizer gets the data that its name would get.
        self.optimizer = found[0] if found and isinstance(arguments.optimizer, str) else arguments.optimizer
        chooses = found is None or found[1].chooses
        self.division = divide(
            trainset,
            arguments.valset,
            arguments.heldout,
            chooses=arguments.alternate or chooses,
            turns=arguments.alternate and chooses,
            by=arguments.by,
            seed=arguments.seed,
        )
        check_devset([*self.learned, *self.division.held], [metric])
        self.cap = Cap(arguments.budget)
        self.calls: dict[str, int] = {}
        self.notes: list[str] = list(self.division.notes)
        if arguments.alternate:
            from crag_dspy.optimize.thresholds.search import settings_of

            settings_of(program)  # raises for a program without thresholds

    @property
    def learned(self) -> list[dspy.Example]:
        """All questions but the held-out ones."""
        return [*self.division.train, *self.division.val, *self.division.turn]

    @property
    def turn(self) -> list[dspy.Example]:
        """Those that a turn's prompts are judged by: none that the optimizer has seen."""
        return self.division.turn or self.division.val

    @cached_property
    def a_question(self) -> AQuestion:
        """What a question takes of those that are learned from: the optimizer is sized by them alone."""
        return run_dry(self.program, self.learned)

    @cached_property
    def a_held_question(self) -> AQuestion:
        return run_dry(self.program, self.division.held)

    @property
    def judging(self) -> int:
        """Calls to keep for judging once more, should every question take the most."""
        return len(self.division.held) * self.a_held_question.most

    @property
    def share(self) -> int | None:
        """The optimizer's part of the budget. Raises `ConfigError` when the rest does not pay for judging twice."""
        budget = self.arguments.budget
        if budget is None:
            return None
        share = budget * 2 // 3
        if 2 * self.judging > budget - share:
            raise ConfigError(
                f"judging {len(self.division.held)} held-out questions before and after takes up to {2 * self.judging} "
                f"LM calls, more than the third of the budget of {budget} that is for it: raise the budget to "
                f"{6 * self.judging}, or pass fewer heldout examples"
            )
        return share

    def plan(self, calls: int | None, task: Assignment | None = None) -> Plan:
        """The optimizer at the size that fits into `calls`."""
        return fitting_plan(self.optimizer, task or self.task(self.metric), self.a_question.mean, calls)

    def task(self, metric: Metric, refused: Sequence[Exception] = ()) -> Assignment:
        lm = dspy.settings.lm
        return Assignment(
            self.division.train,
            self.division.val,
            metric,
            len(self.names),
            seed=self.arguments.seed,
            threads=self.arguments.threads,
            options=self.arguments.options,
            lm=lm,
            proposer=self.arguments.prompt_lm or lm,
            stopped=lambda: bool(refused),
        )

    def left_for_optimizing(self) -> int | None:
        """Calls that may be made before the last judging needs the rest."""
        left = self.cap.left
        return None if left is None else max(0, left - self.judging)

    @contextmanager
    def counting(self, name: str) -> Iterator[None]:
        """Within, calls are for `name`."""
        start = self.cap.spent.calls
        try:
            yield
        finally:
            self.calls[name] = self.calls.get(name, 0) + self.cap.spent.calls - start

    def check_models(self) -> None:
        """Raises `ConfigError` when there is no language model for a predictor, or for proposals."""
        models = {name: predictor.lm for name, predictor in predictors_of(self.program).items()}
        if dspy.settings.lm is None and any(models[name] is None for name in self.names):
            raise ConfigError(
                "no language model is configured: call dspy.configure(lm=dspy.LM('openai/gpt-4o-mini')), "
                "or use crag_dspy.local_lm() on a machine without a key"
            )
        found = entry_of(self.optimizer) if isinstance(self.optimizer, str) else None
        if found and found[1].proposes and dspy.settings.lm is None and self.arguments.prompt_lm is None:
            raise ConfigError(
                f"{self.optimizer} needs a language model that proposes instructions: pass prompt_lm="
            )
