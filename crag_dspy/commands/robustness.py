"""`crag-dspy robustness`: the curve of every system as its retrieval gets worse.

crag-dspy robustness bench/questions.test.jsonl --config bench/crag.toml --limit 100 --run runs/robustness
crag-dspy robustness bench/questions.test.jsonl --config bench/crag.toml --rates 0,0.5,1 --decoys 5,10

Passages that answer a question are left out at rates from 0 to 1; with --decoys, passages that do not answer are added.
The estimate comes first; the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from crag_dspy.commands.options import (
    add_metric_arguments,
    add_program_arguments,
    add_question_arguments,
    opened_program,
    read_metric,
    read_questions,
)
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from crag_dspy.optimize.comparison.robustness import Robustness

EXAMPLE = "crag-dspy robustness bench/questions.test.jsonl --config bench/crag.toml --rates 0,0.5,1"
SYSTEMS = "rag,crag"
RATES = "0,0.2,0.4,0.6,0.8,1"
RUN = "runs/robustness"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_question_arguments(parser, split="dev", by=True)
    add_program_arguments(parser)
    add_metric_arguments(parser)
    group = parser.add_argument_group("robustness")
    group.add_argument(
        "--systems",
        default=SYSTEMS,
        metavar="A,B",
        help=f"as in compare: none, rag, rag:N, crag, selfrag, selfcrag, ... (default: {SYSTEMS})",
    )
    group.add_argument(
        "--rates", default=RATES, metavar="X,Y", help=f"of answering passages left out (default: {RATES})"
    )
    group.add_argument("--decoys", metavar="M,N", help="numbers of passages to add that do not answer")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of what is left out (default: 0)")
    group.add_argument("--run", default=RUN, metavar="FOLDER", help=f"keeps the answers (default: {RUN})")
    group.add_argument("--fresh", action="store_true", help="throw away what the folder has")
    group.add_argument(
        "--probe",
        type=int,
        metavar="N",
        help="ask every system N questions before the estimate; they count (default: 2, and 0 with --dry-run)",
    )
    group.add_argument("--dry-run", action="store_true", help="print the estimate and stop")
    group.add_argument("--markdown", action="store_true", help="print the tables for a README")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")


def run(args: argparse.Namespace) -> int:
    """Measure; returns 0."""
    from crag_dspy.commands.compare import probes_of, read_names, read_numbers
    from crag_dspy.optimize.comparison.curves import PLOT, RobustnessCurves

    rates = _rates(args.rates)
    decoys = [] if args.decoys is None else read_numbers("--decoys", args.decoys)
    names, examples, metric = read_names("--systems", args.systems), read_questions(args), read_metric(args)
    probe = probes_of(args)

    import dspy

    from crag_dspy.commands.demo_systems import token_counter
    from crag_dspy.optimize.comparison.robustness import Robustness

    with opened_program(args) as program:
        count, _ = token_counter(dspy.settings.lm)
        plan = Robustness(
            program, names, examples, rates=rates, decoys=decoys, seed=args.seed, run=args.run, by=args.by
        )
        options = {"count_tokens": count, "threads": args.threads}
        if probe:
            plan.ask(metric, first=probe, fresh=args.fresh, **options)
        _tell(plan, args)
        if args.dry_run:
            return 0
        curves: RobustnessCurves | None = plan.ask(metric, fresh=args.fresh and not probe, **options)
    if curves is not None:
        text = (
            json.dumps(curves.to_json()) if args.json else curves.markdown() if args.markdown else str(curves)
        )
        sys.stdout.write(text + "\n")
    sys.stderr.write(f"Kept in {args.run}: open {args.run}/{PLOT}\n")
    return 0


def _tell(plan: Robustness, args: argparse.Namespace) -> None:
    from crag_dspy.commands.compare import probes_of
    from crag_dspy.optimize.comparison.estimating import CompareEstimate

    afresh = args.fresh and not probes_of(args)
    estimate = CompareEstimate([one for each in plan.estimates(afresh) for one in each.systems])
    out = sys.stdout if args.dry_run else sys.stderr
    out.write(json.dumps(estimate.to_json()) + "\n" if args.dry_run and args.json else f"{estimate}\n")


def _rates(given: str) -> list[float]:
    try:
        return [float(part) for part in given.split(",")]
    except ValueError as error:
        raise ConfigError(
            f"--rates must be numbers from 0 to 1 with commas between, got {given!r}"
        ) from error
