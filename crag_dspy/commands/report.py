"""`crag-dspy report`: the page of a run, as one file that needs no server and no internet.

crag-dspy report runs/thresholds            # writes runs/thresholds/report.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.commands.output import answer

if TYPE_CHECKING:
    import argparse

EXAMPLE = "crag-dspy report runs/thresholds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="RUN", help="the folder of thresholds, compile, compare or an evaluation"
    )
    parser.add_argument("--out", metavar="FILE", help="default: report.html in the folder")


def run(args: argparse.Namespace) -> int:
    """Write the report and print where it is; returns 0."""
    from crag_dspy.optimize.report.page import write_report

    answer(str(write_report(args.run, args.out)))
    return 0
