"""`index.json`: what an index on disk was built with, and the check that it is searched with the same."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crag_dspy.errors import ConfigError, IndexMismatchError
from crag_dspy.retrievers.embedders import Embedder, as_embedder, probe
from crag_dspy.retrievers.reading import GraderEmbedder
from crag_dspy.state.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
FILE = "index.json"

# The most that two unit vectors of one embedder may be apart: a cosine of about 0.999. Machines and versions
# round differently, by far less; other weights are much further apart.
SAME_PLACE = 0.05


@dataclass(frozen=True, slots=True)
class EmbedderRecord:
    """The embedder of an index.

    Attributes:
        probe: where it puts some fixed texts: its fingerprint.
        reads: it is a grader that reads passages once, and what it read is stored beside each.
    """

    name: str
    spec: str | None
    dimension: int
    probe: tuple[tuple[float, ...], ...]
    reads: bool = False

    @classmethod
    def of(cls, embedder: Embedder) -> EmbedderRecord:
        vectors = probe(embedder)
        rows = tuple(tuple(round(float(x), 6) for x in row) for row in vectors)
        return cls(embedder.name, embedder.spec, vectors.shape[1], rows, isinstance(embedder, GraderEmbedder))

    def check(self, embedder: Embedder, path: Path) -> None:
        """Raises IndexMismatchError unless `embedder` is the one that this record was made of."""
        vectors = probe(embedder)
        built = f"{path} was built with the embedder {self.name!r} of {self.dimension} dimensions"
        fix = "open it with that one, or build the index again in another folder"
        if vectors.shape[1] != self.dimension:
            raise IndexMismatchError(f"{built}, not with {embedder.name!r} of {vectors.shape[1]}: {fix}")
        apart = np.linalg.norm(vectors - np.asarray(self.probe, dtype=np.float32), axis=1)
        if float(apart.max()) > SAME_PLACE:
            same_name = " (the name is the same, the weights are not)" if embedder.name == self.name else ""
            raise IndexMismatchError(f"{built}, not with {embedder.name!r}{same_name}: {fix}")

    def reopen(self, path: Path) -> Embedder:
        """The embedder, made again from its name or folder. Raises IndexMismatchError where it has none."""
        embedder = as_embedder(self.spec)
        if embedder is None:
            raise IndexMismatchError(
                f"{path} was built with the embedder {self.name!r}, which only you can pass: "
                f"open it with embedder=..., or with mode='text' to search words only"
            )
        return embedder


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """What `index.json` holds. It is written once, last of all: a folder without it is not an index yet."""

    embedder: EmbedderRecord | None
    chunk_words: int | None

    def write(self, path: Path) -> None:
        plain = {"format": FORMAT, **asdict(self)}
        write_whole(path / FILE, json.dumps(plain, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, path: Path) -> IndexRecord:
        """Raises ConfigError when there is no index, or one that this version cannot read."""
        try:
            plain: Any = json.loads((path / FILE).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise ConfigError(
                f"{path} holds no index (no {FILE}): build one with `crag-dspy index`"
            ) from None
        except ValueError as error:
            raise ConfigError(f"{path / FILE} is damaged ({error}): build the index again") from error
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            found = plain.get("format") if isinstance(plain, dict) else plain
            raise ConfigError(f"{path / FILE}: format {found!r} is not {FORMAT}: build the index again")
        try:
            embedder = plain["embedder"]
            if embedder is not None:
                embedder = EmbedderRecord(**{**embedder, "probe": tuple(map(tuple, embedder["probe"]))})
            return cls(embedder, plain["chunk_words"])
        except (KeyError, TypeError) as error:
            raise ConfigError(f"{path / FILE} is damaged ({error}): build the index again") from error
