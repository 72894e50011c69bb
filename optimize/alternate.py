"""Prompts and thresholds in turns.

The best thresholds depend on what each action answers, so on the prompts; and which questions a prompt is asked depends
on the thresholds. So the one is improved with the other held still, until neither gets better on the examples to choose
by. Every step is kept only if it improves there; whether the whole did is for the held-out examples to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dspy

from crag_dspy.errors import StaleOutcomesError
from crag_dspy.optimize.predictors import with_models_of
from crag_dspy.optimize.threshold_search import ThresholdSearch, search_thresholds

if TYPE_CHECKING:
    from crag_dspy.optimize.compile_job import CompileJob
    from crag_dspy.optimize.optimizers import Plan
    from crag_dspy.optimize.runs import Run

MAX_TURNS = 3
_STEP = 1e-9  # what counts as an improvement and not as rounding


def calls_of_turns(job: CompileJob) -> tuple[Plan, dict[str, int | None]]:
    """The optimizer's plan in one turn, and the calls of all turns at most."""
    each = job.a_question.mean
    turn = _calls_of_measuring(job)
    left = None if job.budget is None else job.budget - 2 * job.reserve
    share = None if left is None else max(0, left // MAX_TURNS - turn)
    plan = job.plan(share)
    optimizing = plan.calls(each)
    return plan, {
        f"optimizing, {MAX_TURNS} turns": None if optimizing is None else MAX_TURNS * optimizing,
        f"thresholds, {MAX_TURNS} turns": MAX_TURNS * turn,
    }


def alternated(job: CompileJob, run: Run) -> dspy.Module | None:
    """The best program found, or None when nothing improved. A row a turn is appended to the run."""
    current = job.program
    best = job.score(current, job.division.val, "choosing")
    changed = False
    for turn in range(1, MAX_TURNS + 1):
        left = job.left_for_optimizing()
        share = None if left is None else max(0, left // (MAX_TURNS - turn + 1) - _calls_of_measuring(job))
        row: dict[str, Any] = {"turn": turn, "before": best}
        moved = False

        made = job.optimized(current, share)
        if made is not None:
            score = job.score(made, job.division.val, "choosing")
            row["prompts"] = score
            if score > best + _STEP:
                current, best, moved = made, score, True

        found = _searched(job, current, turn)
        row |= {"thresholds": found.best.to_json(), "value_before": found.value_before}
        if found.best.value > found.value_before + _STEP:
            current, moved = with_models_of(found.program, current), True
            best = job.score(current, job.division.val, "choosing")
        run.append({**row, "moved": moved})
        changed = changed or moved
        if not moved:
            break
    return current if changed else None


def _searched(job: CompileJob, program: dspy.Module, turn: int) -> ThresholdSearch:
    examples = [*job.division.train, *job.division.val]
    arguments: dict[str, Any] = {
        "run": None if job.folder is None else job.folder / f"thresholds-{turn}",
        "threads": job.threads,
        "progress": job.progress,
        "seed": job.seed,
    }
    counted = job.meter.metered_program(program)
    with job.counting("thresholds"):
        try:
            return search_thresholds(counted, examples, job.metric, **arguments)
        except StaleOutcomesError:  # of a program that an interrupted run was trying
            return search_thresholds(counted, examples, job.metric, fresh=True, **arguments)


def _calls_of_measuring(job: CompileJob) -> int:
    """Of one turn: outcomes of three actions, and the choice between programs (twice)."""
    parts = job.division
    runs = 3 * (len(parts.train) + len(parts.val)) + 2 * len(parts.val)
    return round(runs * job.a_question.mean)
