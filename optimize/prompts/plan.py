"""The largest size of an optimizer that stays within a number of LM calls, and running it."""

from __future__ import annotations

import importlib.util
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import dspy

from crag_dspy.errors import ConfigError, MissingPackageError
from crag_dspy.optimize.prompts.optimizers import (
    OPTIMIZERS,
    Assignment,
    Optimizer,
    Options,
    check_optimizer,
    entry_of,
    trials,
)
from crag_dspy.state.arguments import check_whole


@dataclass(frozen=True)
class Plan:
    """One optimizer at one size: see `Optimizer`. `runs` is None when nobody can tell."""

    name: str
    kind: Any
    options: Mapping[str, Any]
    train: int
    shown: Mapping[str, Any] = field(default_factory=dict)
    runs: int | None = None
    own_calls: int = 0
    ready: Any = None

    def calls(self, each: float) -> int | None:
        """LM calls in all, at most, when a question takes `each`."""
        return None if self.runs is None else math.ceil(self.runs * each) + self.own_calls

    def compile(self, student: dspy.Module, task: Assignment) -> dspy.Module:
        """Build the optimizer, unless it is there, and run it. Both ways get the same data."""
        builds, compiles = _takes(self.kind.__init__), _takes(self.kind.compile)
        chosen = {name: value for name, value in self.options.items() if name in builds}
        optimizer = self.ready if self.ready is not None else self.kind(**chosen)
        rest = {name: value for name, value in self.options.items() if name in compiles - builds}
        offered = {"valset": list(task.val) or None, "seed": task.seed, **rest}
        given = {name: value for name, value in offered.items() if name in compiles and value is not None}
        return optimizer.compile(student, trainset=shuffled(task.train, task.seed)[: self.train], **given)


def fitting_plan(optimizer: Any, task: Assignment, each: float = 1, calls: int | None = None) -> Plan:
    """The most generous plan within `calls` LM calls, a ready-made optimizer at its own size.

    Args:
        each: LM calls a question takes.

    Raises:
        ConfigError: an unknown option, no examples, or `calls` that do not suffice, saying how many would.
        MissingPackageError: for "mipro", optuna.
    """
    if not isinstance(optimizer, str):
        return _ready(optimizer, task)
    plan = None
    for plan in _plans(optimizer, task):
        if calls is None or (plan.calls(each) or 0) <= calls:
            return plan
    least = plan.calls(each) if plan is not None else 0
    raise ConfigError(
        f"{optimizer} takes up to {least} LM calls even at its smallest ({len(task.train)} examples to learn from, "
        f"{len(task.val)} to choose by), but the budget leaves {calls}: raise the budget, give fewer examples, or use "
        f"optimizer='bootstrap'"
    )


def shuffled(examples: Sequence[dspy.Example], seed: int) -> list[dspy.Example]:
    """In an order of the seed's. Bootstrapping takes the first that work, so the order is what a seed can vary."""
    order = list(examples)
    Random(seed).shuffle(order)
    return order


def _plans(optimizer: str, task: Assignment) -> Iterator[Plan]:
    check_optimizer(optimizer)
    name, entry = entry_of(optimizer) or ("", OPTIMIZERS["bootstrap"])
    if name == "mipro" and importlib.util.find_spec("optuna") is None:
        raise MissingPackageError("optimizer 'mipro' needs optuna: pip install '.[train]'")
    _check_options(entry, task.options)
    if not task.train or (entry.chooses and not task.val):
        raise ConfigError(
            f"{name} needs examples to learn from{' and others to choose by' if entry.chooses else ''}"
        )
    _check_batches(task)
    for size in entry.sizes:
        yield _plan(name, entry, {**entry.built(size, task), **task.options}, task)


def _ready(optimizer: Any, task: Assignment) -> Plan:
    """A ready-made optimizer, used as it is: what it costs, only a budget can say."""
    found = entry_of(optimizer)
    name, kind = (
        (found[0], found[1].type) if found is not None else (type(optimizer).__name__, type(optimizer))
    )
    options = dict(task.options)
    if name == "mipro" and optimizer.auto is None:  # what DSPy refuses to choose, and cannot do on small data
        n = int(optimizer.num_candidates or 4)
        options = {"num_trials": trials(n, task.predictors), "minibatch": False, **options}
    return Plan(name, kind, options, len(task.train), ready=optimizer)


def _plan(name: str, entry: Optimizer, options: Options, task: Assignment) -> Plan:
    train = int(options.pop("train", len(task.train)))
    runs, own = entry.most({**options, "train": train}, task)
    shown = {key: options[key] for key in entry.shown if key in options}
    return Plan(name, entry.type, options, train, shown, runs, own)


def _takes(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "student", "trainset"}


def _check_options(entry: Optimizer, options: Mapping[str, Any]) -> None:
    takes = _takes(entry.type.__init__) | _takes(entry.type.compile)
    takes -= {"valset", "teacher", "metric", "kwargs", "_kwargs", "seed"}
    for name, value in options.items():
        if name not in takes:
            raise ConfigError(f"{entry.kind} has no option {name!r}: it takes {', '.join(sorted(takes))}")
        if name in entry.shown:
            # Without bootstrapped demonstrations the others crash; MIPROv2 then learns instructions only.
            check_whole(name, value, 0 if (entry.kind, name) == ("MIPROv2", "max_bootstrapped_demos") else 1)


def _check_batches(task: Assignment) -> None:
    batches = {"bsize": task.train, "reflection_minibatch_size": task.train, "minibatch_size": task.val}
    for name, examples in batches.items():
        if task.options.get(name, 0) > len(examples):
            raise ConfigError(
                f"{name} must be at most {len(examples)}, the examples there are, got {task.options[name]}"
            )
