"""`crag-dspy compile`: better prompts from your questions, within a budget, judged on questions they have not seen.

    crag-dspy compile --dry-run                                      # what it would cost; calls no language model
    crag-dspy compile --optimizer mipro --budget 2000 --out crag.json
    crag-dspy compile train.jsonl --heldout dev.jsonl --config crag.toml --alternate

The program is kept only if it is better beyond noise. Without arguments it is the sample: learned on its train
questions, judged on its test questions.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crag_dspy.commands.options import (
    SAMPLE,
    add_metric_arguments,
    add_program_arguments,
    add_question_arguments,
    check_target,
    opened_program,
    read_metric,
    read_questions,
)
from crag_dspy.commands.output import kept_in, note, tell
from crag_dspy.commands.parsing import Listed
from crag_dspy.commands.paying import add_paying_arguments, paying
from crag_dspy.commands.status import OK, SOME_FAILED
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.prompts.optimizers import OPTIMIZERS

if TYPE_CHECKING:
    import dspy

EXAMPLE = "crag-dspy compile train.jsonl --heldout dev.jsonl --config crag.toml --optimizer mipro"
RUN = "runs/compile"
TEST = "test"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_question_arguments(parser, split="train")
    add_program_arguments(parser)
    add_metric_arguments(parser)
    add_paying_arguments(parser)
    group = parser.add_argument_group("compiling")
    group.add_argument(
        "--optimizer",
        type=_optimizer,
        choices=list(OPTIMIZERS),
        default="bootstrap",
        help="or DSPy's name of it, such as MIPROv2; default: bootstrap",
    )
    group.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE",
        help="of the optimizer, such as max_bootstrapped_demos=2; may be repeated",
    )
    group.add_argument(
        "--predictors",
        action=Listed,
        metavar="A,B",
        help="which prompts may change: rewrite, generate, reflect; default: all",
    )
    group.add_argument(
        "--heldout",
        metavar="QUESTIONS",
        help="judged on, never learned from: a file, or a split of the same questions; default: the test split, or "
        "40%% of questions without splits",
    )
    group.add_argument(
        "--by",
        metavar="FIELD",
        help="of a question, that names its document (default: document, or its passages)",
    )
    group.add_argument("--heldout-limit", type=int, metavar="N", help="the first N of them")
    group.add_argument(
        "--budget",
        type=int,
        metavar="N",
        help="LM calls in all, to which the optimizer is sized; a call beyond is refused; default: --max-calls",
    )
    group.add_argument(
        "--prompt-lm", metavar="MODEL", help="proposes instructions; default: the program's own"
    )
    group.add_argument(
        "--alternate", action="store_true", help="search thresholds and compile prompts in turns"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    group.add_argument("--dry-run", action="store_true", help="say what it would cost, and stop")
    group.add_argument(
        "--run", default=RUN, metavar="FOLDER", help="keeps what comes out; the same again goes on"
    )
    group.add_argument("--fresh", action="store_true", help="throw away what the folder has")
    group.add_argument("--out", metavar="FILE", help="write the program that is kept to this file too")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(args: argparse.Namespace) -> int:
    """Compile; returns 0 whichever program is kept, and 1 when some held-out questions failed."""
    check_target(args.out)
    options = _options(args.set)
    trainset, heldout = _divided(args, read_questions(args))
    metric = read_metric(args)

    from crag_dspy.optimize.prompts.arguments import CompileArguments
    from crag_dspy.optimize.prompts.compiling import compile_job
    from crag_dspy.optimize.prompts.estimate import estimated
    from crag_dspy.optimize.prompts.job import CompileJob

    with opened_program(args) as program, _cached_replies(args), paying(args):
        arguments = CompileArguments(
            optimizer=args.optimizer,
            predictors=args.predictors,
            heldout=heldout,
            by=args.by,
            budget=args.max_calls if args.budget is None else args.budget,
            options=options,
            prompt_lm=_prompt_lm(args.prompt_lm),
            alternate=args.alternate,
            run=None if args.dry_run else args.run,
            seed=args.seed,
            threads=args.threads,
            fresh=args.fresh,
        )
        job = CompileJob(program, trainset, metric, arguments)
        told = estimated(job)
        for said in job.notes:
            note(f"note: {said}")
        if args.dry_run:
            tell(args, told)
            return OK
        note(str(told))
        with contextlib.redirect_stdout(sys.stderr):  # DSPy's optimizers print their progress
            compiled = compile_job(job)
        if args.out:
            compiled.program.save(args.out)
    tell(args, compiled)
    kept_in(args.run, "report.html")
    if args.out:
        note(f"Program saved to {args.out}.")
    return SOME_FAILED if any(compiled.failures.values()) else OK


def _optimizer(text: str) -> str:
    """Our name where DSPy's is given."""
    return next((name for name, entry in OPTIMIZERS.items() if entry.kind.lower() == text.lower()), text)


def _divided(
    args: argparse.Namespace, examples: list[dspy.Example]
) -> tuple[list[dspy.Example], list[dspy.Example] | None]:
    """Questions to learn from, and the held-out ones: those that were named, or the test split; None leaves it to
    `divide`. Questions of the dev split may have chosen the settings, and judge nothing.
    """
    from pathlib import Path

    from crag_dspy.optimize.questions.datasets import load

    named = args.heldout
    if named is None and args.questions == SAMPLE:
        named = TEST
    in_a_file = args.questions != SAMPLE and Path(args.questions).expanduser().exists()
    if named is None and in_a_file:
        judging = [example for example in load(args.questions) if example.get("split") == TEST]
        learning = [example for example in examples if example.get("split") != TEST]
        if judging and learning:
            return learning, judging[: args.heldout_limit]
    if named is None:
        if args.heldout_limit is not None:
            raise ConfigError("--heldout-limit needs --heldout, or questions with a test split")
        return examples, None
    if args.questions != SAMPLE and Path(named).expanduser().exists():
        return examples, load(named, limit=args.heldout_limit)
    other = argparse.Namespace(**{**vars(args), "split": named, "limit": args.heldout_limit})
    return examples, read_questions(other)


def _options(given: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE, where a value is JSON (a number, true, null) or else a text."""
    options: dict[str, Any] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set must be like max_bootstrapped_demos=2, got {text!r}")
        try:
            options[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            options[name.replace("-", "_")] = value
    return options


def _prompt_lm(name: str | None) -> Any:
    if name is None:
        return None
    if name == "local":
        from crag_dspy.lms.local import local_lm

        return local_lm()

    import dspy

    return dspy.LM(name)


@contextmanager
def _cached_replies(args: argparse.Namespace) -> Iterator[None]:
    """With the sample, replies are cached: the demo's model, which it uses, is not, since the demo measures seconds.

    An optimizer asks many questions again; and a run that is started a second time then repeats no call.
    """
    import dspy

    lm = dspy.settings.lm
    if args.config is not None or lm is None:
        yield
        return
    with dspy.context(lm=lm.copy(cache=True)):
        yield
