"""Soft labels: a teacher's share of a label, its word where there is none, and no pair twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs import soften as softening
from crag_dspy.evaluator_train.pairs.pair_files import Pair, read_pairs, write_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pairs_ = st.builds(
    Pair,
    st.sampled_from("abc"),
    st.sampled_from("xyz"),
    st.one_of(st.none(), st.floats(0, 1)),
    st.sampled_from(("", "selqa/train", "qnli/train")),
)


def by_length(pairs: Sequence[Pair]) -> list[float | None]:
    """A teacher that cannot tell of z, and trusts nothing else either."""
    return [None if pair.text == "z" else 0.2 for pair in pairs]


def softened(*pairs: Pair, **options: Any) -> list[Pair]:
    return [pair for pair, _ in softening.soften(pairs, by_length, **options)]


def test_the_teacher_has_its_share_of_a_label_and_the_whole_of_a_missing_one() -> None:
    assert [pair.label for pair in softened(Pair("a", "x", 1), Pair("a", "y"))] == [0.8, 0.2]
    assert softened(Pair("a", "x", 1), weight=1)[0].label == 0.2
    assert softened(Pair("a", "x", 1), weight=0)[0].label == 1


def test_where_the_teacher_cannot_tell_a_label_stays_and_a_pair_without_one_goes() -> None:
    assert softened(Pair("a", "z", 1), Pair("b", "z")) == [Pair("a", "z", 1)]


def test_labelled_pairs_of_other_sources_keep_their_labels() -> None:
    told = softened(
        Pair("a", "x", 0, "selqa/train"),
        Pair("b", "x", 0, "selqa-natural/train"),
        Pair("c", "x", None, "near/train"),
        sources=["selqa"],
    )
    assert [pair.label for pair in told] == [0.05, 0, 0.2]


@given(st.lists(pairs_, max_size=20))
def test_each_question_and_text_comes_out_once_in_order_with_its_first_label(pairs: list[Pair]) -> None:
    found = softening.distinct(pairs)

    assert [(p.question, p.text) for p in found] == list(dict.fromkeys((p.question, p.text) for p in pairs))
    for one in found:
        labels = [p.label for p in pairs if (p.question, p.text) == (one.question, one.text)]
        assert one.label == next((label for label in labels if label is not None), None)


@given(st.lists(pairs_, max_size=20))
def test_chunks_change_nothing(pairs: list[Pair]) -> None:
    whole = softened(*pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softening, "CHUNK", 2)
        assert softened(*pairs) == whole


def test_a_share_outside_0_and_1_is_refused() -> None:
    with pytest.raises(ConfigError, match="weight"):
        softened(Pair("a", "x", 1), weight=1.5)


class Shouting:
    """A grader that finds relevant what is written in capitals, and does not judge an empty question mark."""

    name = fingerprint = "shouting"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        self.asked.append(question)
        return [None if text == "?" else 0.5 if text.isupper() else -1.0 for text in texts]


def test_a_grader_teaches_in_probabilities_and_is_asked_once_a_question() -> None:
    grader = Shouting()
    pairs = [Pair("a", "X"), Pair("b", "x"), Pair("a", "?"), Pair("a", "x")]

    assert softening.grader_judge(grader)(pairs) == [0.75, 0.0, None, 0.0]
    assert grader.asked == ["a", "b"]


def command(*arguments: str) -> int:
    return run_command("grader", "pairs", *arguments)


def test_the_command_lets_a_t5_teach(tiny: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from crag_dspy.graders import T5Grader

    teacher = tiny.save_plain(tmp_path / "teacher", "true_false")
    asked = "which place does otter like ?"
    rows = [
        Pair(asked, "otter sleeps near river", 1),
        Pair(asked, "blue field"),
        Pair(asked, "old stone", 0),
    ]
    write_pairs([*rows, rows[0]], tmp_path / "pairs.jsonl")

    status = command(
        "--pairs",
        str(tmp_path / "pairs.jsonl"),
        "--teacher",
        str(teacher),
        "--out",
        str(tmp_path / "soft.jsonl"),
        "--json",
    )

    said = json.loads(capsys.readouterr().out)
    scores = T5Grader.from_pretrained(teacher).score(asked, [row.text for row in rows])
    told = [((score or 0) + 1) / 2 for score in scores]
    expected = [0.75 + 0.25 * told[0], told[1], 0.25 * told[2]]
    found = read_pairs(tmp_path / "soft.jsonl", labels="any")
    assert status == 0
    assert [pair.label for pair in found] == pytest.approx(
        expected, abs=0.02
    )  # bf16 where the machine has it
    assert (said["pairs"], said["softened"], said["unlabelled"], said["left out"]) == (3, 2, 1, 0)
    assert said["auc"] in (0.0, 0.5, 1.0)


def test_the_command_refuses_to_write_over_its_input_and_a_source_that_is_not_there(tmp_path: Path) -> None:
    file = str(tmp_path / "pairs.jsonl")
    write_pairs([Pair("a", "x", 1, "selqa/train")], file)

    with pytest.raises(ConfigError, match="is one of the inputs"):
        command("--pairs", file, "--teacher", "mini", "--out", file)
    with pytest.raises(ConfigError, match="no labelled pair comes from qnli"):
        command(
            "--pairs", file, "--teacher", "mini", "--sources", "qnli", "--out", str(tmp_path / "soft.jsonl")
        )


def test_pairs_without_labels_are_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    pairs = [
        Pair("a", "x", None, "near"),
        Pair("a", "y", 0.25, "near"),
        Pair("a", "z", 0.0, "near"),
    ]
    write_pairs(pairs, file)

    assert '"label"' not in file.read_text(encoding="utf-8").splitlines()[0]
    assert read_pairs(file, labels="any") == pairs
    file.write_text(
        '{"question": "a", "text": "x", "label": null}\n{"question": "a", "text": "y", "label": 2}\n'
    )
    with pytest.raises(ConfigError, match=r"pairs\.jsonl:2: label must be a number in \[0, 1\].*, got 2"):
        read_pairs(file, labels="any")
