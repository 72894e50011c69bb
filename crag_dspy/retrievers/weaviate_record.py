"""What a collection that was made here remembers of itself, in its description: its embedder, and its second texts.

The second texts are the same words in another property, cut for scripts without spaces: no tokenization of Weaviate
serves both English and Chinese (`word` takes a Chinese clause for one word, `gse_ch` an English word for letters).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from crag_dspy.errors import IndexMismatchError
from crag_dspy.retrievers.embedders import Embedder, probe
from crag_dspy.retrievers.index_record import EmbedderRecord

MARK = "Passages of crag-dspy. "
SECOND = "_unspaced"  # what the name of a second text ends in
NUMBERS = 16  # of each probe that are kept: enough to tell models apart
SAME_NUMBER = 0.02  # machines round differently, by far less


@dataclass(frozen=True, slots=True)
class Remembered:
    """`embedder` is None in a collection without; `second` the tokenization of the second texts, or None."""

    embedder: EmbedderMark | None = None
    second: str | None = None

    @property
    def description(self) -> str:
        """What is written as the collection's description."""
        return MARK + json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def of(cls, description: str | None) -> Remembered | None:
        """Out of a description; None for a collection that somebody else made."""
        if not description or not description.startswith(MARK):
            return None
        try:
            plain: dict[str, Any] = json.loads(description.removeprefix(MARK))
            mark = plain.get("embedder")
            return cls(None if mark is None else EmbedderMark(**mark), plain.get("second"))
        except (ValueError, TypeError, AttributeError):
            return None  # changed by hand: as if it were somebody else's


@dataclass(frozen=True, slots=True)
class EmbedderMark:
    """The embedder of a collection. `probe` is where it puts some fixed texts, cut short: its fingerprint."""

    name: str
    spec: str | None
    dimension: int
    probe: list[list[float]]

    @classmethod
    def of(cls, embedder: Embedder | EmbedderRecord) -> EmbedderMark:
        if isinstance(embedder, EmbedderRecord):
            rows, dimension = np.asarray(embedder.probe), embedder.dimension
        else:
            rows = probe(embedder)
            dimension = rows.shape[1]
        kept = [[round(float(number), 4) for number in row[:NUMBERS]] for row in rows]
        return cls(embedder.name, embedder.spec, dimension, kept)

    @property
    def argument(self) -> str:
        """What to pass to get it again."""
        return (
            f"embedder={self.spec!r}" if self.spec else f"embedder= the callable {self.name!r} that made them"
        )

    def check(self, embedder: Embedder, collection: str) -> None:
        """Raise IndexMismatchError when `embedder` is not the one that made the vectors."""
        given = EmbedderMark.of(embedder)
        said = f"the vectors of collection {collection!r} are of the embedder {self.name!r}"
        if given.dimension != self.dimension:
            raise IndexMismatchError(
                f"{said} with {self.dimension} dimensions, and embedder= is {given.name!r} with {given.dimension}: "
                f"pass {self.argument}"
            )
        if np.abs(np.asarray(given.probe) - np.asarray(self.probe)).max() > SAME_NUMBER:
            raise IndexMismatchError(
                f"{said}, and embedder= ({given.name!r}) puts texts elsewhere: pass {self.argument}"
            )
