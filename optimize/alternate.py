"""Prompts and thresholds in turns.

The best thresholds depend on what each action answers, so on the prompts; and which questions a prompt is asked depends
on the thresholds. So the one is improved with the other held still, until neither gets better on the examples to choose
by. Every step is kept only if it improves there; whether the whole did is for the held-out examples to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dspy

from crag_dspy.errors import ConfigError, StaleOutcomesError
from crag_dspy.optimize.outcomes import Outcomes, collect_outcomes
from crag_dspy.optimize.thresholds import BestThresholds, best_thresholds
from crag_dspy.settings import Settings
from crag_dspy.steps import Grade

if TYPE_CHECKING:
    from crag_dspy.optimize.compile_job import CompileJob
    from crag_dspy.optimize.optimizers import Plan
    from crag_dspy.optimize.runs import Run

MAX_TURNS = 3
_STEP = 1e-9  # what counts as an improvement and not as rounding


def check_alternates(program: dspy.Module) -> None:
    """Raises `ConfigError` for a program without thresholds."""
    if len(_settings(program)) != 1:
        raise ConfigError(
            f"alternate=True needs a program with one set of thresholds, such as CRAG; {type(program).__name__} has "
            f"{len(_settings(program))}"
        )


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

        found = _thresholds(job, current, turn)
        settings = _settings(current)[0]
        value_now = found.value_at(settings.upper, settings.lower)
        row |= {"thresholds": found.to_json(), "value_before": value_now}
        if found.value > value_now + _STEP:
            current, moved = _with_thresholds(current, found), True
            best = job.score(current, job.division.val, "choosing")
        run.append({**row, "moved": moved})
        changed = changed or moved
        if not moved:
            break
    return current if changed else None


def _thresholds(job: CompileJob, program: dspy.Module, turn: int) -> BestThresholds:
    examples = [*job.division.train, *job.division.val]
    with job.counting("thresholds"):
        outcomes = _outcomes(job, job.meter.metered_program(program), examples, turn)
    return best_thresholds(outcomes.scores, outcomes.qualities(), _settings(program)[0].policy)


def _outcomes(job: CompileJob, program: dspy.Module, examples: list[dspy.Example], turn: int) -> Outcomes:
    folder = None if job.folder is None else job.folder / f"outcomes-{turn}"
    arguments: dict[str, Any] = {"run": folder, "threads": job.threads, "progress": job.progress}
    try:
        return collect_outcomes(program, examples, job.metric, **arguments)
    except StaleOutcomesError:  # of a program that an interrupted run was trying
        return collect_outcomes(program, examples, job.metric, fresh=True, **arguments)


def _with_thresholds(program: dspy.Module, found: BestThresholds) -> dspy.Module:
    made = program.deepcopy()
    _, step = next(made.named_sub_modules(Grade))
    _settings(made)[0].update(
        {
            "upper": found.upper,
            "lower": found.lower,
            "grader": step.part.name,
            "grader_fingerprint": step.part.fingerprint,
        }
    )
    return made


def _calls_of_measuring(job: CompileJob) -> int:
    """Of one turn: outcomes of three actions, and the choice between programs (twice)."""
    parts = job.division
    runs = 3 * (len(parts.train) + len(parts.val)) + 2 * len(parts.val)
    return round(runs * job.a_question.mean)


def _settings(program: dspy.Module) -> list[Settings]:
    return [part for part in program.parameters() if isinstance(part, Settings)]
