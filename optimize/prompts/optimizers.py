"""DSPy's optimizers by name: the largest that stays within a number of LM calls, and running it.

An entry of the table offers its optimizer at several sizes (candidates, trials, steps), the most generous first: see
`optimizer_sizes.py`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.prompts import optimizer_sizes as sizes
from crag_dspy.optimize.prompts.optimizer_sizes import Options, Task
from crag_dspy.state.arguments import check_choice, check_whole

# Optimizers that have a language model write instructions.
PROPOSING = ("mipro", "simba", "gepa", "copro")


@dataclass(frozen=True)
class Plan:
    """One optimizer at one size.

    Attributes:
        options: everything that its constructor and its `compile` are given.
        sizes: those of them that make it large or small.
        train: how many examples it learns from.
        runs, own_calls: how often the program is run, and how often the optimizer calls a language model itself; at
            most. None when that cannot be told.
        ready: the optimizer, when the user gave one.
    """

    name: str
    kind: type
    options: Mapping[str, Any]
    sizes: Mapping[str, Any]
    train: int
    runs: int | None = None
    own_calls: int | None = None
    ready: Any = None

    def calls(self, each: float) -> int | None:
        """LM calls in all, at most, when a question takes `each`."""
        return None if self.runs is None else math.ceil(self.runs * each) + (self.own_calls or 0)

    def compile(self, student: dspy.Module, task: Task) -> dspy.Module:
        """Build the optimizer, unless it is there, and run it."""
        builds, compiles = _takes(self.kind.__init__), _takes(self.kind.compile)  # type: ignore[misc, attr-defined]
        chosen = {name: value for name, value in self.options.items() if name in builds}
        optimizer = self.ready if self.ready is not None else self.kind(**chosen)
        rest = {name: value for name, value in self.options.items() if name in compiles - builds}
        offered = {"valset": list(task.val) or None, "seed": task.seed, **rest}
        given = {name: value for name, value in offered.items() if name in compiles and value is not None}
        return optimizer.compile(student, trainset=shuffled(task.train, task.seed)[: self.train], **given)


@dataclass(frozen=True)
class Optimizer:
    """An entry of the table: at which sizes, at what cost, and whether it chooses candidates by `val`."""

    kind: type
    ladder: Callable[[Task], Iterable[Options]]
    cost: Callable[[Options, Task], tuple[int, int]]
    sizes: tuple[str, ...]
    chooses: bool = False


def checked_optimizer(given: Any) -> Any:
    """A name of `OPTIMIZERS`, also where DSPy's own was given ("MIPROv2"); an optimizer as it is.

    Raises:
        ConfigError: another name, a class, or something without `compile`.
    """
    if isinstance(given, str):
        dspys = {entry.kind.__name__.lower(): name for name, entry in OPTIMIZERS.items()}
        name = given if given in OPTIMIZERS else dspys.get(given.lower())
        if name is None:
            raise ConfigError(
                f"optimizer must be one of {', '.join(OPTIMIZERS)}, or a DSPy optimizer, got {given!r}"
            )
        return name
    if inspect.isclass(given):
        raise ConfigError(f"optimizer must be made, not a class: pass {given.__name__}(...), or its name")
    if not callable(getattr(given, "compile", None)):
        raise ConfigError(f"optimizer must have compile(), as DSPy's have, got {type(given).__name__}")
    return given


def plans(name: str, task: Task) -> Iterator[Plan]:
    """The sizes of an optimizer from the most generous to the leanest.

    Raises:
        ConfigError: an unknown name or option, or no examples.
        MissingPackageError: for "mipro", optuna.
    """
    check_choice("optimizer", name, sorted(OPTIMIZERS))
    entry = OPTIMIZERS[name]
    _check_options(entry.kind, task.options)
    if not task.train or (entry.chooses and not task.val):
        raise ConfigError(
            f"{name} needs examples to learn from{' and others to choose by' if entry.chooses else ''}"
        )
    _check_batches(task)
    for rung in entry.ladder(task):
        options = {**rung, **task.options}
        yield _plan(name, entry, options, task)


def fitting_plan(name: str, task: Task, calls: int | None) -> Plan:
    """The most generous plan within `calls` LM calls. Raises `ConfigError` saying how many the leanest takes."""
    plan = None
    for plan in plans(name, task):
        if calls is None or (plan.calls(task.calls) or 0) <= calls:
            return plan
    least = plan.calls(task.calls) if plan is not None else 0
    raise ConfigError(
        f"{name} takes up to {least} LM calls even at its smallest ({len(task.train)} examples to learn from, "
        f"{len(task.val)} to choose by), but the budget leaves {calls}: raise the budget, give fewer examples, or use "
        f"optimizer='bootstrap'"
    )


def plan_of(optimizer: Any, task: Task) -> Plan:
    """A ready-made optimizer as a plan: its own sizes, and what they cost where that is known."""
    name = next((name for name, entry in OPTIMIZERS.items() if type(optimizer) is entry.kind), None)
    if name is None:
        kind = type(optimizer)
        return Plan(kind.__name__, kind, dict(task.options), {}, len(task.train), ready=optimizer)
    entry = OPTIMIZERS[name]
    own = {key: _kept(optimizer, key) for key in next(iter(entry.ladder(task)))}
    options = {key: value for key, value in own.items() if value is not None}
    if entry.kind is dspy.MIPROv2:
        options |= sizes.mipro_run(optimizer, task)
    if entry.kind is dspy.GEPA:
        options |= sizes.gepa_run(optimizer, task)
    return _plan(name, entry, {**options, **task.options}, task, ready=optimizer)


def shuffled(examples: Sequence[dspy.Example], seed: int) -> list[dspy.Example]:
    """In an order of the seed's. Bootstrapping takes the first that work, so the order is what a seed can vary."""
    order = list(examples)
    Random(seed).shuffle(order)
    return order


def _plan(name: str, entry: Optimizer, options: Options, task: Task, ready: Any = None) -> Plan:
    train = int(options.pop("train", len(task.train)))
    runs, own = entry.cost({**options, "train": train}, task)
    shown = {key: options[key] for key in entry.sizes if key in options}
    return Plan(name, entry.kind, options, shown, train, runs, own, ready)


def _takes(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "student", "trainset"}


def _kept(optimizer: Any, name: str) -> Any:
    """What an optimizer was built with; random search keeps the number of its candidates under another name."""
    return getattr(optimizer, {"num_candidate_programs": "num_candidate_sets"}.get(name, name), None)


_WHOLE = (
    "max_bootstrapped_demos",
    "num_candidate_programs",
    "num_candidates",
    "num_trials",
    "max_steps",
    "bsize",
    "k",
)


def _check_options(kind: type, options: Mapping[str, Any]) -> None:
    takes = _takes(kind.__init__) | _takes(kind.compile)  # type: ignore[misc, attr-defined]
    takes -= {"valset", "teacher", "metric", "kwargs", "_kwargs", "seed"}
    for name, value in options.items():
        if name not in takes:
            raise ConfigError(f"{kind.__name__} has no option {name!r}: it takes {', '.join(sorted(takes))}")
        if name in _WHOLE:
            # Without bootstrapped demonstrations the others crash; MIPROv2 then learns instructions only.
            check_whole(name, value, 0 if kind is dspy.MIPROv2 and name == "max_bootstrapped_demos" else 1)


def _check_batches(task: Task) -> None:
    for name, examples in (
        ("bsize", task.train),
        ("reflection_minibatch_size", task.train),
        ("minibatch_size", task.val),
    ):
        if task.options.get(name, 0) > len(examples):
            raise ConfigError(
                f"{name} must be at most {len(examples)}, the examples there are, got {task.options[name]}"
            )


OPTIMIZERS: dict[str, Optimizer] = {
    "labeled": Optimizer(dspy.LabeledFewShot, sizes.labeled_sizes, lambda options, task: (0, 0), ("k",)),
    "bootstrap": Optimizer(
        dspy.BootstrapFewShot, sizes.bootstrap_sizes, sizes.bootstrap_cost, ("max_bootstrapped_demos",)
    ),
    "random_search": Optimizer(
        dspy.BootstrapFewShotWithRandomSearch,
        sizes.search_sizes,
        sizes.search_cost,
        ("num_candidate_programs", "max_bootstrapped_demos"),
        chooses=True,
    ),
    "mipro": Optimizer(
        dspy.MIPROv2,
        sizes.mipro_sizes,
        sizes.mipro_cost,
        ("num_candidates", "num_trials", "max_bootstrapped_demos"),
        chooses=True,
    ),
    "simba": Optimizer(
        dspy.SIMBA, sizes.simba_sizes, sizes.simba_cost, ("bsize", "max_steps", "num_candidates")
    ),
    "gepa": Optimizer(
        dspy.GEPA,
        sizes.gepa_sizes,
        sizes.gepa_cost,
        ("max_metric_calls", "reflection_minibatch_size"),
        chooses=True,
    ),
    "copro": Optimizer(dspy.COPRO, sizes.copro_sizes, sizes.copro_cost, ("breadth", "depth")),
}
