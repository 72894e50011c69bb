"""Scoring for a `segments` head whose segments are encoded apart: each different segment once, then compared.

A question is encoded once for all its texts, and a text once for all its questions. Vectors are kept, the latest used
ones, so that a passage that is retrieved again costs nothing. The scores are those of the pair in one input.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from crag_dspy.graders.batches import RawScores
from crag_dspy.graders.windows import batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crag_dspy.graders.heads import Encoded, Segments
    from crag_dspy.graders.prompt_format import PairEncoder

Ids = tuple[int, ...]
COMPARED = 256  # pairs compared at once: their tokens' cosines are that many small matrices


class Vectors:
    """What the head keeps of segments, by their token ids; the longest unused go first.

    Args:
        limit: tokens of the kept segments, all together; with vectors of 128 numbers, 0.5 KiB each.
    """

    def __init__(self, scorer: Segments, end: int, limit: int = 200_000) -> None:
        self._scorer, self._end, self._limit = scorer, end, limit
        self._kept: OrderedDict[Ids, Encoded] = OrderedDict()
        self._tokens = 0

    def of(self, segments: Iterable[Ids], batch_tokens: int, device: str) -> dict[Ids, Encoded]:
        """Each different segment encoded, without padding and without a batch dimension."""
        wanted = list(dict.fromkeys(segments))
        found = {ids: self._kept[ids] for ids in wanted if ids in self._kept}
        new = [ids for ids in wanted if ids not in found]
        for group in batches([len(ids) + 1 for ids in new], batch_tokens):
            members = [new[i] for i in group]
            found |= zip(members, self._encoded(members, device), strict=True)
        for ids in wanted:
            if ids not in self._kept:
                self._tokens += len(ids)
            self._kept[ids] = found[ids]
            self._kept.move_to_end(ids)
        while self._tokens > self._limit:
            self._tokens -= len(self._kept.popitem(last=False)[0])
        return found

    def _encoded(self, segments: Sequence[Ids], device: str) -> list[Encoded]:
        import numpy as np
        import torch

        shape = (len(segments), max(map(len, segments)) + 1)
        ids, attention, inside = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        for row, segment in enumerate(segments):
            ids[row, : len(segment) + 1] = (*segment, self._end)
            attention[row, : len(segment) + 1] = 1
            inside[row, : len(segment)] = 1
        given, seen, marked = (torch.from_numpy(array).to(device) for array in (ids, attention, inside))
        states = self._scorer.backbone(input_ids=given, attention_mask=seen).last_hidden_state
        together = self._scorer.head.encode(states, marked == 1)
        return [_row(together, row, len(segment)) for row, segment in enumerate(segments)]


def _row(batch: Encoded, row: int, length: int) -> Encoded:
    """One segment of a batch; copied, so that it does not keep the whole batch in memory."""
    tokens, weights, mask = (
        part[row, :length].clone() if part is not None else None
        for part in (batch.tokens, batch.weights, batch.mask)
    )
    return type(batch)(batch.pooled[row].clone(), tokens, weights, mask)


def _padded(rows: Sequence[Encoded]) -> Encoded:
    """Segments as a batch again."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    pooled = torch.stack([row.pooled for row in rows])
    made = type(rows[0])
    if rows[0].tokens is None:
        return made(pooled)
    parts = ([getattr(row, name) for row in rows] for name in ("tokens", "weights", "mask"))
    return made(pooled, *(pad_sequence(part, batch_first=True) for part in parts))


def raw_scores_apart(
    vectors: Vectors,
    scorer: Segments,
    encoder: PairEncoder,
    pairs: Sequence[tuple[str, str]],
    batch_tokens: int,
    device: str,
    max_unknown: float = 0.5,
) -> RawScores:
    """What `raw_scores` gives, for a scorer with `apart`."""
    import torch

    questions, texts = list(dict.fromkeys(q for q, _ in pairs)), list(dict.fromkeys(t for _, t in pairs))
    asked = dict(zip(questions, encoder.pieces(questions), strict=True))
    pieces = dict(zip(texts, encoder.pieces(texts), strict=True))
    different = list(dict.fromkeys(pairs))
    best: dict[tuple[str, str], float | None] = dict.fromkeys(different)
    unknown = {
        pair for pair in different if max(asked[pair[0]].unknown, pieces[pair[1]].unknown) > max_unknown
    }
    owners: list[tuple[str, str]] = []
    left: list[Ids] = []
    right: list[Ids] = []
    for pair in different:
        question, text = asked[pair[0]], pieces[pair[1]]
        if pair in unknown or not question.ids or not text.ids:
            continue
        for each in encoder.inputs(question, text):
            owners.append(pair)
            left.append(each.ids[slice(*each.question)])
            right.append(each.ids[slice(*each.text)])
    if owners:
        with torch.inference_mode():
            known = vectors.of([*left, *right], batch_tokens, device)
            compared: list[float] = []
            for start in range(0, len(owners), COMPARED):
                sides = (
                    _padded([known[ids] for ids in side[start : start + COMPARED]]) for side in (left, right)
                )
                compared += scorer.head.compare(*sides).tolist()
        for pair, raw in zip(owners, compared, strict=True):
            so_far = best[pair]
            best[pair] = raw if so_far is None or raw != raw else max(so_far, raw)
    return RawScores([best[pair] for pair in pairs], sum(pair in unknown for pair in pairs))
