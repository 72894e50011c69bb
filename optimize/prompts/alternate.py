"""Prompts and thresholds in turns.

The best thresholds depend on what each action answers, so on the prompts; and which questions a prompt is asked depends
on the thresholds. So the one is improved with the other held still, until neither gets better on examples that did not
choose it: prompts on those that the optimizer has not seen, thresholds cross-fitted. Whether the whole is better beyond
noise is for the held-out examples to say.
"""

from __future__ import annotations

from typing import Any

import dspy

from crag_dspy.errors import BudgetSpentError, ConfigError, StaleOutcomesError
from crag_dspy.optimize.prompts.job import CompileJob
from crag_dspy.optimize.prompts.judging import turn_score
from crag_dspy.optimize.prompts.optimizing import optimized
from crag_dspy.optimize.prompts.plan import Plan
from crag_dspy.optimize.prompts.predictors import with_models_of
from crag_dspy.optimize.runs.cap import Cap, capped
from crag_dspy.optimize.runs.folder import Run
from crag_dspy.optimize.thresholds.search import ThresholdSearch, search_thresholds

MAX_TURNS = 3
_STEP = 1e-9  # what counts as an improvement and not as rounding


def fitting_turns(job: CompileJob, calls: int | None) -> tuple[int, Plan]:
    """As many turns as `calls` pay for, and the optimizer's plan in each. Raises `ConfigError` when not even one."""
    measuring = calls_of_measuring(job)
    for turns in range(MAX_TURNS, 1, -1):
        try:
            return turns, job.plan(None if calls is None else calls // turns - measuring)
        except ConfigError:
            continue
    return 1, job.plan(None if calls is None else calls - measuring)


def runs_of_measuring(job: CompileJob) -> int:
    """Program runs of one turn: outcomes of three actions, and the choice between programs (twice)."""
    return 3 * len(job.learned) + 2 * len(job.turn)


def calls_of_measuring(job: CompileJob) -> int:
    return round(runs_of_measuring(job) * job.a_question.mean)


def alternated(job: CompileJob, run: Run) -> dspy.Module | None:
    """The best program found, or None when nothing improved. A row a turn is appended to the run."""
    turns, _ = fitting_turns(job, job.share)
    best = _chosen(job, job.program)
    if best is None:
        return None
    current, changed = job.program, False
    for turn in range(1, turns + 1):
        left = job.left_for_optimizing()
        measuring = calls_of_measuring(job)
        if left is not None and left < measuring:
            job.notes.append(f"the budget ended the turns after {turn - 1}")
            break
        share = None if left is None else max(0, left // (turns - turn + 1) - measuring)
        row: dict[str, Any] = {"turn": turn, "before": best}
        moved = False

        made = optimized(job, current, share)
        score = None if made is None else _chosen(job, made)
        if made is not None and score is not None:
            row["prompts"] = score
            if score > best + _STEP:
                current, best, moved = made, score, True

        found = _searched(job, current, turn)
        if found is not None:
            row |= {"thresholds": found.best.to_json(), "value_before": found.value_before}
            gained = 0.0 if found.change is None or found.failures else found.change.difference
            row["cross_fitted"] = gained
            if gained > _STEP:
                current, moved = with_models_of(found.candidate, current), True
                best = _chosen(job, current) or best
        run.append({**row, "moved": moved})
        changed = changed or moved
        if not moved:
            break
    return current if changed else None


def _chosen(job: CompileJob, program: dspy.Module) -> float | None:
    """Quality on the examples to judge turns by; None when the calls did not suffice."""
    with capped(Cap(job.left_for_optimizing())):
        try:
            return turn_score(job, program)
        except BudgetSpentError as error:
            _stopped(job, error, "the programs of a turn were compared")
            return None


def _searched(job: CompileJob, program: dspy.Module, turn: int) -> ThresholdSearch | None:
    """None when the calls did not suffice: an answer that could not be asked for says nothing about an action."""
    given = job.arguments
    folder = None if given.folder is None else given.folder / f"thresholds-{turn}"
    arguments: dict[str, Any] = {
        "by": given.by,
        "threads": given.threads,
        "progress": given.progress,
        "seed": given.seed,
    }
    with job.counting("thresholds"), capped(Cap(job.left_for_optimizing())):
        try:
            try:
                return search_thresholds(program, job.learned, job.metric, run=folder, **arguments)
            except StaleOutcomesError:  # of a program that an interrupted run was trying
                return search_thresholds(
                    program, job.learned, job.metric, run=folder, fresh=True, **arguments
                )
        except BudgetSpentError as error:
            _stopped(job, error, f"the thresholds of turn {turn} were found")
            return None


def _stopped(job: CompileJob, error: BudgetSpentError, before: str) -> None:
    """The job's own budget ends a step; a cap around the job ends all of it."""
    if job.cap.calls is None:
        raise error
    job.notes.append(f"the budget was spent before {before}")
