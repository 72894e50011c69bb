"""Whatever a retriever returns is read; what cannot be read is named. Field case 16."""

from __future__ import annotations

import datetime
import json
import math
from types import SimpleNamespace
from typing import Any

import dspy
import numpy as np
import pytest

from crag_dspy.passages import Passage, Strip, as_passages

EXPECTED = [Passage("First."), Passage("Second.")]


def llama_node(text: str, score: float | None = None) -> Any:
    node = SimpleNamespace(node_id="n1", metadata={"title": "T"}, get_content=lambda: text)
    return SimpleNamespace(node=node, score=score)


@pytest.mark.parametrize(
    "result",
    [
        ["First.", "Second."],
        ("First.", "Second."),
        (text for text in ("First.", "Second.")),
        np.array(["First.", "Second."]),
        [{"text": "First."}, {"content": "Second."}],
        [{"page_content": "First.", "metadata": {}}, {"body": "Second."}],
        [SimpleNamespace(long_text="First."), SimpleNamespace(page_content="Second.")],
        [dspy.Prediction(long_text="First."), dspy.Example(text="Second.")],
        dspy.Prediction(passages=["First.", "Second."]),
        dspy.Prediction(passages=[dspy.Prediction(long_text="First."), "Second."]),
        SimpleNamespace(passages=["First.", "Second."], scores=None, indices=None),
        ["First.", "", "  \n", "Second."],
    ],
    ids=lambda result: type(result).__name__,
)
def test_every_shape_gives_the_same_passages(result: Any) -> None:
    assert as_passages(result) == EXPECTED


@pytest.mark.parametrize(
    "nothing", [None, [], (), "", "  ", dspy.Prediction(passages=[]), dspy.Prediction(passages=None)]
)
def test_nothing_is_no_passage(nothing: Any) -> None:
    assert as_passages(nothing) == []


@pytest.mark.parametrize(
    "one", ["First.", Passage("First."), {"text": "First."}, dspy.Prediction(long_text="First.")]
)
def test_one_item_needs_no_list(one: Any) -> None:
    assert as_passages(one) == [Passage("First.")]


def test_scores_of_pairs_nodes_and_parallel_lists_are_the_retrievers() -> None:
    """Field case 8: a passage without a score is not a passage with score 0."""
    pairs = as_passages(
        [("First.", 0.5), (Passage("Second.", id="b", title="T"), np.float32(0.25)), ("Third.", None)]
    )
    assert [passage.score for passage in pairs] == [0.5, 0.25, None]
    assert (pairs[1].id, pairs[1].title) == ("b", "T")
    nodes = as_passages([llama_node("First.", 0.5), llama_node("Second.")])
    assert [(node.text, node.id, node.title, node.score) for node in nodes] == [
        ("First.", "n1", "T", 0.5),
        ("Second.", "n1", "T", None),
    ]
    parallel = as_passages(dspy.Prediction(passages=["First.", "Second."], scores=[0.5, math.nan]))
    assert [passage.score for passage in parallel] == [0.5, None]
    assert (
        as_passages(dspy.Prediction(passages=["First.", "Second."], scores=[0.5])) == EXPECTED
    )  # not parallel


def test_embeddings_padding_is_left_out() -> None:
    """`dspy.Embeddings` pads with index -1 and repeats a passage in its place."""
    found = dspy.Prediction(
        passages=["First.", "Second.", "Second."], indices=[7, 3, -1], scores=[0.9, 0.4, 0.4]
    )
    assert [(passage.text, passage.score) for passage in as_passages(found)] == [
        ("First.", 0.9),
        ("Second.", 0.4),
    ]


def test_a_real_embeddings_retriever() -> None:
    def embed(texts: list[str]) -> np.ndarray:
        return np.array([[float("bridge" in text), 1.0] for text in texts])

    retrieve = dspy.Embeddings(
        corpus=["A bridge.", "A cat."], embedder=dspy.Embedder(embed, caching=False), k=2
    )
    assert [passage.text for passage in as_passages(retrieve("bridge"))] == ["A bridge.", "A cat."]


def test_identity_and_source_are_found_beside_the_text_and_in_the_metadata() -> None:
    for item in (
        {"text": "First.", "id": 3, "title": "T", "url": "https://x", "score": 0.5},
        {"text": "First.", "metadata": {"pid": 3, "title": "T", "source": "https://x"}, "similarity": 0.5},
        SimpleNamespace(
            page_content="First.", id=None, metadata={"id": 3, "title": "T", "link": "https://x"}, score=0.5
        ),
    ):
        [passage] = as_passages([item])
        assert (passage.id, passage.title, passage.url, passage.score) == ("3", "T", "https://x", 0.5)


@pytest.mark.parametrize(
    ("result", "named"),
    [
        ([3], "int"),
        ([None], "NoneType"),
        (b"First.", "int"),
        ([{"vector": [1.0]}], "dict"),
        (object(), "object"),
        (dspy.Prediction(answer="First."), "Prediction"),
        ([{"text": 3}], "dict"),
    ],
)
def test_what_cannot_be_read_is_named(result: Any, named: str) -> None:
    with pytest.raises(TypeError, match=rf"cannot read a passage from {named}\b.*page_content"):
        as_passages(result)


def test_metadata_of_any_kind_is_plain_json() -> None:
    metadata = {"when": datetime.date(1931, 5, 5), "vector": np.ones(2), "tags": {"a"}, 3: {"nan": math.nan}}
    plain = Passage("First.", score=math.inf, metadata=metadata).to_json()
    assert json.loads(json.dumps(plain, allow_nan=False))["metadata"] == {
        "when": "1931-05-05",
        "vector": "[1. 1.]",
        "tags": ["a"],
        "3": {"nan": None},
    }
    assert plain["score"] is None


def test_a_strip_cuts_its_own_text_or_is_refused() -> None:
    passage = Passage("First. Second.")
    assert Strip("Second.", 7, 14, None, passage, "web").to_json()["start"] == 7
    with pytest.raises(ValueError, match="own text"):
        Strip("Second.", 6, 14, None, passage, "web")


@pytest.mark.parametrize("text", [None, 3, b"First."])
def test_a_text_is_a_str(text: Any) -> None:
    with pytest.raises(TypeError, match=f"Passage.text must be a str, got {type(text).__name__}"):
        Passage(text)
