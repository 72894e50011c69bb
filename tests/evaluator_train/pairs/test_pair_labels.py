"""Labels of pairs: verdicts, soft ones and none; whole questions in one split; errors by line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.labels import pairs_digest, soft_labels, verdicts
from crag_dspy.evaluator_train.pairs.pair_files import Pair, read_pairs
from crag_dspy.evaluator_train.pairs.splits import split_by_question

if TYPE_CHECKING:
    from pathlib import Path


def test_labels_may_be_any_probability(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [{"question": "q", "text": "t", "label": label, "source": "x"} for label in (0, 1, 0.25)]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")

    assert [target.label for target in read_pairs(path, labels="soft")] == [0, 1, 0.25]


def test_other_layouts_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("which one\tthis one\t1\nwhich one\tthat one\t0\n", encoding="utf-8")

    assert read_pairs(tmp_path / "pairs.tsv", labels="soft") == [
        Pair("which one", "this one", 1.0, "pairs"),
        Pair("which one", "that one", 0.0, "pairs"),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q", "text": "t", "label": 1.5}, r"pairs\.jsonl:2: label must be a number in \[0, 1\]"),
        ({"question": "q", "text": "t", "label": "often"}, "label must be a number"),
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
        read_pairs(path, labels="soft")


@given(st.lists(st.tuples(st.text(min_size=1), st.integers(0, 3)), max_size=60), st.floats(0, 1))
def test_a_question_is_in_one_split_only_and_nothing_is_lost(
    rows: list[tuple[str, int]], share: float
) -> None:
    targets = [Pair(question, f"text {n}", 1) for question, n in rows if question.strip()]
    train, dev = split_by_question(targets, share)

    assert not {t.question for t in train} & {t.question for t in dev}
    assert sorted(train + dev, key=repr) == sorted(targets, key=repr)


def test_about_the_asked_share_of_questions_is_kept_apart() -> None:
    _, dev = split_by_question([Pair(f"question {n}", "text", 1) for n in range(2000)], 0.1)

    assert 150 < len(dev) < 250


def test_a_digest_tells_pairs_apart() -> None:
    first, second = Pair("q", "t", 1), Pair("q", "t", 0.5)

    assert pairs_digest([first, second]) == pairs_digest([Pair("q", "t", 1), second])
    assert pairs_digest([first, second]) != pairs_digest([second, first])


def test_a_pair_knows_words_numbers_and_that_nobody_has_judged() -> None:
    assert [Pair("q", "t", label).label for label in ("entailment", "No", "0.25", True, None)] == [
        1,
        0,
        0.25,
        1,
        None,
    ]
    assert [Pair("q", "t", label).relevant for label in (1, 0.5, 0.49, 0, None)] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_what_nobody_has_judged_is_not_trained_on_and_not_measured() -> None:
    pairs = [Pair("who?", "a", 1), Pair("where?", "b")]
    for labels in (soft_labels, verdicts):
        with pytest.raises(ConfigError, match=r"pairs: a pair of the question 'where\?' has no label"):
            labels(pairs, "pairs")


def test_a_soft_label_is_no_verdict_unless_rounded() -> None:
    pairs = [Pair("q", "a", 0.9), Pair("q", "b", 0)]
    assert verdicts(pairs, "dev", rounded=True) == [1, 0]
    with pytest.raises(ConfigError, match=r"dev: labels must be verdicts, 0 or 1, got 0\.9"):
        verdicts(pairs, "dev")
    with pytest.raises(ConfigError, match="dev: holds only label 0"):
        verdicts(pairs[1:], "dev")
