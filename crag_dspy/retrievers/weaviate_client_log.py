"""What the client says only in its log, and what it had better not say there.

It logs every object that was refused, whole and with its vector (887 KB for 100 of them). And it sends a batch again
by itself when a node was away, which nothing else tells; a batch that may have been sent before must be deleted first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Noticed:
    """`retried`: the client sent something again by itself."""

    retried: bool = False


@contextmanager
def client_log() -> Iterator[Noticed]:
    """Within it, what the client logs in this thread is read, and its refused objects are left out of the log."""
    logger, thread = logging.getLogger("weaviate-client"), threading.get_ident()
    noticed, level = Noticed(), logger.level

    def read(record: logging.LogRecord) -> bool:
        if record.thread == thread:
            if "Retrying with exponential backoff" in str(record.msg):
                noticed.retried = True
            if isinstance(record.msg, dict) and "errors" in record.msg:
                record.msg = str(record.msg.get("message", ""))
        return record.levelno >= level

    logger.addFilter(read)
    if not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    try:
        yield noticed
    finally:
        logger.removeFilter(read)
        logger.setLevel(level)
