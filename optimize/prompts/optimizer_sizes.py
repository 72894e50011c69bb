"""How large each of DSPy's optimizers may be, the most generous size first, and what a size costs.

Every function knows what its optimizer trips over on small data sets, so that a dozen examples are enough to try it.
Labelled demonstrations are off: they have no context, and teach to answer without one. Bootstrapping stops at enough
successes, so the runs given for it are an upper bound.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from crag_dspy.errors import MissingPackageError

Options = dict[str, Any]


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


def labeled_sizes(task: Task) -> Iterator[Options]:
    yield {"k": 4}  # made by `dry_run.labelled_demos`, with the program's own context


def bootstrap_sizes(task: Task) -> Iterator[Options]:
    for eighths in range(8, 0, -1):
        yield {**demos(task), "train": max(1, len(task.train) * eighths // 8)}


def bootstrap_cost(options: Options, task: Task) -> tuple[int, int]:
    return options["train"] * int(options.get("max_rounds") or 1), 0


def search_sizes(task: Task) -> Iterator[Options]:
    for n in (8, 6, 4, 3, 2, 1):
        n = int(task.options.get("num_candidate_programs", n))
        rung = {**demos(task), "num_threads": task.threads, "num_candidate_programs": n}
        # Seed -2 is "labels only": without labelled demonstrations it would measure the bare program twice.
        yield rung if task.options.get("max_labeled_demos") else {**rung, "restrict": [-3, -1, *range(n)]}


def search_cost(options: Options, task: Task) -> tuple[int, int]:
    n, rounds = int(options["num_candidate_programs"]), int(options.get("max_rounds") or 1)
    return (n + 1) * options["train"] * rounds + (n + 3) * len(task.val), 0


def demos(task: Task) -> Options:
    return {"metric": task.metric, "max_bootstrapped_demos": 4, "max_labeled_demos": 0, "max_rounds": 1}


def mipro_sizes(task: Task) -> Iterator[Options]:
    if importlib.util.find_spec("optuna") is None:
        raise MissingPackageError("optimizer 'mipro' needs optuna: pip install optuna")
    for n in (8, 6, 4, 3, 2):
        n = int(task.options.get("num_candidates", n))
        for trials in (mipro_trials(n, task.predictors), n):
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


def mipro_trials(candidates: int, predictors: int) -> int:
    """MIPROv2's own advice."""
    return int(max(4 * predictors * math.log2(max(2, candidates)), 1.5 * candidates))


def mipro_cost(options: Options, task: Task) -> tuple[int, int]:
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


def mipro_run(optimizer: Any, task: Task) -> Options:
    """What `compile` of a ready-made MIPROv2 must be told, on data as small as this."""
    if optimizer.auto is not None:
        from dspy.teleprompt.mipro_optimizer_v2 import AUTO_RUN_SETTINGS

        n = int(AUTO_RUN_SETTINGS[optimizer.auto]["n"])
        # Told to `compile`, the number of trials would be refused: it is the preset's.
        return {"num_candidates": n, "auto_trials": mipro_trials(n, task.predictors)}
    n = int(optimizer.num_candidates or 4)
    return {"num_candidates": n, "num_trials": mipro_trials(n, task.predictors), "minibatch": False}


def simba_sizes(task: Task) -> Iterator[Options]:
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


def simba_cost(options: Options, task: Task) -> tuple[int, int]:
    bsize, steps, n = (int(options[name]) for name in ("bsize", "max_steps", "num_candidates"))
    return steps * bsize * (2 * n + 1) + (n + 1) * options["train"], steps * (n + 1)


def gepa_sizes(task: Task) -> Iterator[Options]:
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


def gepa_cost(options: Options, task: Task) -> tuple[int, int]:
    batch, asked = int(options["reflection_minibatch_size"]), int(options["max_metric_calls"])
    # The round in which the limit is reached is finished, and may end with an evaluation of all of `val`.
    return asked + len(task.val) + 2 * batch, math.ceil(asked / (2 * batch)) + 1


def gepa_run(optimizer: Any, task: Task) -> Options:
    """The number of metric calls that a ready-made GEPA's own budget comes to."""
    if optimizer.auto is not None:
        from dspy.teleprompt.gepa.gepa import AUTO_RUN_SETTINGS

        n = int(AUTO_RUN_SETTINGS[optimizer.auto]["n"])
        return {"max_metric_calls": optimizer.auto_budget(task.predictors, n, len(task.val))}
    full = optimizer.max_full_evals
    return {} if full is None else {"max_metric_calls": full * (len(task.train) + len(task.val))}


def copro_sizes(task: Task) -> Iterator[Options]:
    for breadth, depth in ((8, 3), (6, 3), (6, 2), (4, 2), (3, 2), (3, 1), (2, 1)):
        yield {
            "metric": task.metric,
            "prompt_model": task.prompt_lm,  # given the configured one, it prints every prompt
            "breadth": breadth,
            "depth": depth,
            "eval_kwargs": {"num_threads": task.threads, "display_progress": True},
        }


def copro_cost(options: Options, task: Task) -> tuple[int, int]:
    breadth, depth, many = int(options["breadth"]), int(options["depth"]), task.predictors
    # With several predictors every candidate so far is tried again at each depth.
    rounds = depth if many == 1 else depth * (depth + 1) // 2
    return breadth * rounds * many * options["train"], breadth * depth * many
