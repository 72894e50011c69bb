"""Near texts without labels: drawn from three parts of each question's ranking."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from command_line import run_command
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs import near
from crag_dspy.evaluator_train.pairs.pair_files import Pair, read_pairs, write_pairs
from crag_dspy.retrievers.embedders import as_embedder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def in_order(question: str, k: int) -> Sequence[int]:
    return range(200)[:k]


TEXTS = [f"text {number}" for number in range(200)]


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=5), st.integers(0, 9))
def test_two_of_the_best_four_one_up_to_20_and_one_up_to_120(questions: list[str], seed: int) -> None:
    made = list(near.near_pairs(questions, TEXTS, in_order, seed=seed))

    for question in questions:
        ranks = [TEXTS.index(pair.text) for pair in made if pair.question == question]
        parts = [sum(start <= rank < end for rank in ranks) for start, end in ((0, 4), (4, 20), (20, 120))]
        assert (parts, len(set(ranks))) == ([2, 1, 1], 4)
        alone = list(near.near_pairs([question], TEXTS, in_order, seed=seed))
        assert alone == [pair for pair in made if pair.question == question]
    assert all(pair.label is None for pair in made)


def test_a_short_ranking_gives_what_it_has_and_a_question_is_not_its_own_text() -> None:
    texts = ["which bridge", "a bridge of stone", "rain"]
    made = list(near.near_pairs(["which bridge"], texts, near.lexical(texts)))

    assert [pair.text for pair in made] == ["a bridge of stone"]


def test_questions_are_read_as_they_are_ranked() -> None:
    """So that a progress bar over them tells the truth."""
    read: list[str] = []

    def asked() -> Iterator[str]:
        for question in ("a", "b", "a"):
            read.append(question)
            yield question

    made = near.near_pairs(asked(), TEXTS, in_order)
    next(made)
    assert read == ["a"]
    assert len([pair for pair in made if pair.question == "a"]) == 3  # the rest of its four


def test_an_embedder_ranks_by_cosine() -> None:
    def lengths(texts: list[str]) -> np.ndarray:
        return np.array([[1.0, len(text)] for text in texts])

    embedder = as_embedder(lengths)
    assert embedder is not None
    assert list(near.semantic(["aaaaaaaa", "a", "aaa"], embedder)("aa", 2)) == [2, 1]


def command(*arguments: str) -> int:
    return run_command("grader", "pairs", "--near", *arguments)


def test_the_command_reads_lines_and_pairs_and_keeps_apart_from_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text(
        "the old bridge of stone\n\nthe bridge burned down\n", encoding="utf-8"
    )
    (tmp_path / "q.txt").write_text("who built the bridge\n", encoding="utf-8")
    write_pairs([Pair("when did it burn", "a mill of stone", 1)], tmp_path / "train.jsonl")
    write_pairs([Pair("?", "The bridge burned down.", 0)], tmp_path / "heldout.jsonl")
    out = tmp_path / "near.jsonl"

    command(
        *("--questions", f"{tmp_path}/q.txt,{tmp_path}/train.jsonl"),
        *("--texts", f"{tmp_path}/texts.txt,{tmp_path}/train.jsonl"),
        *("--apart", str(tmp_path / "heldout.jsonl"), "--out", str(out), "--json"),
    )

    said = json.loads(capsys.readouterr().out)
    assert (said["questions"], said["texts"], said["leaks left out"]) == (2, 3, 1)
    assert read_pairs(out, labels="any") == [
        Pair("who built the bridge", "the old bridge of stone", None, "near/train")
    ]


def test_files_without_anything_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="--questions: the files hold nothing"):
        command("--questions", str(tmp_path / "empty.txt"), "--texts", "x", "--out", "y")
    with pytest.raises(ConfigError, match="--questions: no file"):
        command("--questions", str(tmp_path / "absent.txt"), "--texts", "x", "--out", "y")
