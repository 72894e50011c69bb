"""`crag-dspy grader pairs`: question-text pairs to train a grader on, made in one of three ways.

--corpus or --index     weak labels, from your documents and the questions with answers that you have
--near                  pairs without labels: of each question texts that lie near, for a teacher to judge
--teacher NAME          soft labels by a teacher, for pairs without labels and with them
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crag_dspy.commands.grader import pairs_labelled, pairs_near, pairs_taught
from crag_dspy.commands.parsing import Files, json_argument, seed_argument
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import argparse

EXAMPLE = "crag-dspy grader pairs --corpus documents/ --questions questions.jsonl --out pairs"
OUT = "--out"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        OUT,
        required=True,
        metavar="PATH",
        help="a folder for train, dev and heldout.jsonl; a file with --near or --teacher",
    )
    parser.add_argument(
        "--questions",
        action=Files,
        default=[],
        metavar="A,B",
        help="files: JSONL or SQuAD JSON with answers or entities; with --near, text files or pairs",
    )
    seed_argument(parser, "of splits and draws")
    json_argument(parser)
    for way in (pairs_labelled, pairs_near, pairs_taught):
        way.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make the pairs; returns 0."""
    ways: dict[str, Any] = {
        "--corpus or --index": pairs_labelled if args.corpus or args.index else None,
        "--near": pairs_near if args.near else None,
        "--teacher": pairs_taught if args.teacher else None,
    }
    wanted = [(name, way) for name, way in ways.items() if way is not None]
    if len(wanted) != 1:
        given = " and ".join(name for name, _ in wanted) or "none of them"
        raise ConfigError(
            f"give one of --corpus, --index, --near and --teacher: what pairs are made from; got {given}"
        )
    return int(wanted[0][1].run(args))
