"""DSPy's optimizers by name: what each costs, and how large it may be to stay within a number of LM calls.

An entry offers its optimizer at several sizes (candidates, trials, steps), the most generous first. It also knows what
its optimizer trips over on small data sets, so that a dozen examples are enough to try any of them.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import dspy

from crag_dspy.arguments import check_choice, check_whole
from crag_dspy.errors import ConfigError, MissingPackageError

Options = dict[str, Any]

# Optimizers that have a language model write instructions.
PROPOSING = ("mipro", "simba", "gepa", "copro")


@dataclass(frozen=True)
class Task:
    """What there is to compile, and what a question costs.

    Attributes:
        train, val: examples to learn from, and to choose candidates by.
        metric: for the optimizer (see `budget.Guarded`).
        calls: LM calls a question takes.
        predictors: how many may change.
        options: arguments of the optimizer or of its `compile` that the user fixed.
        prompt_lm: what proposes instructions; None for the configured model.
        stopped: whether there are no calls left, for optimizers that ask.
    """

    train: Sequence[dspy.Example]
    val: Sequence[dspy.Example]
    metric: Callable[..., Any]
    calls: float
    predictors: int
    seed: int = 0
    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    prompt_lm: Any = None
    stopped: Callable[[], bool] = lambda: False

    @property
    def proposer(self) -> Any:
        return self.prompt_lm or dspy.settings.lm


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
        options |= _mipro_run(optimizer, task)
    if entry.kind is dspy.GEPA:
        options |= _gepa_run(optimizer, task)
    return _plan(name, entry, {**options, **task.options}, task, ready=optimizer)


def shuffled(examples: Sequence[dspy.Example], seed: int) -> list[dspy.Example]:
    """In an order of the seed's. Bootstrapping takes the first that work, so the order is what a seed can vary."""
    order = list(examples)
    Random(seed).shuffle(order)
    return order


def _plan(name: str, entry: Optimizer, options: Options, task: Task, ready: Any = None) -> Plan:
    train = int(options.pop("train", len(task.train)))
    runs, own = entry.cost({**options, "train": train}, task)
    sizes = {key: options[key] for key in entry.sizes if key in options}
    return Plan(name, entry.kind, options, sizes, train, runs, own, ready)


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


# The entries. Labelled demonstrations are off: they have no context, and teach to answer without one. Bootstrapping
# stops at enough successes, so the runs given for it are an upper bound.


def _labeled(task: Task) -> Iterator[Options]:
    yield {"k": 4}  # made by `dry_run.labelled_demos`, with the program's own context


def _bootstrap(task: Task) -> Iterator[Options]:
    for eighths in range(8, 0, -1):
        yield {**_demos(task), "train": max(1, len(task.train) * eighths // 8)}


def _bootstrap_cost(options: Options, task: Task) -> tuple[int, int]:
    return options["train"] * int(options.get("max_rounds") or 1), 0


def _search(task: Task) -> Iterator[Options]:
    for n in (8, 6, 4, 3, 2, 1):
        n = int(task.options.get("num_candidate_programs", n))
        rung = {**_demos(task), "num_threads": task.threads, "num_candidate_programs": n}
        # Seed -2 is "labels only": without labelled demonstrations it would measure the bare program twice.
        yield rung if task.options.get("max_labeled_demos") else {**rung, "restrict": [-3, -1, *range(n)]}


def _search_cost(options: Options, task: Task) -> tuple[int, int]:
    n, rounds = int(options["num_candidate_programs"]), int(options.get("max_rounds") or 1)
    return (n + 1) * options["train"] * rounds + (n + 3) * len(task.val), 0


def _demos(task: Task) -> Options:
    return {"metric": task.metric, "max_bootstrapped_demos": 4, "max_labeled_demos": 0, "max_rounds": 1}


def _mipro(task: Task) -> Iterator[Options]:
    if importlib.util.find_spec("optuna") is None:
        raise MissingPackageError("optimizer 'mipro' needs optuna: pip install optuna")
    for n in (8, 6, 4, 3, 2):
        n = int(task.options.get("num_candidates", n))
        for trials in (_mipro_trials(n, task.predictors), n):
            yield {
                "metric": task.metric,
                "prompt_model": task.proposer,
                "task_model": dspy.settings.lm or task.prompt_lm,
                "auto": None,  # its presets are sized for hundreds of examples
                "num_candidates": n,
                "num_trials": trials,
                "max_bootstrapped_demos": 3,
                "max_labeled_demos": 0,
                "num_threads": task.threads,
                "minibatch": False,  # which it can only do with 35 examples or more
                "minibatch_size": min(35, len(task.val)),
            }


def _mipro_trials(candidates: int, predictors: int) -> int:
    """MIPROv2's own advice."""
    return int(max(4 * predictors * math.log2(max(2, candidates)), 1.5 * candidates))


def _mipro_cost(options: Options, task: Task) -> tuple[int, int]:
    n, trials = int(options["num_candidates"]), int(options.get("num_trials") or options["auto_trials"])
    runs = max(0, n - 1) * options["train"]
    if options.get("minibatch"):
        full = trials // int(options.get("minibatch_full_eval_steps", 5)) + 2
        runs += trials * int(options["minibatch_size"]) + full * len(task.val)
    else:
        runs += (trials + 1) * len(task.val)
    proposals = n * task.predictors * (3 if options.get("program_aware_proposer", True) else 1)
    batches = math.ceil(options["train"] / int(options.get("view_data_batch_size", 10)))
    return runs, proposals + (min(10, batches) + 1 if options.get("data_aware_proposer", True) else 0)


def _mipro_run(optimizer: Any, task: Task) -> Options:
    """What `compile` of a ready-made MIPROv2 must be told, on data as small as this."""
    if optimizer.auto is not None:
        from dspy.teleprompt.mipro_optimizer_v2 import AUTO_RUN_SETTINGS

        n = int(AUTO_RUN_SETTINGS[optimizer.auto]["n"])
        # Told to `compile`, the number of trials would be refused: it is the preset's.
        return {"num_candidates": n, "auto_trials": _mipro_trials(n, task.predictors)}
    n = int(optimizer.num_candidates or 4)
    return {"num_candidates": n, "num_trials": _mipro_trials(n, task.predictors), "minibatch": False}


def _simba(task: Task) -> Iterator[Options]:
    most = min(int(task.options.get("bsize", 32)), len(task.train))
    for bsize in sorted({most, min(16, most), min(8, most)}, reverse=True):
        for steps, n in ((8, 6), (6, 6), (4, 6), (4, 4), (3, 4), (2, 4), (2, 3), (1, 3), (1, 2)):
            yield {
                "metric": task.metric,
                "prompt_model": task.proposer,
                "num_threads": task.threads,
                "max_demos": 4,
                "bsize": bsize,  # more than there are examples is an error
                "max_steps": steps,
                "num_candidates": n,
            }


def _simba_cost(options: Options, task: Task) -> tuple[int, int]:
    bsize, steps, n = (int(options[name]) for name in ("bsize", "max_steps", "num_candidates"))
    return steps * bsize * (2 * n + 1) + (n + 1) * options["train"], steps * (n + 1)


def _gepa(task: Task) -> Iterator[Options]:
    batch = min(int(task.options.get("reflection_minibatch_size", 3)), len(task.train))
    for rounds in (20, 14, 10, 7, 5, 4, 3, 2, 1):
        yield {
            "metric": task.metric,
            "reflection_lm": task.proposer,
            "num_threads": task.threads,
            "reflection_minibatch_size": batch,
            "max_metric_calls": len(task.val) + rounds * (len(task.val) + 2 * batch),
            "seed": task.seed,
            "gepa_kwargs": {"stop_callbacks": [lambda state: task.stopped()]},
        }


def _gepa_cost(options: Options, task: Task) -> tuple[int, int]:
    batch, asked = int(options["reflection_minibatch_size"]), int(options["max_metric_calls"])
    # The round in which the limit is reached is finished, and may end with an evaluation of all of `val`.
    return asked + len(task.val) + 2 * batch, math.ceil(asked / (2 * batch)) + 1


def _gepa_run(optimizer: Any, task: Task) -> Options:
    """The number of metric calls that a ready-made GEPA's own budget comes to."""
    if optimizer.auto is not None:
        from dspy.teleprompt.gepa.gepa import AUTO_RUN_SETTINGS

        n = int(AUTO_RUN_SETTINGS[optimizer.auto]["n"])
        return {"max_metric_calls": optimizer.auto_budget(task.predictors, n, len(task.val))}
    full = optimizer.max_full_evals
    return {} if full is None else {"max_metric_calls": full * (len(task.train) + len(task.val))}


def _copro(task: Task) -> Iterator[Options]:
    for breadth, depth in ((8, 3), (6, 3), (6, 2), (4, 2), (3, 2), (3, 1), (2, 1)):
        yield {
            "metric": task.metric,
            "prompt_model": task.prompt_lm,  # given the configured one, it prints every prompt
            "breadth": breadth,
            "depth": depth,
            "eval_kwargs": {"num_threads": task.threads, "display_progress": True},
        }


def _copro_cost(options: Options, task: Task) -> tuple[int, int]:
    breadth, depth, many = int(options["breadth"]), int(options["depth"]), task.predictors
    # With several predictors every candidate so far is tried again at each depth.
    rounds = depth if many == 1 else depth * (depth + 1) // 2
    return breadth * rounds * many * options["train"], breadth * depth * many


OPTIMIZERS: dict[str, Optimizer] = {
    "labeled": Optimizer(dspy.LabeledFewShot, _labeled, lambda options, task: (0, 0), ("k",)),
    "bootstrap": Optimizer(dspy.BootstrapFewShot, _bootstrap, _bootstrap_cost, ("max_bootstrapped_demos",)),
    "random_search": Optimizer(
        dspy.BootstrapFewShotWithRandomSearch,
        _search,
        _search_cost,
        ("num_candidate_programs", "max_bootstrapped_demos"),
        chooses=True,
    ),
    "mipro": Optimizer(
        dspy.MIPROv2,
        _mipro,
        _mipro_cost,
        ("num_candidates", "num_trials", "max_bootstrapped_demos"),
        chooses=True,
    ),
    "simba": Optimizer(dspy.SIMBA, _simba, _simba_cost, ("bsize", "max_steps", "num_candidates")),
    "gepa": Optimizer(
        dspy.GEPA, _gepa, _gepa_cost, ("max_metric_calls", "reflection_minibatch_size"), chooses=True
    ),
    "copro": Optimizer(dspy.COPRO, _copro, _copro_cost, ("breadth", "depth")),
}
