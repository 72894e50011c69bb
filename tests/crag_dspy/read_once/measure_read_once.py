"""What reading once finds and costs: python measure_read_once.py XQUAD.json [--questions 300].

Prints recall of whole paragraphs by words, MiniLM and `mini` (hybrid), the CPU time of a question whose ten passages
are stored, and how many bytes they take. Nothing here is a test; the figures are for one machine.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from crag_dspy import CorrectiveRetriever, LocalIndex, Passage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--questions", type=int, default=300)
    given = parser.parse_args()
    torch.set_num_threads(1)
    passages, asked = read(given.file)
    random.Random(5).shuffle(asked)
    asked = asked[: given.questions]
    with tempfile.TemporaryDirectory() as folder:
        for name in (None, "minilm", "mini"):
            began = time.process_time()
            index = LocalIndex.build(Path(folder) / str(name), passages, embedder=name, chunk_words=None)
            built = (time.process_time() - began) / len(passages)
            ranks = [rank(index(question, k=10), gold) for question, gold in asked]
            shares = {k: sum(r < k for r in ranks) / len(ranks) for k in (1, 5, 10)}
            say(
                embedder=name,
                seconds_a_passage=round(built, 4),
                recall={k: round(v, 3) for k, v in shares.items()},
            )
        program = CorrectiveRetriever(index, grade_by="once", k=10, upper=-1.0, lower=-1.0)
        stored = [index(question, k=10) for question, _ in asked[:60]]
        program.retrieve.part = lambda query, k: now[0]
        now: list[list[Passage]] = [stored[0]]
        program(question="Warm up?")
        began = time.process_time()
        for (question, _), found in zip(asked, stored, strict=False):
            now[0] = found
            program(question=question + " ")  # not a question that is remembered
        spent = (time.process_time() - began) / len(stored)
        sizes = [len(p.vectors.to_bytes()) for found in stored for p in found if p.vectors]
        say(cpu_ms_a_question=round(1000 * spent, 1), bytes_a_passage=round(sum(sizes) / len(sizes)))


def read(file: Path) -> tuple[list[Passage], list[tuple[str, str]]]:
    passages, asked = [], []
    for number, article in enumerate(json.loads(file.read_text(encoding="utf-8"))["data"]):
        for place, paragraph in enumerate(article["paragraphs"]):
            name = f"{number}.{place}"
            title = str(article.get("title", "")).replace("_", " ")
            passages.append(Passage(paragraph["context"], id=name, title=title))
            asked += [(row["question"], name) for row in paragraph["qas"]]
    return passages, asked


def rank(found: list[Passage], gold: str) -> int:
    return next((place for place, passage in enumerate(found) if passage.id == gold), 99)


def say(**figures: Any) -> None:
    sys.stdout.write(json.dumps(figures, ensure_ascii=False) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
