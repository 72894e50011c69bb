"""Questions in threads: settings are seen, an error stops what has not begun, order is kept with one thread."""

from __future__ import annotations

import threading

import dspy
import pytest

from crag_dspy.optimize.runs.pool import run_each


@pytest.mark.parametrize("threads", [1, 4])
def test_every_item_is_worked_on_with_the_callers_settings(threads: int) -> None:
    seen: list[tuple[int, object]] = []
    with dspy.context(rm="ours"):
        run_each(lambda item: seen.append((item, dspy.settings.rm)), range(20), threads=threads)
    assert sorted(seen) == [(item, "ours") for item in range(20)]
    assert threads > 1 or [item for item, _ in seen] == list(range(20))


def test_settings_changed_by_one_item_are_not_seen_by_another() -> None:
    def work(item: int) -> None:
        with dspy.context(rm=item):
            barrier.wait(timeout=30)
            seen.add((item, dspy.settings.rm))

    seen: set[tuple[int, object]] = set()
    barrier = threading.Barrier(3)
    run_each(work, range(3), threads=3)
    assert seen == {(0, 0), (1, 1), (2, 2)}


@pytest.mark.parametrize("error", [ValueError("stop"), KeyboardInterrupt()])
def test_an_error_ends_the_batch_after_what_is_in_flight(error: BaseException) -> None:
    begun, ended = [], []
    both, never = threading.Barrier(2), threading.Event()

    def work(item: int) -> None:
        begun.append(item)
        if item < 2:
            both.wait(timeout=30)  # both are in flight
        if item == 0:
            raise error
        never.wait(0.005)  # lets go of the interpreter, so that the other thread can raise before all is done
        ended.append(item)

    with pytest.raises(type(error)):
        run_each(work, range(1000), threads=2)
    assert 1 in ended  # what was in flight came to its end
    assert len(begun) < 1000
    assert len(ended) == len(begun) - 1
