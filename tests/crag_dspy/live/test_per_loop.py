"""`PerLoop`: made once an event loop, and ended with it."""

from __future__ import annotations

import asyncio

import pytest

from crag_dspy.live.per_loop import PerLoop


class Connections:
    """Counts what is open, and in which loop it was made and closed."""

    def __init__(self) -> None:
        self.made: list[asyncio.AbstractEventLoop] = []
        self.closed: list[asyncio.AbstractEventLoop] = []
        self.errors: list[Exception] = []

    async def make(self) -> int:
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop()
        self.made.append(asyncio.get_running_loop())
        return len(self.made)

    async def close(self, part: int) -> None:
        await asyncio.sleep(0)
        self.closed.append(asyncio.get_running_loop())


def test_a_loop_has_one_and_closes_it_when_it_ends() -> None:
    connections = Connections()
    per_loop = PerLoop(connections.make, connections.close)

    async def many() -> list[int]:
        return await asyncio.gather(*(per_loop.get() for _ in range(5)))

    assert asyncio.run(many()) == [1] * 5
    assert asyncio.run(many()) == [2] * 5
    assert connections.closed == connections.made
    assert len(set(connections.made)) == 2


def test_a_failure_is_everybodys_and_the_next_call_tries_again() -> None:
    connections = Connections()
    connections.errors.append(ConnectionError("down"))
    per_loop = PerLoop(connections.make, connections.close)

    async def failing() -> int:
        results = await asyncio.gather(per_loop.get(), per_loop.get(), return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionError, ConnectionError]
        return await per_loop.get()

    assert asyncio.run(failing()) == 1


def test_a_cancelled_caller_does_not_take_it_from_the_others() -> None:
    connections = Connections()
    per_loop = PerLoop(connections.make, connections.close)

    async def cancelled() -> int:
        first, second = asyncio.create_task(per_loop.get()), asyncio.create_task(per_loop.get())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await second

    assert asyncio.run(cancelled()) == 1
    assert len(connections.closed) == 1


def test_closing_ends_it_and_the_next_call_makes_another() -> None:
    connections = Connections()
    per_loop = PerLoop(connections.make, connections.close)

    async def again() -> tuple[int, int, int]:
        await per_loop.close()  # nothing to close yet
        first = await per_loop.get()
        await per_loop.close()
        return first, len(connections.closed), await per_loop.get()

    assert asyncio.run(again()) == (1, 1, 2)


def test_ended_loops_are_forgotten() -> None:
    connections = Connections()
    per_loop = PerLoop(connections.make, connections.close)
    for _ in range(20):
        asyncio.run(per_loop.get())
    assert len(per_loop._made) == 1
