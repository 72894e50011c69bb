"""Pairs to raw logits: tokenise once, window, sort by length, batch, and put the answers back in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_dspy.graders.windows import batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from crag_dspy.graders.heads import PairScorer
    from crag_dspy.graders.prompt_format import EncodedPair, PairEncoder


@dataclass(frozen=True, slots=True)
class RawScores:
    """`raws`: one a pair, the best of its windows; None for an empty or an unrepresentable text.

    `unknown`: how many pairs were left out because the vocabulary does not have their characters.
    """

    raws: list[float | None]
    unknown: int


def raw_scores(
    scorer: PairScorer,
    encoder: PairEncoder,
    pairs: Sequence[tuple[str, str]],
    batch_tokens: int,
    device: str,
    max_unknown: float = 0.5,
) -> RawScores:
    """Run the model over pairs, each different pair once, without gradients."""
    import torch

    questions, texts = list(dict.fromkeys(q for q, _ in pairs)), list(dict.fromkeys(t for _, t in pairs))
    asked = dict(zip(questions, encoder.pieces(questions), strict=True))
    pieces = dict(zip(texts, encoder.pieces(texts), strict=True))
    best: dict[tuple[str, str], float | None] = {}
    owners: list[tuple[str, str]] = []
    inputs: list[EncodedPair] = []
    unknown: set[tuple[str, str]] = set()
    for pair in dict.fromkeys(pairs):
        question, text = asked[pair[0]], pieces[pair[1]]
        best[pair] = None
        if max(question.unknown, text.unknown) > max_unknown:
            unknown.add(pair)
        elif question.ids and text.ids:
            windows = encoder.inputs(question, text)
            inputs += windows
            owners += [pair] * len(windows)
    with torch.inference_mode():
        for group in batches([len(each.ids) for each in inputs], batch_tokens):
            raws = scorer(**collate([inputs[i] for i in group], device)).tolist()
            for index, raw in zip(group, raws, strict=True):
                so_far = best[owners[index]]
                # NaN is kept where a window gave it: a pair that was half computed was not judged.
                best[owners[index]] = raw if so_far is None or raw != raw else max(so_far, raw)
    return RawScores([best[pair] for pair in pairs], sum(pair in unknown for pair in pairs))


def collate(inputs: Sequence[EncodedPair], device: str = "cpu") -> dict[str, Tensor]:
    """Pad to the longest: input_ids, attention_mask and segments (see heads.py), each (batch, length)."""
    import numpy as np
    import torch

    from crag_dspy.graders.heads import QUESTION, TEXT

    shape = (len(inputs), max(len(each.ids) for each in inputs))
    ids, attention, segments = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    for row, each in enumerate(inputs):
        ids[row, : len(each.ids)] = each.ids
        attention[row, : len(each.ids)] = 1
        segments[row, slice(*each.question)] = QUESTION
        segments[row, slice(*each.text)] = TEXT
    plain = {"input_ids": ids, "attention_mask": attention, "segments": segments}
    return {name: torch.from_numpy(array).to(device) for name, array in plain.items()}
