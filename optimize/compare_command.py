"""`crag-dspy compare`: systems side by side, on the same questions, with the same language model.

crag-dspy compare                                          # the sample's dev questions: no retrieval, RAG, CRAG
crag-dspy compare dev.jsonl --config crag.toml --systems rag,crag,selfcrag,ablations --run runs/compare
"""

from __future__ import annotations

import argparse
import json
import sys

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.command_line import (
    add_metric_arguments,
    add_program_arguments,
    add_question_arguments,
    opened_program,
    read_metric,
    read_questions,
)

SYSTEMS = ("none", "rag", "crag", "selfrag", "selfcrag", "ablations")
RUN = "runs/compare"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_question_arguments(parser, split="dev")
    add_program_arguments(parser)
    add_metric_arguments(parser)
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--systems",
        default="none,rag,crag",
        metavar="A,B",
        help=f"of {', '.join(SYSTEMS)}; the others are compared with the first (default: none,rag,crag)",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of intervals and tests (default: 0)")
    group.add_argument("--run", default=RUN, metavar="FOLDER", help=f"keeps the answers (default: {RUN})")
    group.add_argument("--fresh", action="store_true", help="throw away what the folder has")
    group.add_argument("--markdown", action="store_true", help="print the table for a README")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def run(args: argparse.Namespace) -> int:
    """Compare; returns 0."""
    wanted = [name.strip() for name in args.systems.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in SYSTEMS]
    if unknown or not wanted:
        raise ConfigError(f"--systems must be of {', '.join(SYSTEMS)}, got {args.systems!r}")
    examples, metric = read_questions(args), read_metric(args)

    import dspy

    from crag_dspy.commands.demo_systems import token_counter
    from crag_dspy.optimize.compare import compare
    from crag_dspy.optimize.compared_systems import systems_of

    with opened_program(args) as program:
        count, unit = token_counter(dspy.settings.lm)
        compared = compare(
            systems_of(program, wanted),
            examples,
            metric,
            count_tokens=count,
            unit=unit,
            run=args.run,
            threads=args.threads,
            seed=args.seed,
            fresh=args.fresh,
        )
    if args.json:
        sys.stdout.write(json.dumps(compared.to_json(), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write((compared.markdown() if args.markdown else str(compared)) + "\n")
    sys.stderr.write(f"Kept in {args.run}: open {args.run}/report.html\n")
    return 0
