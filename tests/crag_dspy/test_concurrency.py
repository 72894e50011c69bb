"""32 threads ask at once while the index is updated: nothing torn, no deadlock, no setting of one caller in another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy

from crag_dspy import CRAG, LocalIndex

TOWNS = [f"Town{i:02d}" for i in range(32)]


class Grader:
    name, fingerprint = "words", "words-1"

    def score(self, question: str, texts: list[str]) -> list[float | None]:
        town = question.split()[-1].rstrip("?")
        return [0.9 if town in text else -1.0 for text in texts]


def document(town: str, version: int) -> dict[str, Any]:
    return {"id": town, "title": town, "text": f"{town} has version {version}. The end of {town} {version}."}


def test_many_threads_one_index_own_settings(tmp_path: Path, scripted_lm: Callable[..., Any]) -> None:
    index = LocalIndex.create(tmp_path / "index", embedder=None)
    index.add([document(town, 0) for town in TOWNS])
    program = CRAG(index, Grader(), k=3)
    stop = threading.Event()
    errors: list[BaseException] = []

    def update() -> None:
        version = 0
        try:
            while not stop.is_set():
                version += 1
                for town in TOWNS[::4]:
                    index.add([document(town, version)])
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            errors.append(error)

    def ask(number: int) -> tuple[int, dspy.Prediction]:
        own = program.deepcopy()
        own.settings.top_n = 1 + number % 2
        lm = scripted_lm({"answer": f"answer {number}"})
        with dspy.context(lm=lm):
            return number, own(question=f"Which version has {TOWNS[number]}?")

    writer = threading.Thread(target=update, daemon=True)
    writer.start()
    try:
        with ThreadPoolExecutor(32) as pool:
            results = list(pool.map(ask, [*range(32)] * 3, timeout=120))
    finally:
        stop.set()
        writer.join(60)
    assert not errors
    assert not writer.is_alive()
    for number, prediction in results:
        assert prediction.answer == f"answer {number}"  # the language model of its own context
        assert prediction.warnings == []
        texts = [strip.text for strip in prediction.evidence]
        assert len(texts) == 1 + number % 2  # its own settings
        assert all(TOWNS[number] in text for text in texts)
        versions = {text.rstrip(".").split()[-1] for text in texts}
        assert len(versions) == 1  # both sentences are of one version of the document: nothing torn
