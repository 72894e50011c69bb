"""Asking a program the held-out questions, and those that turns are judged by."""

from __future__ import annotations

from typing import Any

import dspy

from crag_dspy.errors import StaleOutcomesError
from crag_dspy.optimize.prompts.job import CompileJob
from crag_dspy.optimize.runs.evaluation import Evaluation, evaluate


def judged(job: CompileJob, program: dspy.Module, when: str) -> Evaluation:
    """On the held-out questions, kept in the job's folder as `when`.

    Raises:
        BudgetSpentError: the calls did not suffice. What was answered is kept, and a run in the same folder goes on.
    """
    given = job.arguments
    arguments: dict[str, Any] = {
        "run": None if given.folder is None else given.folder / when,
        "by": given.by,
        "threads": given.threads,
        "traces": True,
        "seed": given.seed,
        "progress": given.progress,
    }
    with job.counting(f"judging {when}"):
        try:
            found = evaluate(program, job.division.held, job.metric, **arguments)
        except StaleOutcomesError:  # answers of an earlier candidate
            found = evaluate(program, job.division.held, job.metric, fresh=True, **arguments)
    return found


def turn_score(job: CompileJob, program: dspy.Module) -> float:
    """Mean quality on the examples to judge turns by, kept nowhere.

    Raises:
        BudgetSpentError: calls were refused.
    """
    given = job.arguments
    with job.counting("choosing"):
        found = evaluate(program, job.turn, job.metric, threads=given.threads, progress=given.progress)
    return found.score
