"""`crag-dspy grader time`: how fast a grader is on this machine, beside the loop of the official CRAG code."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from crag_dspy.commands.output import answer_json, show_table
from crag_dspy.commands.parsing import Files, Listed, json_argument

if TYPE_CHECKING:
    import argparse

    from crag_dspy.evaluator_train.measuring.speed import Timing

EXAMPLE = "crag-dspy grader time --pairs pairs/heldout.jsonl --threads 1"
PRECISIONS = ["fp32", "bf16", "int8"]
COLUMNS = ("way", "in", "pairs/s", "speed-up", "off by", "AUC", "of matmul")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--grader", default="mini", metavar="NAME", help="a shipped T5, a folder or a hub id")
    parser.add_argument(
        "--pairs", required=True, action=Files, metavar="A,B", help="files: JSONL, TSV or CSV"
    )
    parser.add_argument("--limit", type=int, default=256, metavar="N", help="time at most so many pairs")
    parser.add_argument(
        "--official", type=int, default=32, metavar="N", help="pairs for the official loop, which is slow"
    )
    parser.add_argument(
        "--precision",
        action=Listed,
        choices=PRECISIONS,
        default=PRECISIONS,
        metavar="A,B",
        help="of the weights",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="default: torch's own choice")
    json_argument(parser, "one JSON line a row")


def run(args: argparse.Namespace) -> int:
    """Time it; returns 0."""
    import torch

    from crag_dspy.evaluator_train.measuring.speed import time_grader
    from crag_dspy.evaluator_train.pairs.pair_files import read_pairs
    from crag_dspy.state.arguments import check_whole

    if args.threads is not None:
        check_whole("--threads", args.threads)
        torch.set_num_threads(args.threads)
    found = [pair for path in args.pairs for pair in read_pairs(path)][: args.limit]
    rows = time_grader(
        args.grader,
        [(pair.question, pair.text) for pair in found],
        [int(pair.relevant) for pair in found],
        official=args.official,
        precisions=args.precision,
    )
    threads = torch.get_num_threads()
    if args.json:
        for row in rows:
            answer_json({**asdict(row), "threads": threads})
        return 0
    words = sum(len(pair.text.split()) for pair in found) / len(found)
    title = f"{args.grader}: {len(found)} pairs, {words:.0f} words a text, {threads} threads"
    show_table(COLUMNS, map(_cells, rows), title)
    return 0


def _cells(row: Timing) -> list[str]:
    return [
        row.way,
        row.precision,
        f"{row.pairs_per_second:.1f}",
        f"{row.times_official:.1f}",
        "" if row.difference is None else f"{row.difference:.1e}",
        "" if row.auc is None else f"{row.auc:.4f}",
        "" if row.of_matmul is None else f"{row.of_matmul:.0%}",
    ]
