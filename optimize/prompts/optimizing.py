"""One run of the optimizer, within a number of calls: what it made of the prompts, and nothing else."""

from __future__ import annotations

import dspy

from crag_dspy.errors import BudgetSpentError, ConfigError, OptimizerError, cause_of, message_of
from crag_dspy.optimize.prompts.alive import Alive
from crag_dspy.optimize.prompts.guarded import Guarded, guarded_optimizer
from crag_dspy.optimize.prompts.job import CompileJob
from crag_dspy.optimize.prompts.labelled import labelled_demos
from crag_dspy.optimize.prompts.plan import fitting_plan, shuffled
from crag_dspy.optimize.prompts.predictors import predictors_of, prompts_of, student_of, with_prompts
from crag_dspy.optimize.prompts.proposing import PresentInstruction
from crag_dspy.optimize.prompts.remember import remember
from crag_dspy.optimize.runs.cap import Cap, capped, refusals
from crag_dspy.optimize.runs.lm_calls import through


def optimized(job: CompileJob, program: dspy.Module, calls: int | None = None) -> dspy.Module | None:
    """The program with new prompts; None when there are none better, or the calls did not suffice for any.

    Args:
        calls: what the optimizer is sized to; more are made up to what the last judging needs.

    Raises:
        OptimizerError: the optimizer failed, or the language model did.
        BudgetSpentError: a cap around the job is spent.
    """
    working = program.deepcopy()
    remember(working)
    student = student_of(working, job.names)
    limit = Cap(job.left_for_optimizing())
    adapter = PresentInstruction(dspy.settings.adapter or dspy.ChatAdapter())
    alive = Alive(limit)
    with (
        job.counting("optimizing"),
        capped(limit),
        through(alive),
        refusals() as refused,
        dspy.context(adapter=adapter),
    ):
        try:
            made = _compiled(job, student, working, refused, calls)
        except ConfigError:
            raise
        except Exception as error:
            alive.check()
            if not refused:
                raise OptimizerError(f"the optimizer failed: {cause_of(error)}") from error
            made = None
        alive.check()
    if refused and not limit.refused and not job.cap.refused:
        raise refused[0]  # by a cap around the whole job: nothing more can be asked
    return _told(job, program, made, refused)


def _told(
    job: CompileJob, program: dspy.Module, made: dspy.Module | None, refused: list[BudgetSpentError]
) -> dspy.Module | None:
    if made is None:
        if refused:
            job.notes.append("the budget was spent before the optimizer had a result")
        return None
    if refused:
        job.notes.append("the budget was spent before the optimizer was done: its best until then is judged")
    new = with_prompts(program, made, job.names)
    if prompts_of(new) == prompts_of(program):
        job.notes.append("the optimizer found nothing better than the prompts there were")
        return None
    return new


def _compiled(
    job: CompileJob,
    student: dspy.Module,
    working: dspy.Module,
    refused: list[BudgetSpentError],
    calls: int | None,
) -> dspy.Module | None:
    if job.optimizer == "labeled" or type(job.optimizer) is dspy.LabeledFewShot:
        return _labelled(job, student, working)
    task = job.task(Guarded(job.metric, refused), refused)
    optimizer = job.optimizer
    if not isinstance(optimizer, str):
        optimizer = guarded_optimizer(optimizer, job.metric, refused)
    try:
        plan = fitting_plan(optimizer, task, job.a_question.mean, calls)
    except ConfigError as error:  # it was foreseen to fit, but what came before took more
        if calls is None:
            raise
        job.notes.append(message_of(error))
        return None
    return plan.compile(student, task)


def _labelled(job: CompileJob, student: dspy.Module, working: dspy.Module) -> dspy.Module:
    """Demonstrations from the gold answers, with the context that the program finds for them."""
    made = labelled_demos(working, shuffled(job.division.train, job.arguments.seed), job.names)
    if not any(made.values()):
        raise ConfigError(
            "no labelled demonstration can be made: no output of the predictors is labelled in the examples, or "
            "the evidence never has the answer. Use optimizer='bootstrap'"
        )
    given = getattr(job.optimizer, "k", None) or job.arguments.options.get("k", 4)
    for name, predictor in predictors_of(student).items():
        if made.get(name):
            predictor.demos = dspy.LabeledFewShot(given).compile(predictor, trainset=made[name]).demos
    bare = [name for name in job.names if not made.get(name)]
    if bare:
        job.notes.append(f"nothing in the examples labels what {', '.join(bare)} should say: left as it was")
    return student
