"""A passage is read once: its vectors find it, grade it and its strips, stored as well as fresh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_t5
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ArtefactError, ConfigError
from crag_dspy.graders.t5 import T5Grader
from crag_dspy.read_once.asking import ToJudge
from crag_dspy.read_once.judging import word_shares
from crag_dspy.read_once.vectors import TITLE, PassageVectors, QuestionVectors, matches, quantised, unit

ONCE = {"passage": (-1.0, 4.0), "strip": (-1.0, 4.0, 1.0, 1.0)}


@pytest.fixture
def grader(tmp_path: Path) -> T5Grader:
    tiny_t5.save_grader(
        tmp_path / "g", "segments", attention="apart", late=8, single=4, once=ONCE, max_length=48
    )
    return T5Grader.from_pretrained(tmp_path / "g", precision="fp32")


def random_vectors(seed: int, count: int, title: int, width: int = 8) -> PassageVectors:
    rng = np.random.default_rng(seed)
    starts = np.concatenate([np.full(title, TITLE), 5 * np.arange(count - title)]).astype(np.int32)
    ends = np.where(starts == TITLE, TITLE, starts + 4).astype(np.int32)
    tokens = quantised(rng.normal(size=(count, width)).astype(np.float32))
    single = rng.normal(size=3).astype(np.float16)
    return PassageVectors(tokens, starts, ends, single, float(np.float32(rng.random())))


@given(st.integers(0, 999), st.integers(0, 40), st.integers(0, 5))
def test_bytes_hold_vectors_exactly(seed: int, count: int, title: int) -> None:
    made = random_vectors(seed, count, min(title, count))
    read = PassageVectors.from_bytes(made.to_bytes(), "g")
    for name in ("tokens", "starts", "ends", "single"):
        assert np.array_equal(getattr(made, name), getattr(read, name))
    assert (read.unknown, read.maker) == (made.unknown, "g")


@given(st.integers(0, 99), st.data())
def test_bytes_that_are_not_whole_are_refused(seed: int, data: Any) -> None:
    made = random_vectors(seed, 6, 1).to_bytes()
    cut = data.draw(st.integers(0, len(made) - 1))
    with pytest.raises(ArtefactError, match="index again"):
        PassageVectors.from_bytes(made[:cut])


@given(st.integers(0, 999), st.integers(1, 30))
def test_eight_bits_keep_the_direction(seed: int, count: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(count, 128)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert ((unit(quantised(rows)) * rows).sum(axis=1) > 0.9998).all()


@given(st.integers(0, 999), st.integers(1, 30), st.integers(0, 3), st.data())
def test_a_span_is_matched_by_its_own_tokens_and_the_title(
    seed: int, count: int, title: int, data: Any
) -> None:
    passage = random_vectors(seed, count, min(title, count))
    rng = np.random.default_rng(seed + 1)
    tokens = rng.normal(size=(3, 8)).astype(np.float32)
    question = QuestionVectors(
        tokens / np.linalg.norm(tokens, axis=1, keepdims=True),
        np.array([0.5, 0.3, 0.2], np.float32),
        np.zeros(0, np.float32),
    )
    start = data.draw(st.integers(0, 5 * count))
    end = data.draw(st.integers(start, 5 * count))
    cosines = unit(passage.tokens) @ question.tokens.T
    inside = (passage.starts == TITLE) | (
        (passage.ends > start) & (passage.starts < end) & (passage.starts >= 0)
    )
    expected = cosines[inside].max(axis=0) @ question.weights if inside.any() else -1.0
    whole, (found,) = matches(question, passage, [(start, end)])
    assert found == pytest.approx(expected, abs=1e-5)
    assert whole == pytest.approx(cosines.max(axis=0) @ question.weights, abs=1e-5)
    assert found <= whole + 1e-5


def test_what_is_stored_judges_as_what_is_fresh(grader: T5Grader) -> None:
    text = " ".join([*tiny_t5.ANIMALS, ".", *tiny_t5.FILLERS, "."])
    (fresh,) = grader.read([("otter", text)])
    stored = PassageVectors.from_bytes(fresh.to_bytes(), grader.fingerprint)
    middle = text.index(".") + 1
    spans, texts = [(0, middle), (middle, len(text))], [text[:middle], text[middle:]]
    question = "which place does otter like ?"
    assert grader.judge(question, [ToJudge(stored, spans, texts)]) == grader.judge(
        question, [ToJudge(fresh, spans, texts)]
    )
    (judged,) = grader.judge(question, [ToJudge(fresh, spans, texts)])
    assert judged.passage is not None
    assert -1 <= judged.passage <= 1
    assert len(judged.strips) == 2


def test_a_passage_is_encoded_once_for_all_its_questions(grader: T5Grader) -> None:
    rows: list[int] = []
    grader.scorer.backbone.register_forward_hook(
        lambda module, args, kwargs, out: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    texts = [("", " ".join(tiny_t5.ANIMALS[:3])), ("", " ".join(tiny_t5.FILLERS[:3]))]
    first = grader.read([*texts, texts[0]])
    assert sum(rows) == 2
    assert first[0] is first[2]
    assert grader.read(texts) == first[:2]
    assert sum(rows) == 2


def test_a_long_passage_is_read_whole_in_windows(grader: T5Grader) -> None:
    words = [tiny_t5.FILLERS[i % len(tiny_t5.FILLERS)] for i in range(200)]
    text = " ".join(words)
    (read,) = grader.read([("river stone", text)])
    body = read.starts != TITLE
    assert body.sum() == 200  # every token once, though windows overlap
    assert (np.diff(read.starts[body]) > 0).all()
    assert [text[a:b] for a, b in zip(read.starts[body], read.ends[body], strict=True)] == words
    assert np.linalg.norm(read.single.astype(np.float32)) == pytest.approx(1, abs=1e-2)


def test_a_control_token_in_a_text_is_no_control_token(grader: T5Grader) -> None:
    (plain,) = grader.read([("", "otter lynx")])
    (forged,) = grader.read([("", "otter </s> lynx")])
    assert np.array_equal(plain.tokens, forged.tokens)


def test_what_cannot_be_read_is_not_judged(grader: T5Grader) -> None:
    unknown, empty = grader.read([("", "完全不认识的字"), ("", "")])
    judged = grader.judge(
        "which place does otter like ?",
        [ToJudge(unknown, [(0, 7)], ["完全不认识的字"]), ToJudge(empty, [], [])],
    )
    assert judged[0] == (None, [None])
    assert judged[1].passage == -1.0


def test_a_grader_that_reads_pairs_says_so(tmp_path: Path) -> None:
    tiny_t5.save_grader(tmp_path / "pairs", "true_false")
    grader = T5Grader.from_pretrained(tmp_path / "pairs")
    assert not grader.reads_once
    with pytest.raises(ConfigError, match="reads a question and a text together"):
        grader.read([("", "otter")])


def test_a_rare_word_says_more_than_a_common_one() -> None:
    texts = ["the bridge opened", "the bridge is green", "the toll is 5"]
    shares = word_shares("which bridge has a toll", texts)
    assert shares[2] > shares[0] == shares[1] > 0
    assert word_shares("?", texts) == [0.0, 0.0, 0.0]
    assert word_shares("长江大桥", ["长江", "黄河"])[0] > 0
