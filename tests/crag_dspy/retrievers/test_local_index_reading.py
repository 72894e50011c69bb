"""An index whose embedder is a grader that reads passages once: found passages bring what was read of them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_t5

from crag_dspy import LocalIndex, Passage, T5Grader
from crag_dspy.errors import ConfigError, IndexMismatchError
from crag_dspy.read_once.judging import best_match

ONCE = {"passage": (-1.0, 4.0), "strip": (-1.0, 4.0, 1.0, 1.0)}
DOCUMENTS = [
    Passage(" ".join(tiny_t5.ANIMALS[i : i + 3]), id=f"d{i}", title=tiny_t5.FILLERS[i]) for i in range(6)
]
QUERY = "which otter does like the lynx ?"


def save(folder: Path, **given: Any) -> str:
    tiny_t5.save_grader(folder, "segments", attention="apart", late=8, single=4, once=ONCE, **given)
    return str(folder)


@pytest.fixture
def source(tmp_path: Path) -> str:
    return save(tmp_path / "grader")


def test_a_found_passage_brings_what_was_read_of_it(tmp_path: Path, source: str) -> None:
    LocalIndex.build(tmp_path / "index", DOCUMENTS, embedder=f"grader:{source}")
    index = LocalIndex.open(tmp_path / "index")
    grader = T5Grader.from_pretrained(source)
    found = index(QUERY, k=3)
    assert len(found) == 3
    for passage in found:
        (fresh,) = grader.read([(passage.title, passage.text)])
        assert passage.vectors is not None
        assert np.array_equal(passage.vectors.tokens, fresh.tokens)
        assert np.array_equal(passage.vectors.starts, fresh.starts)
        assert passage.vectors.maker == grader.fingerprint
        assert "vectors" not in passage.to_json()


def test_by_vectors_alone_the_best_match_comes_first(tmp_path: Path, source: str) -> None:
    index = LocalIndex.build(tmp_path / "index", DOCUMENTS, embedder=f"grader:{source}")
    index = LocalIndex.open(tmp_path / "index", mode="vector")
    grader = T5Grader.from_pretrained(source)
    asked = grader.ask(QUERY)
    expected = sorted(
        (best_match(asked, read) for read in grader.read([(d.title, d.text) for d in DOCUMENTS])),
        reverse=True,
    )
    found = index(QUERY, k=6)
    assert [passage.score for passage in found] == pytest.approx(expected, abs=1e-6)


def test_words_alone_load_no_grader(tmp_path: Path, source: str) -> None:
    LocalIndex.build(tmp_path / "index", DOCUMENTS, embedder=f"grader:{source}")
    found = LocalIndex.open(tmp_path / "index", mode="text")(QUERY, k=2)
    assert found
    assert found[0].vectors is None


def test_another_grader_is_refused(tmp_path: Path, source: str) -> None:
    LocalIndex.build(tmp_path / "index", DOCUMENTS, embedder=f"grader:{source}")
    other = save(tmp_path / "other", seed=1)
    with pytest.raises(IndexMismatchError, match="was built with the embedder"):
        LocalIndex.open(tmp_path / "index", f"grader:{other}")


def test_a_grader_that_reads_pairs_is_refused(tmp_path: Path) -> None:
    tiny_t5.save_grader(tmp_path / "pairs", "true_false")
    with pytest.raises(ConfigError, match="has no vectors of a passage"):
        LocalIndex.create(tmp_path / "index", f"grader:{tmp_path / 'pairs'}")


def test_a_pickled_index_opens_again(tmp_path: Path, source: str) -> None:
    index = LocalIndex.build(tmp_path / "index", DOCUMENTS, embedder=f"grader:{source}")
    again = pickle.loads(pickle.dumps(index))  # noqa: S301 - made in the line itself
    assert [passage.id for passage in again(QUERY, k=3)] == [passage.id for passage in index(QUERY, k=3)]


def test_changed_documents_are_read_again(tmp_path: Path, source: str) -> None:
    index = LocalIndex.build(tmp_path / "index", DOCUMENTS, embedder=f"grader:{source}")
    index.add([Passage("otter lynx heron otter", id="d0", title="river")])
    (passage,) = [found for found in index(QUERY, k=6) if found.id == "d0"]
    (fresh,) = T5Grader.from_pretrained(source).read([("river", "otter lynx heron otter")])
    assert passage.vectors is not None
    assert np.array_equal(passage.vectors.tokens, fresh.tokens)
