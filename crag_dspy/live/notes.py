"""What a part has to tell about the question that it works for, such as an item that it left out.

A part knows nothing of traces and predictions. It calls `note`, and whoever asked the part collects the notes and makes
warnings of them; where nobody collects, they are logged.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)

_collecting: contextvars.ContextVar[list[str] | None] = contextvars.ContextVar(
    "crag_dspy_notes", default=None
)


class Fault(str):
    """A note of something that failed, as a call to a service does: no property of what the part was asked about."""

    __slots__ = ()


def note(message: str) -> None:
    """Tell whoever asked; the same message once."""
    told = _collecting.get()
    if told is None:
        logger.warning(message)
    elif message not in told:
        told.append(message)


@contextmanager
def notes() -> Iterator[list[str]]:
    """Within, also in threads that run in a copy of this context, notes are put into the list that this gives."""
    told: list[str] = []
    token = _collecting.set(told)
    try:
        yield told
    finally:
        _collecting.reset(token)
