"""A `segments` head with attention apart: a text's vector does not depend on the question, and is computed once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crag_dspy.graders.batches import raw_scores
from crag_dspy.graders.t5 import T5Grader


@pytest.fixture
def words(tiny: Any) -> tuple[list[str], list[str]]:
    """Two questions, and texts of which two are equal and one is long enough for several windows."""
    fill, animals = tiny.FILLERS, tiny.ANIMALS
    questions = [" ".join(fill[:4]), " ".join(fill[2:6])]
    texts = [
        " ".join(animals[:3]),
        " ".join(fill[3:7]),
        " ".join(animals[:3]),
        animals[1],
        " ".join(fill * 8),
    ]
    return questions, texts


@pytest.fixture
def grader(tiny: Any, tmp_path: Path) -> T5Grader:
    tiny.save_grader(tmp_path / "grader", "segments", attention="apart", window=16, overlap=4)
    return T5Grader.from_pretrained(tmp_path / "grader", precision="fp32")


def test_scores_are_those_of_pairs_in_one_input(grader: T5Grader, words: tuple[list[str], list[str]]) -> None:
    pairs = [(question, text) for question in words[0] for text in words[1]]
    alone = grader.raw_pairs(pairs)
    together = raw_scores(grader.scorer, grader.encoder, pairs, 64, "cpu").raws
    assert None not in alone
    assert alone == pytest.approx(together, abs=1e-5)
    assert alone[0] == alone[2]


def test_each_different_segment_is_encoded_once(grader: T5Grader, words: tuple[list[str], list[str]]) -> None:
    rows: list[int] = []
    encoder = grader.scorer.backbone
    encoder.register_forward_hook(
        lambda module, args, kwargs, out: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    (question, other), texts = words[0], words[1][:4]
    first = grader.score(question, texts)
    assert sum(rows) == 1 + 3
    assert grader.score(question, texts) == first
    assert sum(rows) == 1 + 3
    grader.score(other, texts)
    assert sum(rows) == 1 + 3 + 1
