"""A command as a test runs it: its own parser, its own errors."""

from __future__ import annotations

from crag_dspy.commands import cli


def run_command(*arguments: str) -> int:
    """`crag-dspy ARGUMENTS` in this process; what `main` would print as one line is raised here."""
    return cli.run(cli.parsed(arguments))
