"""`crag-dspy robustness`: the curve of every system as its retrieval gets worse.

crag-dspy robustness bench/questions.test.jsonl --config bench/crag.toml --limit 100 --run runs/robustness
crag-dspy robustness bench/questions.test.jsonl --config bench/crag.toml --rates 0,0.5,1 --decoys 5,10

Passages that answer a question are left out at rates from 0 to 1; with --decoys, passages that do not answer are added.
The estimate comes first; the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from crag_dspy.commands import side_by_side
from crag_dspy.commands.options import (
    opened_program,
    read_metric,
    read_questions,
    stop_after,
)
from crag_dspy.commands.output import kept_in, tell
from crag_dspy.commands.parsing import Listed
from crag_dspy.commands.paying import paying
from crag_dspy.commands.side_by_side import probes_of, tell_estimates
from crag_dspy.commands.status import OK, SOME_FAILED

if TYPE_CHECKING:
    from crag_dspy.optimize.comparison.estimating import CompareEstimate
    from crag_dspy.optimize.comparison.robustness import Robustness

EXAMPLE = "crag-dspy robustness bench/questions.test.jsonl --config bench/crag.toml --rates 0,0.5,1"
SYSTEMS = ("rag", "crag")
RATES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
RUN = "runs/robustness"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = side_by_side.add_arguments(parser, SYSTEMS, RUN, "of what is left out")
    group.add_argument(
        "--rates",
        action=Listed,
        of=float,
        default=list(RATES),
        metavar="A,B",
        help="of answering passages left out, from 0 to 1",
    )
    group.add_argument(
        "--decoys",
        action=Listed,
        of=int,
        default=[],
        metavar="A,B",
        help="passages to add that do not answer",
    )


def run(args: argparse.Namespace) -> int:
    """Measure; returns 0, and 1 when some questions failed and count as failures."""
    from crag_dspy.optimize.comparison.curves import PLOT, RobustnessCurves

    examples, metric, probe = read_questions(args), read_metric(args), probes_of(args)

    import dspy

    from crag_dspy.commands.demo_systems import token_counter
    from crag_dspy.optimize.comparison.robustness import Robustness

    with opened_program(args) as program, paying(args):
        count, _ = token_counter(dspy.settings.lm)
        plan = Robustness(
            program,
            args.systems,
            examples,
            rates=args.rates,
            decoys=args.decoys,
            seed=args.seed,
            run=args.run,
            by=args.by,
        )
        options = {"count_tokens": count, "threads": args.threads, "stop_after": stop_after(args)}
        if probe:
            plan.ask(metric, first=probe, fresh=args.fresh, **options)
        if not tell_estimates(args, [("", _estimate(plan, args))]):
            return 0
        curves: RobustnessCurves | None = plan.ask(metric, fresh=args.fresh and not probe, **options)
    if curves is not None:
        tell(args, curves)
    kept_in(args.run, PLOT)
    return SOME_FAILED if curves is not None and curves.failure_lines() else OK


def _estimate(plan: Robustness, args: argparse.Namespace) -> CompareEstimate:
    from crag_dspy.optimize.comparison.estimating import CompareEstimate

    afresh = args.fresh and not probes_of(args)
    return CompareEstimate([one for each in plan.estimates(afresh) for one in each.systems])
