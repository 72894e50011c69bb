"""Training pairs: soft labels, whole questions in one split, errors by line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.training.targets import Target, read_targets, split_by_question, targets_digest

if TYPE_CHECKING:
    from pathlib import Path


def test_labels_may_be_any_probability(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [{"question": "q", "text": "t", "label": label, "source": "x"} for label in (0, 1, 0.25)]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")

    assert [target.label for target in read_targets(path)] == [0, 1, 0.25]


def test_other_layouts_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("which one\tthis one\t1\nwhich one\tthat one\t0\n", encoding="utf-8")

    assert read_targets(tmp_path / "pairs.tsv") == [
        Target("which one", "this one", 1.0),
        Target("which one", "that one", 0.0),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q", "text": "t", "label": 1.5}, r"pairs\.jsonl:2: label must be a number in \[0, 1\]"),
        ({"question": "q", "text": "t", "label": True}, "label must be a number"),
        ({"question": "q", "text": "t", "label": float("nan")}, "label must be a number"),
        ({"question": " ", "text": "t", "label": 1}, "question must be a text"),
        ({"question": "q", "label": 1}, "text is missing"),
        ([1, 2], r"pairs\.jsonl:2"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, row: Any, message: str) -> None:
    path = tmp_path / "pairs.jsonl"
    good = {"question": "q", "text": "t", "label": 1}
    path.write_text(f"{json.dumps(good)}\n{json.dumps(row)}\n", encoding="utf-8")

    with pytest.raises(ConfigError, match=message):
        read_targets(path)


@given(st.lists(st.tuples(st.text(min_size=1), st.integers(0, 3)), max_size=60), st.floats(0, 1))
def test_a_question_is_in_one_split_only_and_nothing_is_lost(
    rows: list[tuple[str, int]], share: float
) -> None:
    targets = [Target(question, f"text {n}", 1) for question, n in rows if question.strip()]
    train, dev = split_by_question(targets, share)

    assert not {t.question for t in train} & {t.question for t in dev}
    assert sorted(train + dev, key=repr) == sorted(targets, key=repr)


def test_about_the_asked_share_of_questions_is_kept_apart() -> None:
    _, dev = split_by_question([Target(f"question {n}", "text", 1) for n in range(2000)], 0.1)

    assert 150 < len(dev) < 250


def test_a_digest_tells_pairs_apart() -> None:
    first, second = Target("q", "t", 1), Target("q", "t", 0.5)

    assert targets_digest([first, second]) == targets_digest([Target("q", "t", 1), second])
    assert targets_digest([first, second]) != targets_digest([second, first])
