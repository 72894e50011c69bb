"""A disk that is full, for one process: no file may grow beyond a size."""

from __future__ import annotations

import resource
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def no_space_beyond(size: int) -> Iterator[None]:
    """Writing more fails within a write, as on a full disk (with EFBIG in ENOSPC's place)."""
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handled)
