"""One question, asked several times: a call that was made is not made again.

    with calls_once() as known:
        crag(question=question, action="correct")
        crag(question=question, action="ambiguous")    # retrieves, grades and asks nothing that it knows

To try every action on a question a program runs three times, and most of what the runs do is the same. What a run tells
of its cost stays what it takes alone: usage and seconds of a call count again each time its result is used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import dspy

from crag_dspy.live.notes import note, notes
from crag_dspy.usage import Replies, count_replies, track_calls


@dataclass(frozen=True)
class _Made:
    part: Any
    arguments: Mapping[str, Any]
    result: Any
    usage: Mapping[str, Sequence[Any]]
    replies: int
    notes: Sequence[str]
    seconds: float


@dataclass
class KnownCalls:
    """The calls of a question. `lm_calls`: of language models, those that were not made again."""

    lm_calls: int = 0
    _made: list[_Made] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, part: Any, arguments: Mapping[str, Any]) -> _Made | None:
        return next((one for one in self._made if one.part is part and one.arguments == arguments), None)

    def add(self, made: _Made) -> None:
        with self._lock:
            self._made.append(made)

    def use(self, made: _Made) -> None:
        """Count again what the call took, and tell again what it told."""
        for message in made.notes:
            note(message)
        tracker, calls = dspy.settings.usage_tracker, 0
        for lm, entries in made.usage.items():
            for entry in entries:
                calls += 1
                if tracker is not None:
                    tracker.add_usage(lm, entry)
        for callback in dspy.settings.callbacks:
            if isinstance(callback, Replies):
                callback.add(made.replies)
        with self._lock:
            self.lm_calls += calls


@dataclass
class _Line:
    """One line of work, which other lines may run beside. `spared`: seconds that it did not take."""

    known: KnownCalls
    spared: float = 0.0


_LINE: ContextVar[_Line | None] = ContextVar("crag_dspy_line", default=None)


@contextmanager
def calls_once() -> Iterator[KnownCalls]:
    """Within, parts that flows call with the same arguments are called once. For one question, by one thread."""
    line = _Line(KnownCalls())
    token = _LINE.set(line)
    try:
        yield line.known
    finally:
        _LINE.reset(token)


def spared_seconds() -> float:
    """What the calls that were not made again would have taken, so far."""
    line = _LINE.get()
    return 0.0 if line is None else line.spared


def call(part: Any, arguments: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """What `make` gives, which calls the part with these arguments, or what it gave before; a call that raised is made
    again.
    """
    line = _LINE.get()
    if line is None:
        return make()
    made = line.known.find(part, arguments)
    if made is None:
        before, start = line.spared, time.perf_counter()
        with track_calls() as calls, count_replies() as replies, notes() as told:
            result = make()
        for message in told:
            note(message)
        seconds = time.perf_counter() - start + line.spared - before
        made = _Made(part, dict(arguments), result, dict(calls.usage_data), replies.count, told, seconds)
        line.known.add(made)
    else:
        line.known.use(made)
        line.spared += made.seconds
    return list(made.result) if isinstance(made.result, list) else made.result


@contextmanager
def side_by_side() -> Iterator[Callable[..., Any]]:
    """Gives a function that runs one of several lines of work; the longest of them, with what it is spared, counts."""
    parent = _LINE.get()
    taken: list[tuple[float, float]] = []

    def one(work: Callable[..., Any], *arguments: Any) -> Any:
        if parent is None:
            return work(*arguments)
        own, start = _Line(parent.known), time.perf_counter()
        token = _LINE.set(own)
        try:
            return work(*arguments)
        finally:
            _LINE.reset(token)
            seconds = time.perf_counter() - start
            taken.append((seconds, seconds + own.spared))

    yield one
    if parent is not None and taken:
        parent.spared += max(alone for _, alone in taken) - max(seconds for seconds, _ in taken)
