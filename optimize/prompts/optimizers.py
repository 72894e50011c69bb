"""DSPy's optimizers by name: how each is built at a size, and how often it then runs the program at most.

A size is one number, the larger the more is tried. The data may be small: a dozen examples are enough to try each of
them. Labelled demonstrations are off, since they have no context and teach to answer without one.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import dspy

Options = dict[str, Any]


@dataclass(frozen=True)
class Assignment:
    """What there is to compile.

    Attributes:
        train, val: examples to learn from, and to choose candidates by.
        metric: for the optimizer (see `guarded.Guarded`).
        predictors: how many may change.
        options: arguments of the optimizer or of its `compile` that the user fixed.
        lm, proposer: answers questions; proposes instructions.
        stopped: whether there are no calls left, for optimizers that ask.
    """

    train: Sequence[dspy.Example]
    val: Sequence[dspy.Example]
    metric: Callable[..., Any]
    predictors: int
    seed: int = 0
    threads: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    lm: Any = None
    proposer: Any = None
    stopped: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class Optimizer:
    """An entry of the table.

    Attributes:
        kind: DSPy's name of it.
        sizes: from the most generous to the leanest.
        built: its arguments at a size; `train` is how many examples it learns from, all when it is not there.
        most: program runs, and calls of a language model by itself, at most.
        shown: the arguments that make it large or small.
        chooses: whether it chooses candidates by `val`.
        proposes: whether it has a language model write instructions.
    """

    kind: str
    sizes: Sequence[int]
    built: Callable[[int, Assignment], Options]
    most: Callable[[Options, Assignment], tuple[int, int]]
    shown: tuple[str, ...]
    chooses: bool = False
    proposes: bool = False

    @property
    def type(self) -> Any:
        import dspy

        return getattr(dspy, self.kind)


def entry_of(optimizer: Any) -> tuple[str, Optimizer] | None:
    """(name, entry) of a name, DSPy's or ours, or of a ready-made optimizer; None for one of another make."""
    wanted = optimizer.lower() if isinstance(optimizer, str) else type(optimizer).__name__.lower()
    for name, entry in OPTIMIZERS.items():
        if wanted == entry.kind.lower() or (isinstance(optimizer, str) and wanted == name):
            return (name, entry) if isinstance(optimizer, str) or type(optimizer) is entry.type else None
    return None


def check_optimizer(given: Any) -> None:
    """Raises `ConfigError` for an unknown name, a class, or something without `compile`."""
    if isinstance(given, str):
        if entry_of(given) is None:
            raise ConfigError(
                f"optimizer must be one of {', '.join(OPTIMIZERS)}, or a DSPy optimizer, got {given!r}"
            )
    elif inspect.isclass(given):
        raise ConfigError(f"optimizer must be made, not a class: pass {given.__name__}(...), or its name")
    elif not callable(getattr(given, "compile", None)):
        raise ConfigError(f"optimizer must have compile(), as DSPy's have, got {type(given).__name__}")


# The arguments of each at a size, and the most that it costs: (program runs, calls by itself).


def _demos(task: Assignment) -> Options:
    return {"metric": task.metric, "max_bootstrapped_demos": 4, "max_labeled_demos": 0, "max_rounds": 1}


def _labeled(size: int, task: Assignment) -> Options:
    return {"k": size}  # made by `labelled.labelled_demos`, with the program's own context


def _bootstrap(size: int, task: Assignment) -> Options:
    return {**_demos(task), "train": max(1, len(task.train) * size // 8)}


def _bootstrap_most(options: Options, task: Assignment) -> tuple[int, int]:
    return options["train"] * int(options.get("max_rounds") or 1), 0


def _random_search(size: int, task: Assignment) -> Options:
    n = int(task.options.get("num_candidate_programs", size))
    options = {**_demos(task), "num_threads": task.threads, "num_candidate_programs": n}
    # Seed -2 is "labels only": without labelled demonstrations it would measure the bare program twice.
    return options if task.options.get("max_labeled_demos") else {**options, "restrict": [-3, -1, *range(n)]}


def _random_search_most(options: Options, task: Assignment) -> tuple[int, int]:
    n, rounds = int(options["num_candidate_programs"]), int(options.get("max_rounds") or 1)
    return (n + 1) * options["train"] * rounds + (n + 3) * len(task.val), 0


def _mipro(size: int, task: Assignment) -> Options:
    n = int(task.options.get("num_candidates", size))
    return {
        "metric": task.metric,
        "prompt_model": task.proposer,
        "task_model": task.lm or task.proposer,
        "auto": None,  # its presets are sized for hundreds of examples
        "num_candidates": n,
        "num_trials": trials(n, task.predictors),
        "max_bootstrapped_demos": 3,
        "max_labeled_demos": 0,
        "num_threads": task.threads,
        "minibatch": False,  # which it can only do with 35 examples or more
        "minibatch_size": min(35, len(task.val)),
    }


def trials(candidates: int, predictors: int) -> int:
    """MIPROv2's own advice."""
    return int(max(4 * predictors * math.log2(max(2, candidates)), 1.5 * candidates))


def _mipro_most(options: Options, task: Assignment) -> tuple[int, int]:
    n, trials = int(options["num_candidates"]), int(options["num_trials"])
    passes = 2 * trials + 2 if options.get("minibatch") else trials + 1
    own = 3 * n * task.predictors + min(10, math.ceil(options["train"] / 10)) + 1
    return max(0, n - 1) * options["train"] + passes * len(task.val), own


def _simba(size: int, task: Assignment) -> Options:
    return {
        "metric": task.metric,
        "prompt_model": task.proposer,
        "num_threads": task.threads,
        "max_demos": 4,
        "bsize": min(32, 8 * size, len(task.train)),  # more than there are examples is an error
        "max_steps": size,
        "num_candidates": min(6, size + 1),
    }


def _simba_most(options: Options, task: Assignment) -> tuple[int, int]:
    bsize, steps, n = (int(options[name]) for name in ("bsize", "max_steps", "num_candidates"))
    return steps * bsize * (2 * n + 1) + (n + 1) * options["train"], steps * (n + 1)


def _gepa(size: int, task: Assignment) -> Options:
    batch = min(int(task.options.get("reflection_minibatch_size", 3)), len(task.train))
    return {
        "metric": task.metric,
        "reflection_lm": task.proposer,
        "num_threads": task.threads,
        "reflection_minibatch_size": batch,
        "max_metric_calls": len(task.val) + size * (len(task.val) + 2 * batch),
        "seed": task.seed,
        "gepa_kwargs": {"stop_callbacks": [lambda state: task.stopped()]},
    }


def _gepa_most(options: Options, task: Assignment) -> tuple[int, int]:
    batch, asked = int(options["reflection_minibatch_size"]), int(options["max_metric_calls"])
    # The round in which the limit is reached is finished, and may end with an evaluation of all of `val`.
    return asked + len(task.val) + 2 * batch, math.ceil(asked / (2 * batch)) + 1


def _copro(size: int, task: Assignment) -> Options:
    return {
        "metric": task.metric,
        "prompt_model": task.proposer
        if task.proposer is not task.lm
        else None,  # the same one: it prints prompts
        "breadth": size,
        "depth": min(3, size // 2),
        "eval_kwargs": {"num_threads": task.threads, "display_progress": True},
    }


def _copro_most(options: Options, task: Assignment) -> tuple[int, int]:
    breadth, depth, many = int(options["breadth"]), int(options["depth"]), task.predictors
    # With several predictors every candidate so far is tried again at each depth.
    rounds = depth if many == 1 else depth * (depth + 1) // 2
    return breadth * rounds * many * options["train"], breadth * depth * many


OPTIMIZERS: dict[str, Optimizer] = {
    "labeled": Optimizer("LabeledFewShot", (4,), _labeled, lambda options, task: (0, 0), ("k",)),
    "bootstrap": Optimizer(
        "BootstrapFewShot", range(8, 0, -1), _bootstrap, _bootstrap_most, ("max_bootstrapped_demos",)
    ),
    "random_search": Optimizer(
        "BootstrapFewShotWithRandomSearch",
        (8, 6, 4, 3, 2, 1),
        _random_search,
        _random_search_most,
        ("num_candidate_programs", "max_bootstrapped_demos"),
        chooses=True,
    ),
    "mipro": Optimizer(
        "MIPROv2",
        (8, 6, 4, 3, 2),
        _mipro,
        _mipro_most,
        ("num_candidates", "num_trials", "max_bootstrapped_demos"),
        chooses=True,
        proposes=True,
    ),
    "simba": Optimizer(
        "SIMBA",
        (8, 6, 4, 3, 2, 1),
        _simba,
        _simba_most,
        ("bsize", "max_steps", "num_candidates"),
        proposes=True,
    ),
    "gepa": Optimizer(
        "GEPA",
        (20, 14, 10, 7, 5, 4, 3, 2, 1),
        _gepa,
        _gepa_most,
        ("max_metric_calls", "reflection_minibatch_size"),
        chooses=True,
        proposes=True,
    ),
    "copro": Optimizer("COPRO", (8, 6, 4, 3, 2), _copro, _copro_most, ("breadth", "depth"), proposes=True),
}
