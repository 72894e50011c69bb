"""One flow, two drivers: what a flow is told does not depend on who drives it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from crag_dspy.flow import Call, Flow, Together, adrive, drive

Driver = Callable[[Flow], Any]


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Driver:
    if request.param == "sync":
        return drive
    # A driver that waits forever is a failure, not a stuck test run.
    return lambda flow: asyncio.run(asyncio.wait_for(adrive(flow), 20))


def double(value: int) -> int:
    return 2 * value


def failing(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


def test_results_come_back_and_together_keeps_the_order(run: Driver) -> None:
    def one(value: int) -> Flow:
        return (yield Call(double, value=value))

    def flow() -> Flow:
        first = yield from one(1)
        return [first, *(yield Together(one(2), one(3), one(4)))]

    assert run(flow()) == [2, 4, 6, 8]


@pytest.mark.parametrize(
    "error", [ValueError("v"), KeyError("k"), StopIteration(), StopAsyncIteration(), TimeoutError()]
)
def test_what_a_part_raises_is_raised_in_the_flow(run: Driver, error: Exception) -> None:
    """StopIteration, as from a bare `next()` in someone's retriever, once froze the async driver."""

    def flow() -> Flow:
        try:
            yield Call(failing(error))
        except Exception as caught:  # noqa: BLE001 - whatever it is, it is the flow's to handle
            return type(caught).__name__, str(caught)
        return "nothing was raised"

    name, message = run(flow())
    assert type(error).__name__ in name + message


def test_an_error_in_one_branch_leaves_after_the_others_are_done(run: Driver) -> None:
    done: list[str] = []

    def good() -> Flow:
        yield Call(lambda: done.append("good"))

    def bad() -> Flow:
        yield Call(failing(ValueError("bad branch")))

    def flow() -> Flow:
        try:
            yield Together(bad(), good())
        finally:
            done.append("flow")

    with pytest.raises(ValueError, match="bad branch"):
        run(flow())
    assert done == ["good", "flow"]


def test_branches_see_the_callers_context(run: Driver) -> None:
    word = contextvars.ContextVar("word", default="unset")

    def branch() -> Flow:
        return (yield Call(lambda: (word.get(), dspy.settings.adapter)))

    def flow() -> Flow:
        return (yield Together(branch(), branch()))

    adapter = dspy.JSONAdapter()
    word.set("set")
    with dspy.context(adapter=adapter):
        assert run(flow()) == [("set", adapter)] * 2


class SyncOnly(dspy.Module):
    def forward(self, value: int) -> int:
        return 2 * value


class Native(SyncOnly):
    async def aforward(self, value: int) -> int:
        return 2 * value + 1


def test_async_prefers_what_can_be_awaited_and_runs_the_rest_in_a_thread() -> None:
    """Every dspy.Module has `acall`, which fails where there is only a `forward`."""

    def flow(module: dspy.Module) -> Flow:
        return (yield Call(module, value=1))

    assert asyncio.run(adrive(flow(SyncOnly()))) == 2
    assert asyncio.run(adrive(flow(Native()))) == 3
    assert drive(flow(Native())) == 2


def test_cancelling_reaches_both_branches_and_cleans_up() -> None:
    entered, ended = [], []

    class Slow(dspy.Module):
        async def aforward(self, name: str) -> None:
            entered.append(name)
            await asyncio.Event().wait()

    def branch(name: str) -> Flow:
        try:
            yield Call(Slow(), name=name)
        finally:
            ended.append(name)

    def flow() -> Flow:
        yield Together(branch("a"), branch("b"))

    async def cancel() -> None:
        task = asyncio.ensure_future(adrive(flow()))
        while len(entered) < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert sorted(ended) == ["a", "b"]


def test_sync_branches_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=20)

    def branch() -> Flow:
        yield Call(both.wait)

    def flow() -> Flow:
        yield Together(branch(), branch())

    drive(flow())
