"""One flow for sync and async.

A flow is a generator that yields what it wants done: a `Call`, or `Together` with several flows. A driver does it and
sends the result back, or throws the exception in, so that the flow reads like ordinary code and exists only once.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dspy

from crag_dspy import once

Flow = Generator["Call | Together", Any, Any]


class Call:
    """A call of `part` with keyword arguments; the async driver prefers `part.acall`."""

    def __init__(self, part: Callable[..., Any], **arguments: Any) -> None:
        self.part = part
        self.arguments = arguments


class Together:
    """Flows to run at the same time; the result is the list of theirs, in order."""

    def __init__(self, *flows: Flow) -> None:
        self.flows = flows


def drive(flow: Flow) -> Any:
    """Run a flow to its end in this thread, and return what it returns."""
    return _advance(flow, _do)


async def adrive(flow: Flow) -> Any:
    """Run a flow to its end on the event loop, and return what it returns."""
    result, error = None, None
    while True:
        try:
            wanted = flow.throw(error) if error else flow.send(result)
        except StopIteration as end:
            return end.value
        try:
            result, error = await _ado(wanted), None
        except Exception as raised:  # noqa: BLE001 - the flow decides what an exception means
            result, error = None, raised


def _advance(flow: Flow, do: Callable[[Call | Together], Any]) -> Any:
    result, error = None, None
    while True:
        try:
            wanted = flow.throw(error) if error else flow.send(result)
        except StopIteration as end:
            return end.value
        try:
            result, error = do(wanted), None
        except Exception as raised:  # noqa: BLE001 - the flow decides what an exception means
            result, error = None, raised


def _do(wanted: Call | Together) -> Any:
    if isinstance(wanted, Call):
        return once.call(wanted.part, wanted.arguments)
    first, *others = wanted.flows
    # DSPy's settings live in a context variable, which a bare thread would not see.
    with (
        once.side_by_side() as one,
        ThreadPoolExecutor(max(1, len(others)), thread_name_prefix="crag-dspy") as pool,
    ):
        futures = [pool.submit(contextvars.copy_context().run, one, drive, flow) for flow in others]
        return [one(drive, first), *(future.result() for future in futures)]


async def _ado(wanted: Call | Together) -> Any:
    if isinstance(wanted, Together):
        results = await asyncio.gather(*(adrive(flow) for flow in wanted.flows), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result  # only now: no branch goes on behind the back of a flow that has ended
        return results
    part: Any = wanted.part
    # Every dspy.Module has an `acall`, which works only where there is an `aforward`.
    if hasattr(part, "aforward" if isinstance(part, dspy.Module) else "acall"):
        return await part.acall(**wanted.arguments)
    return await in_thread(part, **wanted.arguments)


async def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`asyncio.to_thread`, which before Python 3.12 waits forever for a function that raises StopIteration."""

    def call() -> Any:
        try:
            return function(*args, **kwargs)
        except StopIteration as error:
            raise RuntimeError(f"{function!r} raised StopIteration") from error

    return await asyncio.to_thread(call)
