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

    from torch import Tensor

    from crag_dspy.graders.heads import Segments
    from crag_dspy.graders.prompt_format import PairEncoder

Ids = tuple[int, ...]


class Vectors:
    """The pooled states of segments by their token ids; at most `limit` are kept, the longest unused go first."""

    def __init__(self, scorer: Segments, end: int, limit: int = 20_000) -> None:
        self._scorer, self._end, self._limit = scorer, end, limit
        self._kept: OrderedDict[Ids, Tensor] = OrderedDict()

    def of(self, segments: Iterable[Ids], batch_tokens: int, device: str) -> dict[Ids, Tensor]:
        """A vector of length one for each different segment."""
        wanted = list(dict.fromkeys(segments))
        found = {ids: self._kept[ids] for ids in wanted if ids in self._kept}
        new = [ids for ids in wanted if ids not in found]
        for group in batches([len(ids) + 1 for ids in new], batch_tokens):
            members = [new[i] for i in group]
            found |= zip(members, self._encoded(members, device), strict=True)
        for ids in wanted:
            self._kept[ids] = found[ids]
            self._kept.move_to_end(ids)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        return found

    def _encoded(self, segments: Sequence[Ids], device: str) -> Tensor:
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
        return self._scorer.head.pooled(states, marked == 1)


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
            compared = scorer.head.compare(
                torch.stack([known[ids] for ids in left]), torch.stack([known[ids] for ids in right])
            ).tolist()
        for pair, raw in zip(owners, compared, strict=True):
            so_far = best[pair]
            best[pair] = raw if so_far is None or raw != raw else max(so_far, raw)
    return RawScores([best[pair] for pair in pairs], sum(pair in unknown for pair in pairs))
