"""Prompts and thresholds in turns.

The best thresholds depend on what each action answers, so on the prompts; and which questions a prompt is asked depends
on the thresholds. So the one is improved with the other held still, until neither gets better on the examples to choose
by. Every step is kept only if it improves there; whether the whole did is for the held-out examples to say.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import dspy

from crag_dspy.errors import ConfigError, StaleOutcomesError
from crag_dspy.optimize.prompts.predictors import with_models_of
from crag_dspy.optimize.thresholds.search import ThresholdSearch, search_thresholds

if TYPE_CHECKING:
    from crag_dspy.optimize.prompts.job import CompileJob
    from crag_dspy.optimize.prompts.optimizers import Plan
    from crag_dspy.optimize.runs.folder import Run

MAX_TURNS = 3
_STEP = 1e-9  # what counts as an improvement and not as rounding


def calls_of_turns(job: CompileJob) -> tuple[Plan, dict[str, int | None]]:
    """The optimizer's plan in one turn, and the calls of all turns at most."""
    turns, plan = _turns(job, job.left_by_estimate())
    optimizing = plan.calls(job.a_question.mean)
    return plan, {
        f"optimizing, {turns} turns": None if optimizing is None else turns * optimizing,
        f"thresholds, {turns} turns": turns * _calls_of_measuring(job),
    }


def _turns(job: CompileJob, calls: int | None) -> tuple[int, Plan]:
    """As many turns as `calls` pay for, and the optimizer's plan in each. Raises `ConfigError` when not even one."""
    measuring = _calls_of_measuring(job)
    for turns in range(MAX_TURNS, 1, -1):
        try:
            return turns, job.plan(None if calls is None else calls // turns - measuring)
        except ConfigError:
            continue
    return 1, job.plan(None if calls is None else calls - measuring)


def alternated(job: CompileJob, run: Run) -> dspy.Module | None:
    """The best program found, or None when nothing improved. A row a turn is appended to the run."""
    measuring = _calls_of_measuring(job)
    turns, _ = _turns(job, job.left_by_estimate())
    current, best, changed = job.program, job.score(job.program, job.division.val, "choosing"), False
    for turn in range(1, turns + 1):
        left = job.left_for_optimizing()
        if left is not None and left < measuring:
            job.notes.append(f"the budget ended the turns after {turn - 1}")
            break
        share = None if left is None else max(0, left // (turns - turn + 1) - measuring)
        row: dict[str, Any] = {"turn": turn, "before": best}
        moved = False

        made = job.optimized(current, share)
        if made is not None:
            score = job.score(made, job.division.val, "choosing")
            row["prompts"] = score
            if score > best + _STEP:
                current, best, moved = made, score, True

        found = _searched(job, current, turn)
        if found is not None:
            row |= {"thresholds": found.best.to_json(), "value_before": found.value_before}
            if found.best.value > found.value_before + _STEP:
                current, moved = with_models_of(found.candidate, current), True
                best = job.score(current, job.division.val, "choosing")
        run.append({**row, "moved": moved})
        changed = changed or moved
        if not moved:
            break
    return current if changed else None


def _searched(job: CompileJob, program: dspy.Module, turn: int) -> ThresholdSearch | None:
    """None when the calls did not suffice: an answer that could not be asked for says nothing about an action."""
    folder = None if job.folder is None else job.folder / f"thresholds-{turn}"
    arguments: dict[str, Any] = {"threads": job.threads, "progress": job.progress, "seed": job.seed}
    examples = [*job.division.train, *job.division.val]
    counted, refused = job.meter.metered_program(program), job.meter.refused
    with job.counting("thresholds"), job.meter.metering(job.limit()):
        try:
            found = search_thresholds(counted, examples, job.metric, run=folder, **arguments)
        except StaleOutcomesError:  # of a program that an interrupted run was trying
            found = search_thresholds(counted, examples, job.metric, run=folder, fresh=True, **arguments)
    if job.meter.refused == refused:
        return found
    job.meter.refused = refused
    job.notes.append(f"the budget was spent before the thresholds of turn {turn} were found")
    if folder is not None:
        shutil.rmtree(folder)
    return None


def _calls_of_measuring(job: CompileJob) -> int:
    """Of one turn: outcomes of three actions, and the choice between programs (twice)."""
    parts = job.division
    runs = 3 * (len(parts.train) + len(parts.val)) + 2 * len(parts.val)
    return round(runs * job.a_question.mean)
