"""`crag-dspy index FOLDER --out weaviate` moves an index over, with its vectors, and goes on where it stopped."""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crag_dspy import LocalIndex, WeaviateRetriever
from crag_dspy.commands.cli import main
from crag_dspy.commands.to_weaviate import _table
from crag_dspy.config.reading import load_config
from crag_dspy.errors import RetrieverError
from crag_dspy.retrievers.weaviate_collection import create_collection


def letters(texts: list[str]) -> Any:
    return np.array([[text.lower().count(letter) + 0.1 for letter in "abcdeilmnorstuw"] for text in texts])


@pytest.fixture
def index(tmp_path: Path) -> Path:
    documents = [
        {"id": "a", "title": "Water", "text": "Water boils at one hundred degrees.", "url": "https://kb/a"},
        {"id": "b", "title": "Lead", "text": "Lead melts at low heat.", "url": "https://kb/b"},
    ]
    LocalIndex.create(tmp_path / "index", letters).add(documents)
    return tmp_path / "index"


def test_an_index_is_moved_once_and_found_there(
    place: Any, fresh_name: str, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "index",
        str(index),
        "--out",
        "weaviate",
        "--url",
        place.url,
        "--grpc-port",
        str(place.grpc_port),
    ]
    arguments += ["--collection", fresh_name, "--json"]
    assert main(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["made"], first["written"], first["failed"]) == (True, 2, [])
    assert main(arguments) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["made"], again["written"], again["unchanged"]) == (False, 0, 2)
    there = WeaviateRetriever.from_url(
        place.url, fresh_name, grpc_port=place.grpc_port, mode="near_vector", embedder=letters
    )
    found = there("Lead melts at low heat.", 1)[0]
    assert (found.text, found.title, found.url) == ("Lead melts at low heat.", "Lead", "https://kb/b")
    there.close()


def move(server: Any, index: Path, *options: str) -> int:
    place = ["--url", server.url, "--grpc-port", str(server.grpc_port), "--collection", "Docs"]
    return main(["index", str(index), "--out", "weaviate", *place, *options])


def test_a_new_collection_is_made_as_asked_for(weaviate_server: Any, index: Path) -> None:
    assert move(weaviate_server, index, "--replicas", "3", "--shards", "3", "--tokenization", "gse_ch") == 0
    schema = weaviate_server.collections["Docs"].schema
    assert (schema["replicationConfig"]["factor"], schema["shardingConfig"]["desiredCount"]) == (3, 3)
    assert {prop["tokenization"] for prop in schema["properties"][:2]} == {"gse_ch"}


@pytest.mark.parametrize(("tokenization", "told"), [("word", 1), ("both", 0)])
def test_text_without_spaces_asks_for_a_tokenization_that_finds_its_words(
    weaviate_server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, tokenization: str, told: int
) -> None:
    LocalIndex.create(tmp_path / "index", embedder=None).add([{"id": "a", "text": "水在一百度沸腾。"}])
    assert move(weaviate_server, tmp_path / "index", "--tokenization", tokenization) == 0
    assert caplog.text.count("the tokenization 'both'") == told


def test_a_collection_that_is_there_with_another_tokenization_is_told(
    weaviate_server: Any, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert move(weaviate_server, index, "--tokenization", "word") == 0
    assert "is never changed" not in capsys.readouterr().err
    assert move(weaviate_server, index, "--tokenization", "trigram") == 0
    assert "cut by 'word' and not by 'trigram'" in capsys.readouterr().err


def test_the_table_that_is_printed_answers(
    weaviate_server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LocalIndex.create(tmp_path / "index", embedder=None).add([{"id": "a", "text": "Water boils."}])
    assert move(weaviate_server, tmp_path / "index", "--verify", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["verified"] == {"missing": [], "twice": [], "without_vector": [], "not_found": []}
    config = tmp_path / "crag.toml"
    config.write_text(said["config"])
    retriever = load_config(config).parts["retriever"].make()
    assert [one.id for one in retriever("water", 1)] == ["a"]
    retriever.close()


def test_the_table_names_the_embedder_of_the_index() -> None:
    args = argparse.Namespace(
        url="https://my.cloud", collection="Docs", cloud=True, grpc_port=50051, tenant="acme"
    )
    table = tomllib.loads(_table(args, "minilm", True))["retriever"]
    assert (table["embedder"], table["tenant"], table["cloud"]) == ("minilm", "acme", True)
    assert "embedder: the one that made" in _table(args, None, True)


def test_an_index_without_its_embedder_is_asked_for_it(weaviate_server: Any, index: Path) -> None:
    assert move(weaviate_server, index) == 0
    store = WeaviateRetriever.from_url(weaviate_server.url, "Docs", grpc_port=weaviate_server.grpc_port)
    with pytest.raises(RetrieverError, match="pass embedder="):
        store("water", 1)
    store.close()


def test_documents_go_over_in_one_step(
    weaviate_server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("Water boils at one hundred degrees. " * 40)
    options = ["--embedder", "none", "--chunk-words", "50", "--json"]
    assert move(weaviate_server, docs, *options) == 0
    assert json.loads(capsys.readouterr().out)["written"] > 1
    assert move(weaviate_server, docs, *options) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["written"] == 0
    assert again["config"].endswith('mode = "bm25"')
    (docs / "b.txt").write_bytes(b"\x89PNG\x00\xff")
    assert move(weaviate_server, docs, *options) == 1
    assert [message.split(": ")[0] for message in json.loads(capsys.readouterr().out)["refused"]] == [
        str(docs / "b.txt")
    ]


def test_doctor_asks_the_server(
    weaviate_server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LocalIndex.create(tmp_path / "index", embedder=None).add([{"id": "a", "text": "Water boils."}])
    move(weaviate_server, tmp_path / "index", "--json")
    config = tmp_path / "crag.toml"
    config.write_text(json.loads(capsys.readouterr().out)["config"])
    main(["doctor", "--config", str(config), "--connect", "--json"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (retriever,) = [one for one in found if one["name"] == "retriever"]
    assert retriever["state"] == "ok"
    for said in (
        "Weaviate 1.40.2, ready",
        "collection Docs: 1 objects",
        "tokenization both",
        "vectors default",
    ):
        assert said in retriever["says"]
    config.write_text(config.read_text().replace('"Docs"', '"Books"'))
    main(["doctor", "--config", str(config), "--connect", "--json"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (retriever,) = [one for one in found if one["name"] == "retriever"]
    assert retriever["state"] == "missing"
    assert "collection's name" in retriever["says"]


def test_a_refused_passage_is_listed_and_the_status_is_1(
    weaviate_server: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = WeaviateRetriever.from_url(weaviate_server.url, "Docs", grpc_port=weaviate_server.grpc_port)
    create_collection(store, properties={"year": "int"})
    store.close()
    documents = [
        {"id": "a", "text": "Water.", "year": 1931},
        {"id": "b", "text": "Lead.", "year": "long ago"},
    ]
    LocalIndex.create(tmp_path / "index", embedder=None).add(documents)
    assert move(weaviate_server, tmp_path / "index") == 1
    said = capsys.readouterr().out
    assert "written 1" in said
    assert "refused b: " in said


def test_the_cloud_is_reached_by_its_url(
    weaviate_server: Any, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import weaviate

    asked: list[str] = []

    def connect(cluster_url: str, **_: Any) -> Any:
        asked.append(cluster_url)
        host, port = weaviate_server.url.removeprefix("http://").split(":")
        return weaviate.connect_to_local(host, int(port), weaviate_server.grpc_port, skip_init_checks=True)

    monkeypatch.setattr(weaviate, "connect_to_weaviate_cloud", connect)
    place = ["--url", "my.weaviate.cloud", "--cloud", "--collection", "Docs"]
    assert main(["index", str(index), "--out", "weaviate", *place]) == 0
    assert asked == ["my.weaviate.cloud"]
    assert len(weaviate_server.collections["Docs"].of("")) == 2


def test_a_server_that_is_not_there_is_one_line(
    weaviate_server: Any, index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weaviate_server.stop()
    assert move(weaviate_server, index) == 2
    assert "check that it is up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "weaviate", "--collection", "Docs"], "needs --url"),
        (["--out", "weaviate", "--url", "http://127.0.0.1:1"], "needs --collection"),
    ],
)
def test_what_is_missing_is_named(
    index: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["index", str(index), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_source_that_cannot_be_read_is_said_before_any_connection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--url", "http://127.0.0.1:1", "--collection", "D"]
    assert main(["index", str(tmp_path / "nowhere"), "--out", "weaviate", *place]) == 2
    assert "nowhere" in capsys.readouterr().err
