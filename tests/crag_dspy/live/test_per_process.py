"""`PerProcess`: made once, by whoever comes first, in each process."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from crag_dspy.live.per_process import PerProcess


def test_threads_get_one_part() -> None:
    made: list[object] = []
    start = threading.Barrier(8)

    def make() -> object:
        made.append(object())
        return made[-1]

    part, got = PerProcess(make), []

    def take() -> None:
        start.wait(10)
        got.append(part.get())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(made) == 1
    assert got == made * 8


def test_a_failure_is_raised_and_the_next_call_tries_again() -> None:
    attempts = iter([ConnectionError("down"), None])

    def make() -> str:
        if error := next(attempts):
            raise error
        return "up"

    part = PerProcess(make)
    with pytest.raises(ConnectionError):
        part.get()
    assert part.get() == "up"


def test_what_is_taken_is_made_again() -> None:
    made = iter("ab")
    part = PerProcess(lambda: next(made))
    assert part.take() is None
    assert (part.get(), part.take(), part.get()) == ("a", "a", "b")


def test_one_thread_gets_while_another_takes() -> None:
    """Never a bare KeyError: what was taken between the look and the answer is made again, or still given."""
    usual = sys.getswitchinterval()
    part, raised, stop = PerProcess(object), list[Exception](), threading.Event()

    def get() -> None:
        while not stop.is_set():
            try:
                part.get()
            except KeyError as error:
                raised.append(error)
                stop.set()

    def take() -> None:
        while not stop.is_set():
            part.take()

    threads = [threading.Thread(target=work) for work in (get, get, take)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        stop.wait(1.5)
    finally:
        stop.set()
        sys.setswitchinterval(usual)
        for thread in threads:
            thread.join(10)
    assert raised == []


# A lock that another thread holds at the fork must not hang the child, and the parent's part must not be
# finalised there. Forking needs a process without the threads of pytest.
FORK = """
import os, threading
from crag_dspy.live.per_process import PerProcess

class Part:
    def __init__(self): self.pid = os.getpid()
    def __del__(self): print("closed", self.pid == os.getpid(), flush=True)

holding, let_go = threading.Event(), threading.Event()
def make():
    if threading.current_thread() is not threading.main_thread() and os.getpid() == parent:
        holding.set(); let_go.wait(10)
    return Part()

parent, ready, slow = os.getpid(), PerProcess(Part), PerProcess(make)
ready.get()
threading.Thread(target=slow.get, daemon=True).start()
holding.wait(10)
if (child := os.fork()) == 0:
    print("own", ready.get().pid == os.getpid(), slow.get().pid == os.getpid(), flush=True)
    os._exit(0)
print("exit", os.waitpid(child, 0)[1], ready.get().pid == parent, flush=True)
let_go.set()
os._exit(0)
"""


def test_a_forked_child_makes_its_own_and_leaves_the_parents_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["own True True", "exit 0 True"]
