"""A live part that each event loop makes for itself, and that ends with its loop.

Connections of asyncio libraries belong to the loop they were made in, and a program that calls `asyncio.run`
for each question has a new loop each time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

T = TypeVar("T")


class PerLoop(Generic[T]):
    """`await get()` makes the part once an event loop; it ends with `close`, or when the loop ends.

    Args:
        make: makes the part, in the loop that asks.
        close: ends it, in the same loop.
    """

    def __init__(self, make: Callable[[], Awaitable[T]], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._made: dict[asyncio.AbstractEventLoop, asyncio.Task[tuple[T, AsyncGenerator[T, Any]]]] = {}

    async def get(self) -> T:
        """This loop's part. Whatever `make` raises is raised, and the next call tries again."""
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            for ended in [other for other in list(self._made) if other.is_closed()]:
                self._made.pop(ended, None)
            self._made[loop] = loop.create_task(self._begin())
        making = self._made[loop]
        try:
            # Shielded: one of many waiting callers may be cancelled while the others still want the part.
            part, _ = await asyncio.shield(making)
        except BaseException:
            failed = making.done() and (making.cancelled() or making.exception() is not None)
            if failed and self._made.get(loop) is making:
                del self._made[loop]
            raise
        return part

    async def close(self) -> None:
        """End this loop's part; the next `get` makes another."""
        making = self._made.pop(asyncio.get_running_loop(), None)
        if making is not None:
            _, life = await making
            await life.aclose()

    async def _begin(self) -> tuple[T, AsyncGenerator[T, Any]]:
        life = self._life(await self._make())
        return await anext(life), life

    async def _life(self, part: T) -> AsyncGenerator[T, Any]:
        # A generator, because loops close the generators that were begun in them before they end
        # (`loop.shutdown_asyncgens`, which `asyncio.run` calls): there is no other hook on a loop's end.
        try:
            yield part
        finally:
            await self._close(part)
