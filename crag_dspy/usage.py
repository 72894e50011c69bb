"""Counting language model calls, also those of models that do not say how many tokens they took."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback
from dspy.utils.usage_tracker import UsageTracker


class Calls(UsageTracker):
    """DSPy's tracker, which forgets a call without usage: here every call that reached a model has an entry.

    DSPy reports a call to its tracker unless the reply came from the cache, so an entry is a call that was made.
    """

    def add_usage(self, lm: str, usage_entry: dict[str, Any]) -> None:
        self.usage_data[lm].append(self._flatten_usage_entry(usage_entry or {}))

    @property
    def entries(self) -> list[Mapping[str, Any]]:
        """One a call; empty for a model that reports no usage."""
        return [entry for used in self.usage_data.values() for entry in used]


@contextmanager
def track_calls() -> Iterator[Calls]:
    """Within, calls are counted; on leaving they are added to those of the tracker around, if there is one."""
    outer = dspy.settings.usage_tracker
    calls = Calls()
    with dspy.context(usage_tracker=calls):
        try:
            yield calls
        finally:
            if outer is not None:
                for lm, entries in calls.usage_data.items():
                    for entry in entries:
                        outer.add_usage(lm, entry)


class Replies(BaseCallback):
    """How many replies there were, from a model or from DSPy's cache."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        if exception is None:
            self.add(1)

    def add(self, replies: int) -> None:
        with self._lock:
            self.count += replies


@contextmanager
def count_replies() -> Iterator[Replies]:
    """Within, replies are counted. Those that `track_calls` has no entry for came from the cache."""
    replies = Replies()
    with dspy.context(callbacks=[*dspy.settings.callbacks, replies]):
        yield replies
