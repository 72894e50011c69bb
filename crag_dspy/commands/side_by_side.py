"""What `compare` and `robustness` have in common: systems that are asked the same, an estimate first, and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crag_dspy.commands.options import (
    add_metric_arguments,
    add_program_arguments,
    add_question_arguments,
    stop_argument,
)
from crag_dspy.commands.output import answer, answer_json, note
from crag_dspy.commands.parsing import Listed, json_argument, seed_argument
from crag_dspy.commands.paying import add_paying_arguments
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

SYSTEMS = (
    "none, rag, rag:N (on N passages), both:N (and N pages), words:N, embedding:N, mixed:N (the N best sentences of "
    "both), crag, selfrag, selfcrag, ablations, graders, or one of these such as "
    "without-rewriting; the first is what the others are compared with"
)
PROBES = 2


def add_arguments(parser: argparse.ArgumentParser, systems: Sequence[str], run: str, seeded: str) -> Any:
    """Everything that both have; returns the group of the command's own."""
    add_question_arguments(parser, split="dev", by=True)
    add_program_arguments(parser)
    add_metric_arguments(parser)
    add_paying_arguments(parser)
    group = parser.add_argument_group("comparison")
    group.add_argument("--systems", action=Listed, default=list(systems), metavar="A,B", help=SYSTEMS)
    seed_argument(group, seeded)
    group.add_argument(
        "--run", default=run, metavar="FOLDER", help="keeps the answers; the same again goes on"
    )
    group.add_argument("--fresh", action="store_true", help="throw away what the folder has")
    stop_argument(group)
    group.add_argument(
        "--probe",
        type=int,
        metavar="N",
        help=f"ask every system N questions before the estimate; they count (default: {PROBES}, and 0 with --dry-run)",
    )
    group.add_argument("--dry-run", action="store_true", help="print the estimate and stop")
    group.add_argument("--markdown", action="store_true", help="print the tables for a README")
    json_argument(parser)
    return group


def no_lm_argument(group: Any) -> None:
    """--no-lm: see `optimize/comparison/no_lm.py`."""
    group.add_argument(
        "--no-lm",
        action="store_true",
        help="ask no language model: judge the evidence alone, by answer_in_evidence; the web is asked the question",
    )


def probes_of(args: argparse.Namespace) -> int:
    """How many questions are asked before the estimate."""
    given = args.probe if args.probe is not None else 0 if args.dry_run else PROBES
    if given < 0:
        raise ConfigError(f"--probe must be at least 0, got {given}")
    return int(given)


def tell_estimates(args: argparse.Namespace, estimates: Sequence[tuple[str, Any]]) -> bool:
    """The estimates by name ("" for one alone), as the answer of a dry run and else as a note; whether to go on."""
    if args.dry_run and args.json:
        plain = {name: estimate.to_json() for name, estimate in estimates}
        answer_json(plain.get("", plain))
        return False
    for name, estimate in estimates:
        line = f"{name}: {estimate}" if len(estimates) > 1 else str(estimate)
        answer(line) if args.dry_run else note(line)
    return not args.dry_run
