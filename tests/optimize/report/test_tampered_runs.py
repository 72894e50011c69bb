"""Folders of runs that were damaged, or written by somebody else: a page or a `ConfigError`, never a traceback."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dspy
import pytest

from crag_dspy import CRAG, RAG
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.comparison.comparing import compare
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.report.page import write_report
from crag_dspy.optimize.runs.evaluation import evaluate
from crag_dspy.optimize.thresholds.search import search_thresholds

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 200  # of damage, a kind of run
JUNK = [
    None,
    True,
    -1,
    3.5,
    10**30,
    float("nan"),
    float("inf"),
    "x",
    "",
    "\ud83d",
    [],
    [[]],
    {},
    {"a": 1},
    [1, "x"],
]


def find(query: str, k: int) -> list[str]:
    return [f"{query} Paris.", "Rain falls."][:k]


def web(query: str, max_results: int) -> list[str]:
    return ["Paris is a city."]


def grade(question: str, texts: list[str]) -> list[float]:
    return [0.9 if "Paris" in text else -0.9 for text in texts]


@pytest.fixture
def run(request: Any, scripted_lm: Any, tmp_path: Path) -> Path:
    devset = [
        dspy.Example(question=f"Where is tower {n}?", answers=["Paris"]).with_inputs("question")
        for n in range(3)
    ]
    crag = CRAG(find, grade, web)  # type: ignore[arg-type]
    options: dict[str, Any] = {"run": tmp_path / "run", "threads": 1, "progress": False}
    with dspy.context(lm=scripted_lm({"answer": "Paris", "query": "tower Paris"})):
        if request.param == "evaluate":
            evaluate(crag, devset, contains_word, **options)
        elif request.param == "outcomes":
            search_thresholds(crag, devset, contains_word, **options)
        else:
            compare({"CRAG": crag, "RAG": RAG(find)}, devset, contains_word, **options)
    return tmp_path / "run"


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield from places(item, (*place, name))


def changed(plain: Any, chance: random.Random) -> str:
    *outer, last = chance.choice(list(places(plain)))
    at = plain
    for name in outer:
        at = at[name]
    if chance.random() < 0.4:
        del at[last]
    else:
        at[last] = chance.choice(JUNK)
    return json.dumps(plain)


def damage(file: Path, chance: random.Random) -> None:
    whole, how = file.read_bytes(), chance.random()
    if how < 0.1:
        file.write_bytes(whole[: chance.randrange(len(whole))])
    elif how < 0.2:
        torn = bytearray(whole)
        for _ in range(3):
            torn[chance.randrange(len(torn))] = chance.randrange(256)
        file.write_bytes(bytes(torn))
    elif how < 0.25:
        file.unlink()
    elif how < 0.3:
        file.unlink()
        file.mkdir()
    elif how < 0.35:
        file.write_text("[" * 100_000)
    elif file.suffix == ".json":
        file.write_text(changed(json.loads(whole), chance))
    else:
        lines = whole.decode().splitlines()
        place = chance.randrange(len(lines))
        lines[place] = changed(json.loads(lines[place]), chance)
        file.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("run", ["evaluate", "outcomes", "comparison"], indirect=True)
def test_damage_of_any_kind_is_told(run: Path, tmp_path: Path) -> None:
    """The report: 41 of 256 gave tracebacks."""
    chance, told = random.Random(0), 0
    write_report(run)  # whole, it has a page
    for _ in range(ROUNDS):
        folder = tmp_path / "damaged"
        shutil.copytree(run, folder)
        files = sorted(file for file in folder.rglob("*.json*") if file.stat().st_size)
        damage(chance.choice(files), chance)
        try:
            write_report(folder)
        except ConfigError:
            told += 1
        shutil.rmtree(folder)
    assert 0 < told < ROUNDS
