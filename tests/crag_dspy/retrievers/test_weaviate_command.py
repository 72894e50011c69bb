"""`crag-dspy index FOLDER --to weaviate` moves an index over, with its vectors, and goes on where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crag_dspy import LocalIndex, WeaviateRetriever
from crag_dspy.cli import main


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
        "--to",
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "weaviate", "--collection", "Docs"], "needs --url"),
        (["--to", "weaviate", "--url", "http://127.0.0.1:1"], "needs --collection"),
    ],
)
def test_what_is_missing_is_named(
    index: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["index", str(index), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_source_that_is_no_index_is_said_before_any_connection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("Water boils.")
    assert (
        main(["index", str(tmp_path), "--to", "weaviate", "--url", "http://127.0.0.1:1", "--collection", "D"])
        == 2
    )
    assert "moves an index" in capsys.readouterr().err
