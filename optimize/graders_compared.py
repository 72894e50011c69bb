"""What `crag-dspy compare` does about graders: their own comparison, and thresholds for those that replace another."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dspy


def _tuning_questions(args: argparse.Namespace) -> Sequence[dspy.Example]:
    from crag_dspy.optimize.datasets import load

    examples: Sequence[dspy.Example] = load(args.tune_on)
    return examples


def tuned_thresholds(
    args: argparse.Namespace, program: Any, wanted: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Thresholds of the other graders, found on other questions than those of the comparison."""
    from crag_dspy.optimize.compared_systems import grader_of, other_graders
    from crag_dspy.optimize.grader_actions import compare_graders

    others = other_graders(wanted)
    if not others or args.tune_on is None or args.dry_run:  # a dry run grades nothing
        return {}
    graders = {name: grader_of(name) for name in others}
    examples = _tuning_questions(args)
    found = compare_graders(program, graders, examples, run=Path(args.run) / "tuning", tune_on=examples)
    return {one.name: {"upper": one.thresholds.upper, "lower": one.thresholds.lower} for one in found.graders}


def print_graders(
    args: argparse.Namespace, program: Any, names: Sequence[str], examples: Sequence[dspy.Example]
) -> int:
    """The paper's comparison of graders, to stdout; returns 0."""
    from crag_dspy.optimize.compared_systems import grader_of
    from crag_dspy.optimize.grader_actions import compare_graders

    found = compare_graders(
        program,
        {name: grader_of(name) for name in names},
        examples,
        tune_on=None if args.tune_on is None else _tuning_questions(args),
        run=Path(args.run) / "graders",
        threads=args.threads,
        seed=args.seed,
        fresh=args.fresh,
    )
    text = json.dumps(found.to_json()) if args.json else found.markdown() if args.markdown else str(found)
    sys.stdout.write(text + "\n")
    return 0
