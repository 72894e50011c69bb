"""Three ways to read a relevance logit off a T5. Imports torch: only functions that need a model import this.

Each head is a module with `forward(input_ids, attention_mask, segments) -> raw`, one raw logit a row of the
batch, in fp32. `segments` marks the tokens of the question with 1, of the text with 2 and all others (fixed
words, end-of-sequence, padding) with 0.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, Protocol, get_args

import torch
from torch import Tensor, nn

from crag_dspy.errors import ArtefactError, ConfigError
from crag_dspy.graders.late import LateInteraction
from crag_dspy.read_once.single import SingleVector

Head = Literal["true_false", "regression", "segments"]
HEADS: tuple[Head, ...] = get_args(Head)
QUESTION, TEXT = 1, 2


class PairScorer(Protocol):
    """A T5 with its head: what a grader runs and what the trainer trains."""

    backbone: Any

    def __call__(self, input_ids: Tensor, attention_mask: Tensor, segments: Tensor) -> Tensor: ...


class TrueFalse(nn.Module):
    """Logit of "true" less that of "false" as the first word that a T5ForConditionalGeneration would say.

    tanh(raw / 2) is then 2 * softmax - 1 over the two tokens (monoT5, arXiv 2003.06713, section 3).
    """

    def __init__(self, backbone: Any, positive_id: int, negative_id: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.positive_id, self.negative_id = positive_id, negative_id
        self.start_id = int(backbone.config.decoder_start_token_id)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segments: Tensor) -> Tensor:
        start = input_ids.new_full((input_ids.shape[0], 1), self.start_id)
        logits = self.backbone(
            input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=start, use_cache=False
        ).logits[:, 0]
        raw: Tensor = logits[:, self.positive_id].float() - logits[:, self.negative_id].float()
        return raw


class Regression(nn.Module):
    """The one output of a T5ForSequenceClassification, trained towards -1 and 1: the official evaluator's."""

    def __init__(self, backbone: Any) -> None:
        super().__init__()
        if backbone.config.num_labels != 1:
            raise ArtefactError(
                f"a regression grader has one output, and here num_labels={backbone.config.num_labels}: it "
                "was trained for classification, which this grader does not read"
            )
        self.backbone = backbone

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segments: Tensor) -> Tensor:
        output = self.backbone(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)
        logits: Tensor = output.logits
        return logits[:, 0].float()


class Encoded(NamedTuple):
    """Segments as the head compares them, one a row.

    `pooled`: (batch, width), of length one. With late interaction also `tokens`: (batch, length, late width), of length
    one; `weights`: (batch, length), each token's share; `mask`: (batch, length), True where there is a token.
    """

    pooled: Tensor
    tokens: Tensor | None = None
    weights: Tensor | None = None
    mask: Tensor | None = None


class SegmentHead(nn.Module):
    """What the `segments` head adds to an encoder: a small network on two pooled segments, and their tokens' matches.

    With u and v the pooled states of question and text, through `projection` where there is one, scaled to
    length one, and d their size: raw = w * cos(u, v) + b + mlp([sqrt(d) u*v, sqrt(d) |u-v|, cos(u, v)]), and with
    `late` the matches of the question's tokens are added (see `LateInteraction`). The direct weights on the cosines
    make an untrained head as good as those of the encoder it stands on.

    Args:
        size: d_model of the encoder.
        hidden: width of the one hidden layer; 0 for no network at all, only the weighted cosine.
        projected: size after the projection; None for no projection.
        late: size of a token's vector; None for pooled states alone.

    `single` makes one vector of a whole text, which retrieval compares and `raw` does not; None where there is none.
    """

    def __init__(
        self,
        size: int,
        hidden: int = 128,
        projected: int | None = None,
        late: int | None = None,
    ) -> None:
        super().__init__()
        width = projected or size
        self.projection = nn.Linear(size, projected) if projected else None
        self.cosine = nn.Linear(1, 1)
        self.mlp = (
            nn.Sequential(nn.Linear(2 * width + 1, hidden), nn.GELU(), nn.Linear(hidden, 1))
            if hidden
            else None
        )
        self.late = LateInteraction(size, late) if late else None
        self.single: SingleVector | None = None
        self._root = math.sqrt(width)
        with torch.no_grad():
            self.cosine.weight.fill_(5.0)
            self.cosine.bias.zero_()
            if self.mlp is not None:
                last = self.mlp[2]
                nn.init.zeros_(last.weight)  # type: ignore[arg-type]
                nn.init.zeros_(last.bias)  # type: ignore[arg-type]

    @classmethod
    def from_state(cls, state: dict[str, Tensor], source: str) -> SegmentHead:
        """The head whose sizes the tensors of head.safetensors tell."""
        try:
            projection, first = state.get("projection.weight"), state.get("mlp.0.weight")
            tokens = state.get("late.project.weight")
            late = tokens.shape[0] if tokens is not None else None
            if projection is not None:
                size, projected = projection.shape[1], projection.shape[0]
            else:  # without either, the head is the weighted cosine alone, which fits any size
                size, projected = (first.shape[1] - 1) // 2 if first is not None else 1, None
            if tokens is not None:
                size = tokens.shape[1]
            head = cls(size, first.shape[0] if first is not None else 0, projected, late)
            if projection is not None and "projection.bias" not in state and head.projection is not None:
                state = {**state, "projection.bias": torch.zeros(projection.shape[0])}
            head.load_state_dict({name: tensor.float() for name, tensor in state.items()})
        except (RuntimeError, IndexError) as error:
            raise ArtefactError(f"{source}: not the tensors of a segments head: {error}") from error
        return head

    def forward(self, states: Tensor, segments: Tensor) -> Tensor:
        """(batch, length, size) encoder states and (batch, length) marks to (batch,) raw logits."""
        return self.compare(self.encode(states, segments == QUESTION), self.encode(states, segments == TEXT))

    def encode(self, states: Tensor, mask: Tensor) -> Encoded:
        """The segments that (batch, length) masks mark in (batch, length, size) states."""
        states = states.float()
        pooled = self.pooled(states, mask)
        if self.late is None:
            return Encoded(pooled)
        return Encoded(pooled, self.late.tokens(states), self.late.weights(states, mask), mask)

    def compare(self, question: Encoded, text: Encoded) -> Tensor:
        """As many questions as texts to (batch,) raw logits."""
        u, v = question.pooled, text.pooled
        cosine = (u * v).sum(-1, keepdim=True)
        raw = self.cosine(cosine)
        if self.mlp is not None:
            features = [u * v * self._root, (u - v).abs() * self._root, cosine]
            raw = raw + self.mlp(torch.cat(features, dim=-1))
        one_each: Tensor = raw[:, 0]
        if self.late is not None:
            one_each = one_each + self.late(question.tokens, question.weights, text.tokens, text.mask)
        return one_each

    def pooled(self, states: Tensor, mask: Tensor) -> Tensor:
        """The mean of the (batch, length, size) states under a mask, projected and scaled to length one."""
        weights = mask.float()
        mean = torch.einsum("bld,bl->bd", states.float(), weights) / weights.sum(1, keepdim=True).clamp(min=1)
        if self.projection is not None:
            mean = self.projection(mean)
        return nn.functional.normalize(mean, dim=-1)


class Segments(nn.Module):
    """An encoder and a `SegmentHead`: no decoder step, one pass, the fastest of the three.

    Question and text are read in one input. With `apart` no token attends to the other segment: each is encoded as
    if it stood alone (T5 knows relative positions only, so nothing else changes), and only the head compares them.
    The end-of-sequence tokens after each segment are in the input and not in the pools.
    """

    def __init__(self, backbone: Any, head: SegmentHead, apart: bool = False) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.apart = apart

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segments: Tensor) -> Tensor:
        raw: Tensor = self.head(self.states(input_ids, attention_mask, segments), segments)
        return raw

    def states(self, input_ids: Tensor, attention_mask: Tensor, segments: Tensor) -> Tensor:
        """The encoder's (batch, length, size) states."""
        seen = _own_segment(attention_mask, segments) if self.apart else attention_mask
        states: Tensor = self.backbone(input_ids=input_ids, attention_mask=seen).last_hidden_state
        return states


def _own_segment(attention_mask: Tensor, segments: Tensor) -> Tensor:
    """(batch, 1, length, length): True where a token may look: its own segment with the end that follows it."""
    place = torch.arange(segments.shape[1], device=segments.device)
    second = place >= (segments == TEXT).int().argmax(1, keepdim=True)
    own = second[:, :, None] == second[:, None, :]
    return (own & attention_mask[:, None, :].bool())[:, None]


def word_id(tokenizer: Any, word: str) -> int:
    """The id of a verdict word, which must be one token: a longer word's first token may be any word's."""
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        pieces = tokenizer.convert_ids_to_tokens(ids)
        raise ConfigError(
            f"words: {word!r} is not one token of this tokenizer but {pieces}: choose words=[positive, "
            "negative] that are (T5 and flan-T5: true, false; mT5: yes, no)"
        )
    return int(ids[0])
