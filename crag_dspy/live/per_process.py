"""A live part that each process makes for itself, when it first needs it.

A server that loads its program and then forks (gunicorn with preload) must not share sockets with its
children: two processes reading one connection get each other's replies.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class PerProcess(Generic[T]):
    """`get()` makes the part once a process, under a lock, and returns it ever after.

    What a parent made stays referenced in its children, unused: finalising it there could close the parent's
    connections (gRPC says goodbye on the shared socket).
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[int, T] = {}
        # One lock a process: a lock that another thread held at the fork stays locked in the child for ever.
        self._locks: dict[int, threading.Lock] = {}

    def get(self) -> T:
        """This process's part. Whatever `make` raises is raised, and the next call tries again."""
        pid = os.getpid()
        made = self._made.get(pid)  # looked up once: another thread may take it meanwhile
        if made is None:
            with self._locks.setdefault(pid, threading.Lock()):
                made = self._made.get(pid)
                if made is None:
                    made = self._made[pid] = self._make()
        return made

    def holds(self, part: T) -> bool:
        """Whether `part` is still this process's: somebody may have taken it to close it."""
        return self._made.get(os.getpid()) is part

    def take(self) -> T | None:
        """Remove and return this process's part, to close it; None when none was made."""
        return self._made.pop(os.getpid(), None)
