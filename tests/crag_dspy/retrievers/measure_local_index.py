"""Measure `LocalIndex`: the figures of the README. Each command is one process, so that memory is its own.

    python tests/crag_dspy/retrievers/measure_local_index.py import --passages 100000
    python tests/crag_dspy/retrievers/measure_local_index.py latency --passages 1000 10000 100000
    CRAG_DATASETS=... python tests/crag_dspy/retrievers/measure_local_index.py recall

`import` and `latency` make passages of 100 words from a Zipf distribution, and, where vectors are asked for,
384 numbers around 2,000 topics. `recall` asks XQuAD's questions, English and Chinese, of its paragraphs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crag_dspy.retrievers import LocalIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

DIMENSION = 384
WORDS = 100
MODES = ("text", "vector", "hybrid")


class Language:
    """Texts of made-up words, as frequent as words are, and vectors around topics: deterministic in `seed`."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
        lengths = self.random.integers(2, 10, 50_000)
        self.words = np.array(["".join(self.random.choice(letters, length)) for length in lengths])
        self.mixing = self.random.normal(size=(64, DIMENSION)).astype(np.float32)
        self.topics = self.random.normal(size=(2000, 64)).astype(np.float32)

    def text(self, words: int) -> str:
        ranks = np.minimum(self.random.zipf(1.2, words) - 1, len(self.words) - 1)
        return " ".join(self.words[ranks])

    def documents(self, count: int) -> Iterator[dict[str, str]]:
        for number in range(count):
            yield {"id": f"d{number}", "title": self.text(3), "text": self.text(WORDS)}

    def embed(self, texts: list[str]) -> Any:
        """The text does not matter, only that the same one has the same vector."""
        rows = []
        for text in texts:
            random = np.random.default_rng(zlib.crc32(text.encode()))
            topic = self.topics[random.integers(len(self.topics))] + 0.7 * random.normal(size=64)
            rows.append(topic @ self.mixing + 2.4 * random.normal(size=DIMENSION))
        return np.array(rows, dtype=np.float32)


def measure_import(args: argparse.Namespace) -> None:
    """Seconds and peak memory of importing a JSONL file without embeddings."""
    language = Language()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "passages.jsonl"
        with source.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps(document) + "\n" for document in language.documents(args.passages))
        before = peak_mib()
        started = time.perf_counter()
        index = LocalIndex.build(Path(folder) / "index", source, progress=True, embedder=None)
        seconds = time.perf_counter() - started
        say(
            passages=len(index),
            source_mib=round(source.stat().st_size / 2**20),
            seconds=round(seconds, 1),
            peak_mib=round(peak_mib()),
            before_mib=round(before),
        )


def measure_latency(args: argparse.Namespace) -> None:
    """Milliseconds of one search at a time, k=10, warm, without embedding the query; cpu_ms is of all cores."""
    for count in args.passages:
        language = Language()
        with tempfile.TemporaryDirectory() as folder:
            LocalIndex.build(Path(folder) / "index", list(language.documents(count)), language.embed)
            queries = [language.text(8) for _ in range(args.queries)]
            for mode in MODES:
                index = LocalIndex.open(Path(folder) / "index", language.embed, mode=mode)
                embed_first(index, queries)
                for query in queries[:10]:
                    index(query, 10)
                times = []
                processor = time.process_time()
                for query in queries:
                    started = time.perf_counter()
                    index(query, 10)
                    times.append(1000 * (time.perf_counter() - started))
                p50, p95 = np.percentile(times, [50, 95])
                say(
                    passages=count,
                    mode=mode,
                    p50_ms=round(float(p50), 1),
                    p95_ms=round(float(p95), 1),
                    # On a machine that does other work too, this is the figure that can be compared.
                    cpu_ms=round(1000 * (time.process_time() - processor) / len(queries), 1),
                )


def measure_recall(args: argparse.Namespace) -> None:
    """Share of XQuAD's questions whose paragraph is among the first 10, and the first."""
    datasets = os.environ.get("CRAG_DATASETS")
    if not datasets:
        raise SystemExit("set CRAG_DATASETS to the folder that holds xquad/xquad.en.json and xquad.zh.json")
    for language in ("en", "zh"):
        paragraphs, questions = xquad(Path(datasets) / "xquad" / f"xquad.{language}.json")
        with tempfile.TemporaryDirectory() as folder:
            LocalIndex.build(Path(folder) / "index", paragraphs, args.embedder, chunk_words=None)
            for mode in MODES:
                index = LocalIndex.open(Path(folder) / "index", mode=mode)
                ranks = [rank_of(index, question, wanted) for question, wanted in questions]
                say(
                    language=language,
                    paragraphs=len(paragraphs),
                    questions=len(questions),
                    mode=mode,
                    recall_at_10=round(float(np.mean([rank <= 10 for rank in ranks])), 3),
                    recall_at_1=round(float(np.mean([rank <= 1 for rank in ranks])), 3),
                )


def xquad(path: Path) -> tuple[list[dict[str, str]], list[tuple[str, str]]]:
    paragraphs, questions = [], []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for number, paragraph in enumerate(article["paragraphs"]):
            name = f"{article['title']}-{number}"
            paragraphs.append({"id": name, "text": paragraph["context"]})
            questions.extend((item["question"], name) for item in paragraph["qas"])
    return paragraphs, questions


def rank_of(index: LocalIndex, question: str, wanted: str) -> float:
    found = [passage.id for passage in index(question, 10)]
    return found.index(wanted) + 1 if wanted in found else float("inf")


def embed_first(index: LocalIndex, queries: list[str]) -> None:
    """Query vectors are remembered, so that what is timed is the search."""
    if index.mode != "text":
        for query in queries:
            index._embedding().embed_query(query)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def say(**figures: Any) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    importing = commands.add_parser("import", help=measure_import.__doc__)
    importing.add_argument("--passages", type=int, default=100_000)
    importing.set_defaults(measure=measure_import)
    latency = commands.add_parser("latency", help=measure_latency.__doc__)
    latency.add_argument("--passages", type=int, nargs="+", default=[1000, 10_000, 100_000])
    latency.add_argument("--queries", type=int, default=200)
    latency.set_defaults(measure=measure_latency)
    recall = commands.add_parser("recall", help=measure_recall.__doc__)
    recall.add_argument("--embedder", default="minilm")
    recall.set_defaults(measure=measure_recall)
    args = parser.parse_args()
    args.measure(args)


if __name__ == "__main__":
    main()
