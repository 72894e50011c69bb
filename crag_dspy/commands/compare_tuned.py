"""What `crag-dspy compare` finds on other questions: thresholds of graders, cuts of sentences. And graders compared."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.commands.options import stop_after
from crag_dspy.commands.output import tell
from crag_dspy.commands.status import OK, SOME_FAILED
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import dspy


def _tuning_questions(args: argparse.Namespace, compared: Sequence[dspy.Example]) -> Sequence[dspy.Example]:
    from crag_dspy.optimize.questions.datasets import load

    examples: Sequence[dspy.Example] = load(args.tune_on)
    asked = {example.question for example in compared}
    shared = [example.question for example in examples if example.question in asked]
    if shared:
        raise ConfigError(
            f"--tune-on has {len(shared)} of the questions that are compared, such as {shared[0]!r}: thresholds that "
            "were found on them would flatter every grader; name a file with others"
        )
    return examples


def tuned_thresholds(
    args: argparse.Namespace, program: Any, wanted: Sequence[str], compared: Sequence[dspy.Example]
) -> dict[str, dict[str, float]]:
    """Thresholds of the other graders, found on other questions than those that are `compared`."""
    from crag_dspy.graders.adapt import as_grader
    from crag_dspy.optimize.comparison.grader_actions import compare_graders
    from crag_dspy.optimize.comparison.systems import other_graders

    others = other_graders(wanted)
    if not others or args.tune_on is None or args.dry_run:  # a dry run grades nothing
        return {}
    examples = _tuning_questions(args, compared)
    found = compare_graders(
        program,
        {name: as_grader(name) for name in others},
        examples,
        tune_on=examples,
        run=Path(args.run) / "tuning",
        threads=args.threads,
        stop_after=stop_after(args),
        fresh=args.fresh,
    )
    return {one.name: {"upper": one.thresholds.upper, "lower": one.thresholds.lower} for one in found.graders}


def sentence_cuts(
    args: argparse.Namespace, program: Any, wanted: Sequence[str], compared: Sequence[dspy.Example]
) -> dict[str, float]:
    """Below which score the best sentences of a system's name decline, found on other questions."""
    from crag_dspy.optimize.comparison.sentence_cut import sentence_cut
    from crag_dspy.optimize.comparison.systems import SENTENCES

    names = [name for name in wanted if name.partition(":")[0] in SENTENCES]
    if not names or args.tune_on is None or args.dry_run:
        return {}
    examples = _tuning_questions(args, compared)
    options = {"run": Path(args.run) / "tuning", "threads": args.threads, "fresh": args.fresh}
    return {name: sentence_cut(program, name, examples, **options) for name in names}


def print_graders(
    args: argparse.Namespace, program: Any, names: Sequence[str], examples: Sequence[dspy.Example]
) -> int:
    """The paper's comparison of graders, to stdout; returns 0, and 1 when a grader failed on some questions."""
    from crag_dspy.graders.adapt import as_grader
    from crag_dspy.optimize.comparison.grader_actions import compare_graders

    found = compare_graders(
        program,
        {name: as_grader(name) for name in names},
        examples,
        tune_on=None if args.tune_on is None else _tuning_questions(args, examples),
        run=Path(args.run) / "graders",
        threads=args.threads,
        stop_after=stop_after(args),
        seed=args.seed,
        fresh=args.fresh,
        by=args.by,
    )
    tell(args, found)
    return SOME_FAILED if any(one.failures for one in found.graders) else OK
