import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.files.met import Met
from crag_dspy.passages import Passage
from crag_dspy.retrievers.documents import (
    as_document,
    check_source,
    count_documents,
    given_documents,
    read_documents,
)


def write_lines(path: Path, *lines: Any) -> Path:
    path.write_text(
        "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines),
        encoding="utf-8",
    )
    return path


def read(source: Path) -> list[Passage]:
    return [document for document, _ in read_documents(source)]


def test_jsonl_keeps_every_field(tmp_path: Path) -> None:
    source = write_lines(
        tmp_path / "kb.jsonl",
        {
            "id": "a",
            "title": "T",
            "text": "Some text.",
            "url": "https://example.org/a",
            "metadata": {"page": 3},
        },
        "",
        {"id": 7, "text": "长江", "lang": "zh", "title": None},
    )
    assert read(source) == [
        Passage("Some text.", "a", "T", "https://example.org/a", metadata={"page": 3}),
        Passage("长江", "7", metadata={"lang": "zh"}),
    ]


def test_a_document_without_an_id_gets_the_same_one_from_the_same_content(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "kb.jsonl", {"text": "One."}, {"text": "Two."}, {"text": "One."})
    ids = [document.id for document in read(source)]
    assert len(set(ids)) == len(ids) == 2
    assert ids[0] == as_document("One.").id


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "cut', r"kb\.jsonl line 2: not JSON"),
        ('["text"]', "line 2: expected an object .* got list"),
        ('{"id": "b"}', "line 2: field 'text' is missing"),
        ('{"content": "x"}', "line 2: field 'text' is missing: rename 'content'"),
        ('{"text": "  "}', "line 2: field 'text' is empty"),
        ('{"text": 5}', "line 2: field 'text' must be a string, got 5"),
        ('{"text": "x", "title": ["T"]}', "line 2: field 'title' must be a string"),
        ('{"text": "x", "id": true}', "line 2: field 'id' must be a string, got True"),
        ('{"text": "x", "metadata": "m"}', "line 2: field 'metadata' must be an object"),
        ('{"text": "x \\ud800"}', "line 2: field 'text' has half a surrogate pair"),
        ('{"id": "a", "text": "another"}', "line 2: field 'id' is 'a'.*line 1"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, line: str, message: str) -> None:
    source = write_lines(tmp_path / "kb.jsonl", {"id": "a", "text": "fine"}, line)
    with pytest.raises(ConfigError, match=message):
        count_documents(source)


def test_one_line_that_is_not_utf8_changes_nothing_for_the_others(tmp_path: Path) -> None:
    lines = ['{"text": "Noël"}', '{"text": "Café"}', '{"text": "Été"}']
    raw = [line.encode() for line in lines] + [lines[1].encode("latin-1")]
    (tmp_path / "kb.jsonl").write_bytes(b"\n".join(raw))
    with pytest.raises(ConfigError, match=r"line 4: not UTF-8 \(byte 13\)"):
        read(tmp_path / "kb.jsonl")
    met = Met()
    assert [document.text for document, _ in read_documents(tmp_path, met)] == ["Noël", "Café", "Été"]
    assert len(met.refused) == 1


def test_one_bad_line_of_another_encoding_costs_itself_only(tmp_path: Path) -> None:
    lines = [
        json.dumps({"text": f"武汉长江大桥建成于{year}年，全长一千六百米。"}, ensure_ascii=False)
        for year in range(9)
    ]
    raw = [line.encode("gb18030") for line in lines]
    (tmp_path / "kb.jsonl").write_bytes(b"\n".join([*raw, b'{"text": "\xff\xff"}']))
    met = Met()
    assert len(list(read_documents(tmp_path, met))) == 9
    assert [message.split(": ")[1] for message in met.refused] == [
        "not GB18030 (byte 10), as other lines are"
    ]


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("name", ["kb.jsonl", "kb.csv", "a.md", "a.html"])
def test_what_is_not_utf8_is_recognised_and_told(tmp_path: Path, name: str, encoding: str) -> None:
    if name == "a.html":
        pytest.importorskip("markdownify", reason="needs the `files` extra")
    said = "武汉长江大桥建成于一九五七年，全长一千六百七十米，是长江上的第一座大桥。"
    text = {
        "kb.jsonl": json.dumps({"text": said}, ensure_ascii=False) + "\n",
        "kb.csv": f"id,text\na,{said}\n",
        "a.md": said,
        "a.html": f"<p>{said}</p>",
    }[name]
    (tmp_path / name).write_bytes(text.encode(encoding))
    met = Met()
    assert [document.text.strip() for document, _ in read_documents(tmp_path, met)] == [said]
    assert met.encodings == ({} if encoding == "utf-8-sig" else {encoding: [name]})
    assert len(met.warnings()) == len(met.encodings)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"%PDF-1.4 all of it ASCII", "a PDF, whatever its name says"),
        ("一座桥。".encode() * 50 + b"\xff", r"not UTF-8 \(byte 600\)"),
        (b"\x89PNG\r\n\x00\x1a\xff\xd8", "not UTF-8 .* not recognised"),
    ],
)
def test_what_is_no_text_is_named_for_what_it_seems(tmp_path: Path, raw: bytes, message: str) -> None:
    (tmp_path / "a.txt").write_bytes(raw)
    with pytest.raises(ConfigError, match=rf"a\.txt.*{message}"):
        read(tmp_path)


def test_what_cannot_be_read_is_told_at_the_end_and_costs_itself_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_lines(
        tmp_path / "kb.jsonl", {"id": "a", "text": "A."}, "{", {"id": "b"}, {"id": "a", "text": "Another."}
    )
    (tmp_path / "plans.csv").write_text("id,text\nc,C.\n,\nd,\n", encoding="utf-8")
    (tmp_path / "quotes.csv").write_text('a,b\n"open,1\n', encoding="utf-8")
    (tmp_path / "report.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (tmp_path / "letter.docx").write_bytes(b"PK\x03\x04 cut")
    (tmp_path / "z.txt").write_text("Z.", encoding="utf-8")
    met = Met()
    assert [document.id for document, _ in read_documents(tmp_path, met)] == ["a", "c", "z.txt"]
    assert [message.removeprefix(f"{tmp_path}/").split(":")[0] for message in met.refused] == [
        "kb.jsonl line 2",
        "kb.jsonl line 3",
        "kb.jsonl line 4",
        "letter.docx",
        "plans.csv line 4",
        "quotes.csv",
        "report.pdf",
    ]
    caplog.clear()
    met.tell()
    assert len(caplog.records) == 1
    assert "could not be read, left out (7):" in caplog.text


def test_a_source_of_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "kb.jsonl", "{", "[")
    with pytest.raises(ConfigError, match=r"nothing of it can be read:\ncould not be read, left out \(2\)"):
        check_source(source)
    write_lines(source, "{", {"text": "A."})
    assert check_source(source) == 1
    with pytest.raises(ConfigError, match="line 1"):
        check_source(source, strict=True)


def test_files_of_other_kinds_are_counted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a.xls", "b.XLS", "c.pptx", "README"):
        (tmp_path / name).write_bytes(b"PK")
    with pytest.raises(ConfigError, match=r"there are \.xls \(2\).*extract their text first"):
        read(tmp_path)
    (tmp_path / "d.txt").write_text("Text.", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert count_documents(tmp_path) == len(read(tmp_path)) == 1
    assert len(caplog.records) == 1
    assert "files of other kinds are left out: .xls (2)" in caplog.text


def test_a_folder_is_read_recursively_with_paths_as_ids(tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "guide" / "setup.md").write_text("```\n# no title\n```\n", encoding="utf-8")
    (tmp_path / "guide" / "use.md").write_text("Intro\n\n# How to use it #\n\nLike this.", encoding="utf-8")
    (tmp_path / "notes.TXT").write_text("\ufeffPlain notes.", encoding="utf-8")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "front.md").write_text("---\ntitle: 'Ports'\n---\n# Other\n", encoding="utf-8")
    (tmp_path / ".git" / "hidden.md").write_text("no", encoding="utf-8")
    found = {document.id: (document.title, document.text[:5]) for document in read(tmp_path)}
    assert found == {
        "front.md": ("Ports", "---\nt"),
        "guide/setup.md": ("setup", "```\n#"),
        "guide/use.md": ("How to use it", "Intro"),
        "notes.TXT": ("notes", "Plain"),
    }


def test_an_empty_text_file_is_left_out_and_said_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.txt").write_text("\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("b", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert [document.id for document in read(tmp_path)] == ["b.txt"]
    assert "a.txt" in caplog.text


@pytest.mark.parametrize("name", ["missing.jsonl", "table.xlsx", "empty-folder"])
def test_a_source_with_nothing_to_read_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "table.xlsx").write_text("a,b", encoding="utf-8")
    (tmp_path / "empty-folder").mkdir()
    with pytest.raises(ConfigError, match=name):
        read(tmp_path / name)


def test_documents_given_in_python() -> None:
    langchain = SimpleNamespace(page_content="From a loader.", metadata={"source": "https://example.org/x"})
    given = ["A text.", Passage("P", "p"), {"text": "M", "id": "m"}, langchain]
    found = [document for document, _ in given_documents(given)]
    assert [document.text for document in found] == ["A text.", "P", "M", "From a loader."]
    assert found[3].url == "https://example.org/x"


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([{"id": "a", "text": "1"}, {"id": "a", "text": "2"}], r"documents\[1\].*documents\[0\]"),
        (["fine", ""], r"documents\[1\]: field 'text' is empty"),
        ([Passage("x", metadata={"when": object()})], r"documents\[0\]: field 'metadata' is not JSON"),
    ],
)
def test_a_document_that_cannot_be_stored_is_named(documents: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list(given_documents(documents))


@pytest.mark.parametrize("one", ["a text", Passage("x"), {"text": "x"}])
def test_one_document_instead_of_a_list_is_a_type_error(one: Any) -> None:
    with pytest.raises(TypeError, match="documents must be a list"):
        list(given_documents(one))
