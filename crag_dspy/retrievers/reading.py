"""An embedder that is a grader: it reads a passage once, and what it read finds the passage, grades it and its strips.

The first stage of a search compares one vector a passage; of what that and the words find, the token vectors, which
are stored beside the text, say how well it matches.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.live.held import Held
from crag_dspy.read_once.judging import best_match
from crag_dspy.read_once.vectors import PassageVectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

PREFIX = "grader:"
MOST_UNKNOWN = 0.2  # of a query's characters: beyond, its vectors mean nothing


class GraderEmbedder(Held):
    """A T5 grader that reads passages once (`T5Grader.reads_once`) as an `Embedder`, opened at first use.

    Args:
        source: what `T5Grader.from_pretrained` opens: "mini", a folder or a hub id.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self.spec: str | None = source if source == "mini" else PREFIX + source
        self.name = source

    @cached_property
    def grader(self) -> Any:
        """The grader. ConfigError for one that has no vectors of a passage."""
        from crag_dspy.graders.t5 import T5Grader

        opened = T5Grader.from_pretrained(self._source)
        if not opened.reads_once or opened.scorer.head.single is None:
            raise ConfigError(
                f"embedder: grader {opened.name!r} reads a question and a text together, so it has no vectors of a "
                "passage: use embedder='mini', 'minilm' or another sentence encoder"
            )
        return opened

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self.singles(self.read([("", text) for text in texts]))

    def embed_query(self, query: str) -> Vectors:
        return np.asarray(self.grader.ask(query).single, np.float32)

    def reads(self, text: str) -> bool:
        return bool(self.grader.ask(text).unknown <= MOST_UNKNOWN)

    def read(self, passages: Sequence[tuple[str, str]]) -> list[PassageVectors]:
        """(title, text) of each passage, read once."""
        found: list[PassageVectors] = self.grader.read(passages)
        return found

    @staticmethod
    def singles(read: Sequence[PassageVectors]) -> Vectors:
        """One row a passage, of length one: what the first stage compares."""
        return np.stack([one.single.astype(np.float32) for one in read])

    def matches(self, query: str, read: Sequence[PassageVectors]) -> list[float]:
        """How well each passage matches the query, in [-1, 1]."""
        asked = self.grader.ask(query)
        return [best_match(asked, one) for one in read]

    def __reduce__(self) -> tuple[Any, ...]:
        return GraderEmbedder, (self._source,)
