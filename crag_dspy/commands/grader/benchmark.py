"""`crag-dspy grader benchmark`: how well graders tell relevant texts from irrelevant ones, on labelled pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crag_dspy.commands.grader.alone import alone
from crag_dspy.commands.output import answer_json, show_table
from crag_dspy.commands.parsing import Files, Listed, json_argument, seed_argument
from crag_dspy.graders.named import WRITTEN
from crag_dspy.state.plain import plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from crag_dspy.evaluator_train.measuring.results import Result

EXAMPLE = "crag-dspy grader benchmark --pairs pairs/heldout.jsonl --grader mini,embedding,runs/grader/grader"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pairs", required=True, action=Files, metavar="A,B", help="files: JSONL, TSV or CSV"
    )
    parser.add_argument("--grader", required=True, action=Listed, metavar="A,B", help=WRITTEN)
    parser.add_argument("--limit", type=int, metavar="N", help="pairs of each file, drawn by whole questions")
    seed_argument(parser, "of the draw")
    parser.add_argument("--out", metavar="FOLDER", help="for rows.jsonl, scores.jsonl and report.html")
    json_argument(parser, "one JSON line a grader and file")


def run(args: argparse.Namespace) -> int:
    """Measure; returns 0."""
    from crag_dspy.evaluator_train.measuring import benchmarking
    from crag_dspy.evaluator_train.pairs.labels import verdicts
    from crag_dspy.evaluator_train.pairs.pair_files import read_pairs
    from crag_dspy.graders import adapt

    # Everything that can be wrong with the arguments is found before hours of scoring.
    sets = {path: read_pairs(path) for path in args.pairs}
    if args.limit is not None:
        sets = {path: benchmarking.drawn(pairs, args.limit, args.seed) for path, pairs in sets.items()}
    for path, pairs in sets.items():
        verdicts(pairs, Path(path).name)
    graders = {name: adapt.as_grader(alone(name)) for name in dict.fromkeys(args.grader)}
    results: list[Result] = []
    for path, pairs in sets.items():
        for name, grader in graders.items():
            results.append(benchmarking.benchmark(grader, pairs, name=name, file=Path(path).name))
            if args.json:
                answer_json(plain(results[-1].row))
            if args.out:  # after every step: what is computed is not lost
                benchmarking.write_results(results, Path(args.out))
    if not args.json:
        _show(results)
    return 0


def _show(results: Sequence[Result]) -> None:
    """One table a file, narrow enough for 80 columns."""
    from crag_dspy.evaluator_train.measuring.benchmark_report import COLUMNS, cells

    for file in dict.fromkeys(result.row.file for result in results):
        own = [result.row for result in results if result.row.file == file]
        title = f"{file}: {own[0].pairs} pairs, {own[0].relevant} relevant"
        show_table(COLUMNS, [cells(row) for row in own], title)
