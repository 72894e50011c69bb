"""How long an event loop was held up, in CPU seconds of this process: other processes do not count."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any


def longest_block(work: Awaitable[Any]) -> tuple[Any, float]:
    """Run `work`, and give its result and the most CPU time between two turns of the event loop.

    Of the whole process: a pattern that holds the interpreter in another thread holds up the loop as well.
    """

    async def main() -> tuple[Any, float]:
        longest, done = 0.0, False

        async def beat() -> None:
            nonlocal longest
            before = time.process_time()
            while not done:
                await asyncio.sleep(0.001)
                now = time.process_time()
                longest, before = max(longest, now - before), now

        beating = asyncio.ensure_future(beat())
        await asyncio.sleep(0.01)
        try:
            result = await work
        finally:
            done = True
            await beating
        return result, longest

    return asyncio.run(main())
