"""What a corrected retrieval says to a program that knows nothing of traces: its texts, and what did not work."""

from __future__ import annotations

from typing import Any

from crag_dspy.text.untrusted import one_line

NOTHING = "No evidence was found."


def spoken(found: Any) -> list[str]:
    """The texts of the evidence; where there is none because a part did not work, one text that says so.

    To a program an empty list means that nothing is known. That must not be what it reads when nothing could be asked.
    """
    if found.evidence or not found.trace.faults:
        return list(found.passages)
    return [f"{NOTHING} {told(found.warnings)}"]


def told(warnings: list[str]) -> str:
    """Warnings in one line. An error may repeat what a stranger's server said, so it is data like a page's text."""
    return f"Warnings: {'; '.join(one_line(warning) for warning in warnings)}" if warnings else ""
