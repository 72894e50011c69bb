"""A passage read once: the vectors of its tokens, from which it is found, graded, and its strips are graded.

The encoder reads title and text together, so a strip that says "it" was read beside the sentence that says what "it"
is. What is kept is small (8 bits a number, about 128 bytes a token) and needs no torch to be compared with a question:
late interaction (ColBERT, arXiv 2004.12832, section 3) is a matrix product, a maximum and a weighted mean.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crag_dspy.errors import ArtefactError

if TYPE_CHECKING:
    from collections.abc import Sequence

    Span = tuple[int, int]

Floats = NDArray[np.float32]

# Tokens, width of a token's vector, numbers of the one vector, share of unknown characters.
_HEADER = struct.Struct("<4sIHHf")
_MAGIC = b"CPV1"
TITLE = -1  # where a token of the title "stands" in the text
NOTHING = -1.0  # the cosine of a question's token with a text that has none


@dataclass(frozen=True, slots=True, eq=False)
class PassageVectors:
    """One passage as its encoder left it.

    Attributes:
        tokens: (n, width) int8: each row is a direction, of length one after `unit`.
        starts, ends: (n,) int32: the characters of the passage's text that each token covers; `TITLE` for the title's.
        single: (size,) float16, of length one (or empty): the passage as one vector, for a first stage of retrieval.
        unknown: share of the text's characters that the tokenizer does not have, in [0, 1].
        maker: fingerprint of the grader that made them: another grader's mean nothing to it.
    """

    tokens: NDArray[np.int8]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    single: NDArray[np.float16]
    unknown: float = 0.0
    maker: str = ""

    @property
    def nbytes(self) -> int:
        """What `to_bytes` takes, near enough: for caches that are bounded in bytes."""
        return int(self.tokens.nbytes + self.starts.nbytes + self.ends.nbytes + self.single.nbytes)

    def to_bytes(self) -> bytes:
        """For a column of an index. `from_bytes` reads it back exactly, but for `maker`, which the index knows."""
        count, width = self.tokens.shape
        parts = (self.tokens, self.starts, self.ends, self.single)
        head = _HEADER.pack(_MAGIC, count, width, len(self.single), self.unknown)
        return head + b"".join(part.tobytes() for part in parts)

    @classmethod
    def from_bytes(cls, data: bytes, maker: str = "") -> PassageVectors:
        """Raises ArtefactError for bytes that `to_bytes` did not write whole."""
        try:
            magic, count, width, size, unknown = _HEADER.unpack_from(data)
        except struct.error as error:
            raise ArtefactError(f"stored vectors of {len(data)} bytes are not whole: index again") from error
        sizes = (count * width, 4 * count, 4 * count, 2 * size)
        if magic != _MAGIC or len(data) != _HEADER.size + sum(sizes):
            raise ArtefactError(f"stored vectors of {len(data)} bytes are damaged: index again")
        at = _HEADER.size + np.cumsum((0, *sizes))
        tokens = np.frombuffer(data[at[0] : at[1]], dtype=np.int8).reshape(count, width)
        starts, ends = (np.frombuffer(data[at[i] : at[i + 1]], dtype=np.int32) for i in (1, 2))
        return cls(tokens, starts, ends, np.frombuffer(data[at[3] : at[4]], dtype=np.float16), unknown, maker)


@dataclass(frozen=True, slots=True, eq=False)
class QuestionVectors:
    """A question as its encoder left it.

    Attributes:
        tokens: (m, width) float32, rows of length one.
        weights: (m,) float32: how much each token counts; they sum to one.
        single: (size,) float32, of length one (or empty).
        unknown: as in `PassageVectors`.
    """

    tokens: Floats
    weights: Floats
    single: Floats
    unknown: float = 0.0


def quantised(tokens: Floats) -> NDArray[np.int8]:
    """(n, width) rows as int8, each scaled to the full range: the length is known, only the direction is kept."""
    top = np.maximum(np.abs(tokens).max(axis=1, keepdims=True), 1e-12)
    rows: NDArray[np.int8] = np.rint(tokens * (127.0 / top)).astype(np.int8)
    return rows


def unit(tokens: NDArray[np.int8]) -> Floats:
    """Quantised rows as float32 rows of length one."""
    rows = tokens.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    scaled: Floats = rows / np.maximum(lengths, 1e-12)[:, None]
    return scaled


def matches(
    question: QuestionVectors,
    passage: PassageVectors,
    spans: Sequence[Span],
    around: Sequence[Sequence[Span]] = (),
) -> tuple[float, Floats]:
    """How well a passage, and each span of its characters, matches a question.

    Args:
        around: for each span, others that are read with it (headings, the header of its table); or nothing for all.

    Returns:
        The weighted mean over the question's tokens of their best cosine, in [-1, 1]: for the passage with its title,
        and (len(spans),) for the spans, each with the title. A span without a token has what the title has.
    """
    if not len(question.tokens) or not len(passage.tokens):
        return NOTHING, np.full(len(spans), NOTHING, dtype=np.float32)
    cosines = unit(passage.tokens) @ question.tokens.T
    in_title = passage.starts == TITLE
    title = (
        cosines[in_title].max(axis=0) if in_title.any() else np.full(cosines.shape[1], NOTHING, np.float32)
    )
    whole = float(cosines.max(axis=0) @ question.weights)
    found = np.empty(len(spans), dtype=np.float32)
    body, starts, ends = cosines[~in_title], passage.starts[~in_title], passage.ends[~in_title]

    def best(span: Span, least: Floats) -> Floats:
        # Tokens stand in order: those that reach into the span are one run.
        first = np.searchsorted(ends, span[0], side="right")
        last = np.searchsorted(starts, span[1], side="left")
        return np.maximum(body[first:last].max(axis=0), least) if first < last else least

    beside: dict[tuple[Span, ...], Floats] = {(): title}  # many strips share their headings
    for place, span in enumerate(spans):
        others = tuple(around[place]) if around else ()
        if others not in beside:
            beside[others] = reduce(lambda least, other: best(other, least), others, title)
        found[place] = best(span, beside[others]) @ question.weights
    return whole, found
