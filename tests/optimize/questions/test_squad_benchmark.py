"""A benchmark out of SQuAD: whole articles in one place and one split, and questions that know where their
evidence is."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from command_line import run_command
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.config.reading import build, load_config
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.questions.datasets import load
from crag_dspy.optimize.questions.squad_benchmark import Articles, read_articles, squad_benchmark, titles_of

SAID = {
    "en": ("The {} Bridge opened in {}. Its ironwork came from {}.", "When did the {} Bridge open?"),
    "zh": ("{}大桥于{}年通车。钢材来自{}。", "{}大桥是哪一年通车的？"),
}


def squad(articles: int = 12, lang: str = "en") -> dict[str, Any]:
    """Two paragraphs an article, one question each."""
    text, asked = SAID[lang]
    data = []
    for a in range(articles):
        paragraphs = []
        for p in range(2):
            name, year = f"{chr(65 + a)}{'uv'[p]}x", str(1800 + 10 * a + p)
            context = text.format(name, year, f"{name}ville")
            answers = [{"text": year, "answer_start": context.index(year)}]
            qas = [{"id": f"q{a}-{p}", "question": asked.format(name), "answers": answers}]
            paragraphs.append({"context": context, "qas": qas})
        data.append({"title": f"Bridges_of_{chr(65 + a)}", "paragraphs": paragraphs})
    return {"version": "1.1", "data": data}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(squad()), encoding="utf-8")
    return path


def command(*arguments: str | Path) -> int:
    return run_command("make-benchmark", *map(str, arguments))


@given(
    seed=st.integers(0, 50),
    kb=st.sampled_from([0.3, 0.45, 0.5]),
    web=st.sampled_from([0.2, 0.3]),
    both=st.sampled_from([0.0, 0.1]),
    articles=st.integers(12, 20),
)
def test_an_article_is_in_one_place_and_one_split(
    tmp_path_factory: pytest.TempPathFactory, seed: int, kb: float, web: float, both: float, articles: int
) -> None:
    path = tmp_path_factory.mktemp("squad") / "tiny.json"
    path.write_text(json.dumps(squad(articles)), encoding="utf-8")
    made = squad_benchmark(path, kb=kb, web=web, both=both, seed=seed)
    where: dict[str, set[str]] = defaultdict(set)
    for place, rows in made.documents.items():
        for row in rows:
            where[row["id"]].add(place)
    places: dict[str, set[frozenset[str]]] = defaultdict(set)
    for identity, each in where.items():
        places[identity.split("#")[0]].add(frozenset(each))
    assert all(len(each) == 1 for each in places.values())
    assert both > 0 or all(len(each) == 1 for each in where.values())
    splits: dict[str, set[str]] = defaultdict(set)
    for split, rows in made.questions.items():
        for row in rows:
            splits[row["document"]].add(split)
            assert row["split"] == split
            found = {place for identity in row["relevant_ids"] for place in where[identity]}
            expected = {"internal": {"kb"}, "web": {"web"}, "both": {"kb", "web"}, "none": set()}
            assert found == expected[row["expect"]]
            assert bool(row["answers"]) == (row["expect"] != "none") == ("withheld" not in row)
            assert row["expect"] != "none" or row["document"] not in places
    assert all(len(each) == 1 for each in splits.values())
    assert sum(map(len, made.questions.values())) == 2 * articles
    texts = {row["id"]: row["text"] for rows in made.documents.values() for row in rows}
    assert all(
        row["answers"][0] in texts[row["relevant_ids"][0]]
        for rows in made.questions.values()
        for row in rows
        if row["answers"]
    )


def test_a_smaller_sample_is_the_beginning_of_a_larger_one(source: Path) -> None:
    whole, small = squad_benchmark(source), squad_benchmark(source, test=5)
    assert list(small.questions["test"]) == list(whole.questions["test"])[:5]
    assert small.questions["dev"] == whole.questions["dev"]
    assert small.documents == whole.documents


def test_every_beginning_is_a_fair_sample(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_text(json.dumps(squad(26)), encoding="utf-8")
    rows = squad_benchmark(path, test_share=0.8, kb=0.4, web=0.4).questions["test"]
    shares = {
        expect: sum(row["expect"] == expect for row in rows) / len(rows) for expect in ("internal", "none")
    }
    for n in (10, 20, 30):
        for expect, share in shares.items():
            assert abs(sum(row["expect"] == expect for row in rows[:n]) - share * n) <= 1


def test_a_translation_is_dealt_the_same_way(tmp_path: Path, source: Path) -> None:
    other = tmp_path / "zh.json"
    other.write_text(json.dumps(squad(lang="zh")), encoding="utf-8")
    english, chinese = squad_benchmark(source, seed=3), squad_benchmark(other, seed=3)
    assert english.about["articles"] == chinese.about["articles"]
    assert chinese.about["language"] == "zh"
    ids = [[row["id"] for row in made.questions["test"]] for made in (english, chinese)]
    assert ids[0] == ids[1]


def test_questions_come_from_the_articles_that_were_named(source: Path) -> None:
    titles = titles_of(source)
    held = titles[:6]
    asked = squad_benchmark(source, articles=Articles(only=held, exclude=held[:1]))
    about = {row["document"] for rows in asked.questions.values() for row in rows}
    assert about == set(held[1:])
    stored = {row["id"].split("#")[0] for rows in asked.documents.values() for row in rows}
    assert stored - set(held)  # the others are documents all the same

    exact = squad_benchmark(source, articles=Articles(test=held[:2]))
    assert {row["document"] for row in exact.questions["test"]} == set(held[:2])
    assert {row["document"] for row in exact.questions["dev"]} == set(titles) - set(held[:2])


def test_articles_by_title_number_and_file(tmp_path: Path) -> None:
    titles = ["A", "B", "7"]
    lists = tmp_path / "lists.json"
    lists.write_text('{"train": [0], "held": [1, "7"]}')
    lines = tmp_path / "lines.txt"
    lines.write_text("A\n\nB\n")
    assert read_articles("B,0", titles) == ["B", "A"]
    assert read_articles(f"{lists}:held", titles) == ["B", "7"]
    assert read_articles(str(lines), titles) == ["A", "B"]
    with pytest.raises(ConfigError, match="no article '3': the file has 3"):
        read_articles("3", titles)
    with pytest.raises(ConfigError, match="has the lists train, held: write FILE:NAME, got 'test'"):
        read_articles(f"{lists}:test", titles)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kb": 1.0}, "kb must be between 0 and 1"),
        ({"both": -0.1}, "both must be between 0 and 1"),
        ({"kb": 0.7, "web": 0.7}, "must add up to at most 1"),
        ({"test": 0}, "test must be at least 1 question"),
        ({"articles": Articles(only=["Paris"])}, "no article 'Paris'"),
        ({"articles": Articles(only=["Bridges_of_A"])}, "leave none for"),
        (
            {"articles": Articles(test=["Bridges_of_A"], exclude=["Bridges_of_A"])},
            "is excluded, and named for test",
        ),
    ],
)
def test_what_cannot_be_dealt_is_told(options: dict[str, Any], message: str, source: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        squad_benchmark(source, **options)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_folder_opens_as_a_program(
    lang: str, tmp_path: Path, scripted_lm: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    import dspy

    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(squad(lang=lang)), encoding="utf-8")
    out = tmp_path / "deep" / "bench"
    assert command(path, "--out", out, "--embedder", "none", "--json") == 0
    about = json.loads(capsys.readouterr().out)
    examples = load(out / "questions.test.jsonl")
    assert len(examples) == about["questions"]["test"]["all"] > 5

    crag = build(load_config(out / "crag.toml"))
    by_place = {"internal": crag.corrective.retrieve, "web": crag.corrective.search}
    rows = [json.loads(line) for line in (out / "questions.test.jsonl").read_text("utf-8").splitlines()]
    for row in rows:
        if row["expect"] == "none":
            continue
        found = by_place[row["expect"]].part(row["question"], 3)
        assert row["relevant_ids"][0] in [passage.id for passage in found]

    with dspy.context(lm=scripted_lm({"answer": "1800", "query": lambda r: r.inputs["question"]})):
        unanswerable = next(e for e in examples if not e.answers)
        prediction = crag(question=unanswerable.question)
    assert contains_word(unanswerable, dspy.Prediction(answer="")).score == 1.0
    assert prediction.trace.passages


def test_a_folder_that_is_there_is_not_overwritten(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    command(source, "--out", out, "--embedder", "none")
    before = (out / "questions.test.jsonl").read_text("utf-8")
    with pytest.raises(ConfigError, match="--fresh to replace the benchmark"):
        command(source, "--out", out, "--embedder", "none")
    command(source, "--out", out, "--embedder", "none", "--seed", "1", "--fresh")
    assert (out / "questions.test.jsonl").read_text("utf-8") != before
    (tmp_path / "mine").mkdir()
    with pytest.raises(ConfigError, match="is no benchmark"):
        command(source, "--out", tmp_path / "mine", "--fresh")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
