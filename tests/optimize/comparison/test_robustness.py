"""Robustness: what is left out is nested, what is added does not answer, and no question is asked twice the same."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import dspy
import pytest
from command_line import run_command
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy import CRAG, Passage
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.comparison.changed_retrieval import (
    ChangedRetrieval,
    Degraded,
    answering,
    at_rate,
    with_changed_retrieval,
)
from crag_dspy.optimize.comparison.robustness import Robustness
from crag_dspy.optimize.metrics.answers import contains_word

NAMES = ("Ardent", "Borel", "Corbu", "Delta", "Ember", "Fjord")


class WordGrader:
    name, fingerprint = "words", "words-1"

    def __deepcopy__(self, memo: dict[int, Any]) -> WordGrader:
        return self

    def score(self, question: str, texts: Any) -> list[float | None]:
        bridge = question.split()[3]
        return [0.9 if bridge in text and "opened" in text else -0.9 for text in texts]


def passage(number: int, name: str) -> Passage:
    return Passage(f"The {name} Bridge opened in {1900 + number}.", id=name)


OTHERS = [Passage(f"Cats of kind {n} sleep most of the day.", id=f"cat-{n}") for n in range(8)]


def retrieve(query: str, k: int) -> list[Passage]:
    """The bridge asked for, then the other bridges, then cats."""
    asked = query.split()[3]
    bridges = sorted(enumerate(NAMES), key=lambda item: item[1] != asked)
    return [*(passage(number, name) for number, name in bridges), *OTHERS][:k]


def web(query: str, max_results: int) -> list[dict[str, str]]:
    """Half of the bridges are on the web too."""
    known = [
        passage(number, name).text for number, name in enumerate(NAMES) if name in query and number % 2 == 0
    ]
    return [{"url": f"https://web/{n}", "content": text} for n, text in enumerate(known)]


def crag() -> CRAG:
    return CRAG(retrieve, WordGrader(), web, k=3, upper=0.5, lower=-0.5)


def devset() -> list[dspy.Example]:
    return [
        dspy.Example(question=f"When did the {name} Bridge open?", answers=[str(1900 + number)]).with_inputs(
            "question"
        )
        for number, name in enumerate(NAMES)
    ]


@pytest.fixture
def lm(scripted_lm: Any) -> Any:
    def answer(request: Any) -> str:
        bridge = request.inputs["question"].split()[3]
        found = re.search(rf"{bridge} Bridge opened in (\d+)", request.inputs.get("context", ""))
        return found[1] if found else "1800"

    return scripted_lm({"answer": answer, "query": lambda request: request.inputs["question"]})


@given(
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(0, 5),
    st.lists(st.text(min_size=1), max_size=8, unique=True),
)
def test_what_is_left_out_is_nested(first: float, second: float, seed: int, names: list[str]) -> None:
    example = devset()[0]
    low, high = sorted((first, second))
    assert set(at_rate(example, names, low, seed)) <= set(at_rate(example, names, high, seed))
    assert at_rate(example, names, 0.0, seed) == []
    assert at_rate(example, names, 1.0, seed) == names


def test_the_rate_is_a_share_in_the_mean() -> None:
    names = [str(n) for n in range(4000)]
    assert abs(len(at_rate(devset()[0], names, 0.3, 0)) / 4000 - 0.3) < 0.03


def test_the_next_best_take_the_place_of_what_is_left_out() -> None:
    program = with_changed_retrieval(crag())
    part = program.corrective.retrieve.part
    seen: list[list[str]] = []

    class Spy(dspy.Module):
        def forward(self, question: str) -> dspy.Prediction:
            seen.append([p.id for p in part(question, 3)])
            return dspy.Prediction(answer="")

    question = devset()[0].question
    degraded = Degraded(Spy())
    degraded(question=question, left_out=["Ardent"], answering=["Ardent"])
    degraded(question=question, left_out=[], answering=["Ardent"])
    assert seen == [["Borel", "Corbu", "Delta"], ["Ardent", "Borel", "Corbu"]]
    assert [p.id for p in part(question, 3)] == [
        "Ardent",
        "Borel",
        "Corbu",
    ]  # outside of a question: as it is


@given(st.integers(0, 4), st.integers(1, 5), st.integers(0, 9))
def test_decoys_are_added_and_do_not_answer(decoys: int, k: int, seed: int) -> None:
    part = ChangedRetrieval(retrieve, decoys, seed)
    found: list[list[str]] = []

    class Spy(dspy.Module):
        def forward(self, question: str) -> dspy.Prediction:
            found.append([p.id for p in part(question, k + decoys)])
            return dspy.Prediction(answer="")

    question = devset()[1].question
    answers = ["Borel", "Ember", "cat-0"]
    Degraded(Spy())(question=question, left_out=[], answering=answers)
    plain = [p.id for p in retrieve(question, k)]
    added = [name for name in found[0] if name not in plain]
    assert [name for name in found[0] if name in plain] == plain  # all there, in their order
    assert len(added) == decoys
    assert not set(added) & set(answers)


def test_what_answers_is_named_by_ids_or_by_a_gold_answer() -> None:
    example = devset()[2]
    assert answering(example, retrieve, 6) == ["Corbu"]
    by_ids = dspy.Example(**example.toDict(), relevant_ids=["Delta", "nowhere"]).with_inputs("question")
    assert answering(by_ids, retrieve, 6) == ["Delta"]
    nothing = dspy.Example(question=example.question, answers=[]).with_inputs("question")
    assert answering(nothing, retrieve, 6) == []


def test_curves_and_how_often_a_question_is_asked(lm: Any, tmp_path: Path) -> None:
    rates = (0.0, 0.25, 0.5, 0.75, 1.0)
    with dspy.context(lm=lm):
        plan = Robustness(crag(), ["rag", "crag", "none"], devset(), rates=rates, decoys=[2], run=tmp_path)
        left = sum(one.left for estimate in plan.estimates() for one in estimate.systems)
        assert lm.requests == []
        curves = plan.ask(contains_word, threads=1)
    assert curves is not None
    # Each of 6 questions with and without its passage, for two systems; without retrieval and with decoys once.
    assert left == 2 * 12 + 6 + 3 * 6
    by_name = {rate: {system.name: system for system in systems} for rate, systems in curves.removal.items()}
    assert list(by_name) == list(rates)
    for rate, systems in by_name.items():
        assert systems["RAG"].quality.mean == pytest.approx(1 - curves.left_out[rate])
        assert systems["no retrieval"].quality.mean == 0.0
        assert systems["CRAG"].quality.mean >= systems["RAG"].quality.mean
    assert by_name[1.0]["CRAG"].quality.mean == 0.5  # what the web has
    assert curves.kept == {"RAG": 0.0, "CRAG": 0.5, "no retrieval": None}
    assert [system.quality.mean for system in curves.decoys[2]] == [1.0, 1.0, 0.0]
    assert curves.decoys[2][0].context_tokens > curves.decoys[0][0].context_tokens
    assert "kept at 1 of the quality at 0: RAG 0%, CRAG 50%" in str(curves)

    made = len(lm.requests)
    with dspy.context(lm=lm):
        again = Robustness(
            crag(), ["rag", "crag", "none"], devset(), rates=(0.0, 0.6, 1.0), decoys=[2], run=tmp_path
        )
        assert sum(one.left for estimate in again.estimates() for one in estimate.systems) == 0
        again.ask(contains_word, threads=1)
    assert len(lm.requests) == made  # another rate takes no run: its conditions are known


def test_data_and_plot(lm: Any, tmp_path: Path) -> None:
    with dspy.context(lm=lm):
        plan = Robustness(crag(), ["rag", "rag:2", "crag"], devset(), rates=(0, 1), decoys=[1], run=tmp_path)
        curves = plan.ask(contains_word, threads=1)
    assert curves is not None
    stored = json.loads((tmp_path / "robustness.json").read_text())
    assert stored == json.loads(json.dumps(curves.to_json()))
    rows = list(csv.DictReader(io.StringIO((tmp_path / "robustness.csv").read_text())))
    assert len(rows) == 3 * 2 + 3 * 2
    assert {row["system"] for row in rows} == {"RAG", "RAG (2 passages)", "CRAG"}
    assert all(float(row["low"]) <= float(row["quality"]) <= float(row["high"]) for row in rows)
    drawing = (tmp_path / "robustness.svg").read_text()
    svg = ElementTree.fromstring(drawing)
    lines = svg.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3 * 2 + 3  # three systems in two panels, and the legend
    assert "http://" not in drawing.replace("http://www.w3.org/2000/svg", "")
    assert "nan" not in drawing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rates": ()}, "rates is empty"),
        ({"rates": (0, 1.5)}, "rates must be a number, from 0 to 1, got 1.5"),
        ({"decoys": [0]}, "at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Robustness(crag(), ["rag"], devset(), **options)


def test_the_command(lm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import sys
    import types

    parts = types.ModuleType("bridge_parts")
    vars(parts).update(retrieve=retrieve, grader=WordGrader(), web=web, lm=lm)
    monkeypatch.setitem(sys.modules, "bridge_parts", parts)
    monkeypatch.chdir(tmp_path)
    tables = {"retriever": "retrieve", "grader": "grader", "search": "web", "lm": "lm"}
    text = "".join(f'[{table}]\nkind = "python:bridge_parts:{name}"\n' for table, name in tables.items())
    Path("crag.toml").write_text(f"{text}[settings]\nk = 3\nupper = 0.5\nlower = -0.5\n")
    Path("dev.jsonl").write_text("\n".join(json.dumps(example.toDict()) for example in devset()))

    def command(*arguments: str) -> str:
        given = ["dev.jsonl", "--config", "crag.toml", "--run", "runs/r", *arguments]
        assert run_command("robustness", *given) == 0
        return str(capsys.readouterr().out)

    estimate = json.loads(command("--rates", "0,1", "--dry-run", "--json"))
    assert (estimate["answers"], estimate["minutes"]) == (24, None)
    assert lm.requests == []
    assert "kept at 1" in command("--rates", "0,1")
    made = len(lm.requests)
    found = json.loads(command("--rates", "0,0.5,1", "--json"))
    assert [point["at"] for point in found["removal"]] == [0, 0.5, 1]
    assert len(lm.requests) == made
    command("--rates", "0,1", "--fresh", "--markdown")
    assert len(lm.requests) == 2 * made
    with pytest.raises(ConfigError, match="--rates must be numbers"):
        command("--rates", "0;1")


def test_a_passage_that_answers_is_no_decoy_however_deep_it_ranks(lm: Any, tmp_path: Path) -> None:
    def buried(query: str, k: int) -> list[Passage]:
        own = passage(0, "Ardent")
        return [*OTHERS, own][:k]

    program = CRAG(buried, WordGrader(), web, k=2, upper=0.5, lower=-0.5)
    with dspy.context(lm=lm):
        Robustness(program, ["rag"], devset()[:1], rates=(0,), decoys=[7], run=tmp_path).ask(
            contains_word, threads=1
        )
        many = Robustness(program, ["rag:9"], devset()[:1], rates=(1,))
    assert many.at[1][0].left_out == ["Ardent"]
    assert not any("opened in" in request.inputs["context"] for request in lm.requests)


def test_curves_are_over_documents(lm: Any) -> None:
    questions = [
        dspy.Example({**example.toDict(), "document": f"guide {number % 2}"}).with_inputs("question")
        for number, example in enumerate(devset())
    ]
    with dspy.context(lm=lm):
        curves = Robustness(crag(), ["rag", "crag"], questions, rates=(0, 1), decoys=[1]).ask(
            contains_word, threads=1
        )
        alone = Robustness(crag(), ["rag", "crag"], questions, rates=(0, 1), by="question").ask(
            contains_word, threads=1
        )
    assert curves is not None
    assert alone is not None
    for points in (curves.removal, curves.decoys):
        assert {system.quality.groups for systems in points.values() for system in systems} == {2}
    assert {system.quality.groups for systems in alone.removal.values() for system in systems} == {len(NAMES)}
    note = f"intervals are over the 2 documents of {len(NAMES)} questions; with fewer than 8"
    assert note in str(curves)
    assert note in curves.markdown()
    assert note in curves.to_json()["note"]
