"""Many questions at once, in threads that see DSPy's settings, with nothing lost when it is interrupted.

Why not `dspy.Parallel`: with `timeout=0` it begins no slow question twice and with `max_errors=1` it stops at the first
error, but then it raises a bare `Exception` that does not say which, and, as after Ctrl-C, does not wait for what is in
flight: those answers, paid for, would come when the run is closed. Its progress is on stdout, where answers go.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any, TypeVar

import dspy
from tqdm import tqdm

from crag_dspy.state.arguments import check_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")


def run_each(
    work: Callable[[Item], Any],
    items: Sequence[Item],
    *,
    threads: int | None = None,
    progress: bool | None = None,
    label: str = "",
    done: int = 0,
) -> None:
    """Call `work` on every item. What it makes it must save itself, before it returns.

    Args:
        work: an exception from it stops the batch, once what is in flight has ended.
        threads: None takes `dspy.settings.num_threads`. With 1 everything happens in this thread, in order.
        progress: a bar on stderr; None shows one on a terminal only.
        label, done: of the bar: what is being done, and how many items had been done before.

    Ctrl-C lets the items in flight end and starts no others; a second one does not wait.
    """
    if threads is not None:
        check_whole("threads", threads)
    count = threads or dspy.settings.num_threads or 1
    hidden = None if progress is None else not progress
    with tqdm(
        total=done + len(items),
        initial=done,
        desc=label or None,
        file=sys.stderr,
        disable=hidden,
        leave=False,
    ) as bar:
        if count == 1 or len(items) <= 1:
            for item in items:
                work(item)
                bar.update()
            return
        stopped = threading.Event()

        def guarded(item: Item) -> None:
            if stopped.is_set():
                return
            try:
                work(item)
            except BaseException:
                stopped.set()
                raise

        pool = ThreadPoolExecutor(count, thread_name_prefix="crag-dspy-run")
        # DSPy's settings live in a context variable, which a bare thread would not see.
        futures: list[Future[Any]] = [
            pool.submit(contextvars.copy_context().run, guarded, item) for item in items
        ]
        try:
            for future in as_completed(futures):
                future.result()
                bar.update()
        finally:
            stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)
