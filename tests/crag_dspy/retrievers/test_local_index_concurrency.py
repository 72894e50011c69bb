"""Readers and writers at once: threads, processes, forks. A search sees one state of the index."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crag_dspy.retrievers import LocalIndex

READERS = 32
VERSIONS = 4
PARTS = 4


def letters(texts: list[str]) -> np.ndarray:
    return np.array([[text.count(letter) + 0.1 for letter in "abcdefgh"] for text in texts])


def version(number: int) -> dict[str, Any]:
    """A document of PARTS chunks, each of which names the version that it belongs to."""
    parts = [f"Part {part} of the beacon, state s{number}." for part in range(PARTS)]
    return {
        "id": "beacon",
        "text": "\n\n".join(f"## Part {part}\n\n{text}" for part, text in enumerate(parts)),
    }


@pytest.mark.parametrize("embedder", [None, letters], ids=["words", "hybrid"])
def test_32_readers_never_see_a_document_half_replaced(tmp_path: Path, embedder: Any) -> None:
    index = LocalIndex.create(tmp_path / "index", embedder, chunk_words=12)
    index.add([version(0), *({"id": f"other{number}", "text": f"Another {number}."} for number in range(50))])
    done = threading.Event()
    started = threading.Barrier(READERS + 1, timeout=60)

    def read(_: int) -> list[int]:
        seen = []
        started.wait()
        while True:
            last = done.is_set()  # one search more, so that the last state is seen
            found = [passage for passage in index("beacon", 20) if passage.id.startswith("beacon")]
            states = {passage.text.split("state s")[1].rstrip(".") for passage in found}
            assert len(states) == 1, f"a mixture of {states}"
            assert sorted(passage.id for passage in found) == [f"beacon#{part}" for part in range(PARTS)]
            seen.append(int(states.pop()))
            if last:
                return seen

    with ThreadPoolExecutor(READERS) as threads:
        reading = [threads.submit(read, number) for number in range(READERS)]
        started.wait()
        try:
            for number in range(1, VERSIONS):
                index.add([version(number)])
                index.delete(f"other{number}")
        finally:
            done.set()
        histories = [future.result(timeout=120) for future in reading]
    assert all(history == sorted(history) for history in histories), "a reader went back in time"
    assert all(history[-1] == VERSIONS - 1 for history in histories)


def test_threads_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", embedder=None)

    def write(writer: int) -> None:
        handle = LocalIndex.open(tmp_path / "index")
        for number in range(4):
            handle.add(
                [
                    {"id": f"{writer}-{number}", "text": f"Written by {writer}."},
                    {"id": "all", "text": f"{writer}"},
                ]
            )

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(6)))
    assert len(index) == 6 * 4 + 1
    assert len(list(index.passages())) == 6 * 4 + 1


def add_in_a_process(path: str, writer: int) -> None:
    LocalIndex.open(path).add(
        [{"id": f"{writer}-{number}", "text": f"Written by {writer}."} for number in range(20)]
    )


@pytest.mark.slow
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", embedder=None)
    index.add(["Here before."])
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=add_in_a_process, args=(str(index.path), number)) for number in range(2)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=120)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(index) == 41
    assert len(index("written", 100)) == 2  # two different texts


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning", "ignore:.*fork:DeprecationWarning")
def test_an_index_that_was_searched_works_after_a_fork(tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", letters)
    index.add([{"id": "a", "text": "A beacon."}])
    assert len(index("beacon", 1)) == 1
    context = multiprocessing.get_context("fork")
    received, sent = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sent.send([passage.id for passage in index("beacon", 1)]))
    child.start()
    assert received.poll(60), "the child hung"
    assert received.recv() == ["a"]
    child.join(timeout=60)
    assert child.exitcode == 0


def test_a_reader_on_an_old_state_is_not_broken_by_compaction(tmp_path: Path) -> None:
    index = LocalIndex.create(tmp_path / "index", embedder=None)
    index.add([{"id": f"d{number}", "text": f"word {number}"} for number in range(100)])
    stream = index.passages_with_vectors(batch=10)
    first = [next(stream)[0].id]
    for number in range(40):
        index.add([{"id": f"new{number}", "text": f"new {number}"}])
    index.delete([f"d{number}" for number in range(100)])
    index.add_from([{"id": "last", "text": "last"}])
    assert sorted(first + [passage.id for passage, _ in stream]) == sorted(
        f"d{number}" for number in range(100)
    )
