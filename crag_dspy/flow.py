"""One flow for sync and async.

A flow is a generator that yields what it wants done: a `Call`, or `Together` with several flows. A driver does it and
sends the result back, or throws the exception in, so that the flow reads like ordinary code and exists only once.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Self, TypeVar

import dspy

from crag_dspy import once
from crag_dspy.live.notes import notes

T = TypeVar("T")
Flow = Generator["Call | Together", Any, Any]


class Call:
    """A call of `part` with keyword arguments; the async driver prefers `part.acall`."""

    def __init__(self, part: Callable[..., Any], /, **arguments: Any) -> None:
        self.part = part
        self.arguments = arguments
        self.seconds: float | None = None
        self.tell: Callable[[str], None] | None = None

    def within(self, seconds: float, tell: Callable[[str], None] | None = None) -> Self:
        """The same call, which fails with TimeoutError after so many seconds (0: never); what the part notes is told.

        Nothing can end a part that hangs. It is left behind, in a thread that does not keep the process from ending.
        """
        self.seconds = seconds or None
        self.tell = tell
        return self

    def noting(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.tell is None else _told(self.tell)

    def too_late(self) -> TimeoutError:
        return TimeoutError(f"no answer within {self.seconds:g} s (the setting time_limit)")


class Together:
    """Flows to run at the same time; the result is the list of theirs, in order."""

    def __init__(self, *flows: Flow) -> None:
        self.flows = flows


def drive(flow: Flow) -> Any:
    """Run a flow to its end in this thread, and return what it returns."""
    return _at_once(_run(flow, _do))


async def adrive(flow: Flow) -> Any:
    """Run a flow to its end on the event loop, and return what it returns."""
    return await _run(flow, _ado)


async def _run(flow: Flow, do: Callable[[Call | Together], Awaitable[Any]]) -> Any:
    result, error = None, None
    try:
        while True:
            try:
                wanted = flow.throw(error) if error else flow.send(result)
            except StopIteration as end:
                return end.value
            try:
                result, error = await do(wanted), None
            except Exception as raised:  # noqa: BLE001 - the flow decides what an exception means
                result, error = None, raised
    finally:
        flow.close()  # of one that is cancelled, now


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, which needs no event loop: its first step is its last."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a coroutine that must not wait did")


async def _do(wanted: Call | Together) -> Any:
    if isinstance(wanted, Together):
        first, *others = wanted.flows
        # DSPy's settings live in a context variable, which a bare thread would not see.
        with (
            once.side_by_side() as one,
            ThreadPoolExecutor(max(1, len(others)), thread_name_prefix="crag-dspy") as pool,
        ):
            futures = [pool.submit(contextvars.copy_context().run, one, drive, flow) for flow in others]
            return [one(drive, first), *(future.result() for future in futures)]
    with wanted.noting():
        return once.call(wanted.part, wanted.arguments, lambda: _called(wanted))


def _called(wanted: Call) -> Any:
    # A reply that is streamed can be sent on from its caller's own thread only.
    if wanted.seconds is None or dspy.settings.send_stream is not None:
        return wanted.part(**wanted.arguments)
    future = _started(wanted.part, **wanted.arguments)
    try:
        return future.result(wanted.seconds)
    except TimeoutError as error:
        raise (error if future.done() else wanted.too_late()) from None


async def _ado(wanted: Call | Together) -> Any:
    if isinstance(wanted, Together):
        results = await asyncio.gather(*(adrive(flow) for flow in wanted.flows), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result  # only now: no branch goes on behind the back of a flow that has ended
        return results
    part: Any = wanted.part
    with wanted.noting():
        try:
            async with asyncio.timeout(wanted.seconds) as clock:
                # Every dspy.Module has an `acall`, which works only where there is an `aforward`.
                if hasattr(part, "aforward" if isinstance(part, dspy.Module) else "acall"):
                    return await part.acall(**wanted.arguments)
                return await in_thread(part, **wanted.arguments)
        except TimeoutError as error:
            raise (wanted.too_late() if clock.expired() else error) from None


async def in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """`asyncio.to_thread`, in a thread that may hang: `asyncio.run` would wait for it for ever."""
    return await asyncio.wrap_future(_started(function, *args, **kwargs))


def _started(function: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """The function at work in a thread of its own, which ends with the process, in a copy of this context."""
    future: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = context.run(function, *args, **kwargs)
        except StopIteration as error:  # which no future can hold
            future.set_exception(RuntimeError(f"{function!r} raised StopIteration: {error}"))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where it is waited for
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=work, name="crag-dspy", daemon=True).start()
    return future


@contextmanager
def _told(tell: Callable[[str], None]) -> Generator[None]:
    with notes() as told:
        try:
            yield
        finally:
            for message in told:
                tell(message)
