"""Pairs on disk: every published layout, faults named by file, line and field, and a loss-free round trip."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.pair_files import Pair, read_pairs, write_pairs


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_qnli_layout(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "dev.tsv",
        'index\tquestion\tsentence\tlabel\n7\tWho won?\tBob won "it.\tentailment\n'
        "9\tWho lost?\tIt rained.\tnot_entailment\n",
    )
    assert [(p.question, p.text, p.label) for p in read_pairs(path)] == [
        ("Who won?", 'Bob won "it.', 1),
        ("Who lost?", "It rained.", 0),
    ]


def test_trec_layout_is_detokenised(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "train.csv",
        'qtext,label,atext\n"Who , then ?",1,"`` Bob , \'\' it \'s said ."\nWho ?,0,No one .\n',
    )
    pairs = read_pairs(path)
    assert pairs[0] == Pair("Who, then?", '"Bob," it\'s said.', 1, "train")
    assert pairs[1].text == "No one."


def test_selqa_layout_without_header_joins_its_hyphens(tmp_path: Path) -> None:
    path = written(
        tmp_path, "dev.tsv", "Who is it ?\tA well - known man .\t1\nWho is it ?\tRain ( wet ) .\t0\n"
    )
    assert [(p.text, p.label) for p in read_pairs(path)] == [("A well-known man.", 1), ("Rain (wet).", 0)]
    assert read_pairs(path, detokenised=False)[0].text == "A well - known man ."


def test_chinese_and_plain_english_are_not_touched(tmp_path: Path) -> None:
    rows = "question,text,label\n谁 发明 了它？,他 - 我 说。,1\nWho?,A - B.,0\n"
    pairs = read_pairs(written(tmp_path, "mixed.csv", rows))
    assert [p.text for p in pairs] == ["他 - 我 说。", "A - B."]


def test_jsonl_reads_other_names_and_labels_and_keeps_source_and_doc(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "a.jsonl",
        '\ufeff{"query": "q", "passage": "p", "label": true, "source": "s", "doc": "d"}\n\n'
        '{"question": "q", "text": "p", "label": "not_entailment"}\n',
    )
    assert read_pairs(path) == [Pair("q", "p", 1, "s", "d"), Pair("q", "p", 0, "a")]


@pytest.mark.parametrize(
    ("name", "content", "names"),
    [
        ("a.jsonl", '{"question": "q", "text": "t"}\n', r"a\.jsonl:1: label is missing"),
        ("a.jsonl", '\n{"question": "q", "text": " ", "label": 1}\n', r"a\.jsonl:2: text must be"),
        ("a.jsonl", '{"question": 3, "text": "t", "label": 1}\n', r"a\.jsonl:1: question must be"),
        (
            "a.jsonl",
            '{"question": "q", "text": "t", "label": 0.5}\n',
            r"a\.jsonl:1: label must be 0 or 1.*0\.5",
        ),
        (
            "a.jsonl",
            '{"question": "q", "text": "t", "label": [1]}\n',
            r"a\.jsonl:1: label must be a number in",
        ),
        ("a.jsonl", '{"question": "q", \n', r"a\.jsonl:1: not JSON"),
        ("a.jsonl", "[1, 2]\n", r"a\.jsonl:1: must be an object, got list"),
        ("a.tsv", "q\tt\tmaybe\n", r"a\.tsv:1: label must be a number in.*'maybe'"),
        ("a.tsv", "q\tt\n", r"a\.tsv:1: expected a header with question, text and label"),
        ("a.tsv", "question\ttext\tlabel\nq\tt\n", r"a\.tsv:2: label is missing: 2 columns, expected 3"),
        ("a.csv", 'question,text,label\nq,"t,1\n', r"a\.csv:\d: not CSV"),
        ("a.tsv", "", r"a\.tsv: holds no pairs"),
        ("a.csv", "question,text,label\n", r"a\.csv: holds no pairs"),
    ],
)
def test_a_fault_is_named_by_file_line_and_field(tmp_path: Path, name: str, content: str, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        read_pairs(written(tmp_path, name, content))


def test_a_missing_file_and_another_encoding_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file"):
        read_pairs(tmp_path / "absent.jsonl")
    (tmp_path / "latin.tsv").write_bytes("é\tü\t1\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin\.tsv: not UTF-8"):
        read_pairs(tmp_path / "latin.tsv")


text = st.text(min_size=1, max_size=30).filter(lambda value: value.strip())


@given(
    st.lists(
        st.builds(Pair, text, text, st.integers(0, 1), st.text(min_size=1, max_size=5), st.text(max_size=5)),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair]
) -> None:
    path = tmp_path_factory.mktemp("pairs") / "folder" / "pairs.jsonl"
    assert write_pairs(pairs, path) == len(pairs)
    assert read_pairs(path, detokenised=False) == pairs


@pytest.mark.datasets
@pytest.mark.parametrize(
    ("name", "count", "relevant"),
    [
        ("qnli/dev.tsv", 3500, 1762),
        ("selqa/dev.tsv", 9377, 893),
        ("trecqa/train.csv", 4718, 348),
        ("trecqa/dev.csv", 1148, 222),
    ],
)
def test_published_files_are_read_whole(name: str, count: int, relevant: int) -> None:
    folder = os.environ.get("CRAG_DATASETS")
    if not folder:
        pytest.skip("CRAG_DATASETS is not set")
    pairs = read_pairs(Path(folder) / name)
    assert (len(pairs), sum(pair.label for pair in pairs)) == (count, relevant)
    assert not any(" ," in pair.text or "-LRB-" in pair.text for pair in pairs)


def test_a_cell_may_be_long(tmp_path: Path) -> None:
    before = csv.field_size_limit(131_072)
    try:
        text = "word " * 40_000
        (tmp_path / "pairs.csv").write_text(f"question,text,label\nWhat?,{text},1\n", encoding="utf-8")
        (pair,) = read_pairs(tmp_path / "pairs.csv")
        assert len(pair.text) > 131_072
    finally:
        csv.field_size_limit(before)
