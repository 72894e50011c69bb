"""A `segments` head with attention apart: a text's vector does not depend on the question, and is computed once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crag_dspy.graders.batches import raw_scores
from crag_dspy.graders.t5 import T5Grader

QUESTION, OTHER = "which town has a tower", "what is the river called"
TEXTS = ["the tower of the town is old", "a river runs by", "the tower of the town is old", "rain", "town " * 90]


@pytest.fixture
def grader(tiny: Any, tmp_path: Path) -> T5Grader:
    tiny.save_grader(tmp_path / "grader", "segments", attention="apart", window=16, overlap=4)
    return T5Grader.from_pretrained(tmp_path / "grader", precision="fp32")


def test_scores_are_those_of_pairs_in_one_input(grader: T5Grader) -> None:
    pairs = [(question, text) for question in (QUESTION, OTHER) for text in TEXTS]
    alone = grader.raw_pairs(pairs)
    together = raw_scores(grader._scorer, grader._encoder, pairs, 64, "cpu").raws
    assert alone == pytest.approx(together, abs=1e-5)
    assert alone[0] == alone[2]


def test_each_different_segment_is_encoded_once(grader: T5Grader) -> None:
    rows: list[int] = []
    encoder = grader._scorer.backbone
    encoder.register_forward_hook(
        lambda module, args, kwargs, out: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    short = TEXTS[:4]
    first = grader.score(QUESTION, short)
    assert sum(rows) == 1 + 3
    assert grader.score(QUESTION, short) == first
    assert sum(rows) == 1 + 3
    grader.score(OTHER, short)
    assert sum(rows) == 1 + 3 + 1
