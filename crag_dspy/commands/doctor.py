"""`crag-dspy doctor`: what is configured, what is there, what is missing and how to get it.

    crag-dspy doctor --config crag.toml

It opens what lies on this machine and sends nothing anywhere: a hosted model, a vector database and a search service
are not contacted, and no hub is asked; with --connect, the vector database is. Keys are looked for and never shown.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from crag_dspy.commands.output import answer, answer_json, show
from crag_dspy.commands.status import OK, SOME_FAILED

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from crag_dspy.commands.doctor_checks import Finding

EXAMPLE = "crag-dspy doctor --config crag.toml"
_MARKS = {
    "ok": "[green]ok[/]",
    "missing": "[red]missing[/]",
    "optional": "[dim]-[/]",
    "note": "[yellow]note[/]",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="also check the parts of this crag.toml")
    parser.add_argument(
        "--connect", action="store_true", help="also ask the Weaviate that the configuration names"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a finding")


def run(args: argparse.Namespace) -> int:
    """Print the findings; returns 1 when something that is needed is missing, else 0."""
    from crag_dspy.commands.doctor_checks import check

    findings = check(Path(args.config) if args.config else None, connect=args.connect)
    if args.json:
        for finding in findings:
            answer_json(asdict(finding))
    else:
        _print(findings)
    return SOME_FAILED if any(finding.state == "missing" for finding in findings) else OK


def _print(findings: Sequence[Finding]) -> None:
    from rich.markup import escape
    from rich.table import Table

    found = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        said = escape(finding.says) + (f"\n[bold]->[/] {escape(finding.fix)}" if finding.fix else "")
        found.add_row(_MARKS[finding.state], escape(finding.name), said)
    show(found)
    missing = sum(finding.state == "missing" for finding in findings)
    answer(f"{missing} missing" if missing else "nothing is missing")
