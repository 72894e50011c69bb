"""The text that a T5 grader reads, one definition for training, scoring and benchmarks.

A grader scores well only on the text format it was trained on, so a format has a name and the artefact stores
it. Pieces are tokenised one by one and joined as ids: T5's tokenizers never merge across white space, so the
ids are those of the rendered text, and only the passage is ever cut (the question and the closing cue always
survive).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.graders.windows import windows
from crag_dspy.text.surrogates import encodable

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class PromptFormat:
    """Fixed words around a question and a text; `separate` puts an end-of-sequence token between the two."""

    name: str
    before_question: str = ""
    before_text: str = ""
    after_text: str = ""
    separate: bool = False

    def render(self, question: str, text: str) -> str:
        """The input as a person would write it (the end-of-sequence token at its end is the tokenizer's)."""
        middle = "</s>" if self.separate else self.before_text
        parts = (self.before_question, question, middle, text, self.after_text)
        return " ".join(part for part in parts if part)


FORMATS: dict[str, PromptFormat] = {
    fmt.name: fmt
    for fmt in (
        # The official CRAG evaluator: `question [SEP] passage`, where [SEP] is plain text to T5's tokenizer.
        PromptFormat("crag", before_text="[SEP]"),
        # Nogueira et al. 2020 (arXiv 2003.06713): the model says "true" or "false" after the cue "Relevant:".
        PromptFormat("monot5", before_question="Query:", before_text="Document:", after_text="Relevant:"),
        # Question and text as two segments of one input, pooled apart by the `segments` head.
        PromptFormat("segments", separate=True),
    )
}


def prompt_format(name: str) -> PromptFormat:
    """The format of that name; ConfigError listing the names there are."""
    try:
        return FORMATS[name]
    except KeyError:
        raise ConfigError(f"prompt_format must be one of {', '.join(FORMATS)}, got {name!r}") from None


@dataclass(frozen=True, slots=True)
class Piece:
    """A tokenised question or text; `unknown` is the share of its characters that the vocabulary lacks."""

    ids: tuple[int, ...]
    unknown: float


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """One model input: token ids, and where in them the question and the text stand (start, end)."""

    ids: tuple[int, ...]
    question: tuple[int, int]
    text: tuple[int, int]


class PairEncoder:
    """Turns pairs into model inputs: a prompt format bound to a tokenizer and to a length.

    Args:
        tokenizer: a Hugging Face tokenizer with an end-of-sequence token (for BERT vocabularies: [SEP]).
        fmt: the prompt format.
        max_length: tokens of a whole input, end-of-sequence tokens included.
        window: tokens of text in one input at most; None for as many as fit. A longer text is several inputs.
        overlap: tokens that neighbouring windows share, so that no sentence is only ever seen cut.
    """

    def __init__(
        self,
        tokenizer: Any,
        fmt: PromptFormat,
        max_length: int = 512,
        window: int | None = None,
        overlap: int = 32,
    ) -> None:
        if tokenizer.eos_token_id is None:
            raise ConfigError(
                "the tokenizer has no end-of-sequence token: set tokenizer.eos_token before saving it"
            )
        self._tokenizer = tokenizer
        self._eos = int(tokenizer.eos_token_id)
        # The text of a passage must never act as a control token, as a literal "</s>" in a web page would.
        self._special = frozenset(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        fixed = [tuple(self._fixed(part)) for part in (fmt.before_question, fmt.before_text, fmt.after_text)]
        self._before_question, before_text, self._after_text = fixed
        self._before_text = (self._eos,) if fmt.separate else before_text
        fixed_tokens = len(self._before_question) + len(self._before_text) + len(self._after_text) + 1
        room = max_length - fixed_tokens
        if room < 16:
            raise ConfigError(
                f"max_length={max_length} leaves {room} tokens for question and text: use at least 32"
            )
        if window is not None and window < 8:
            raise ConfigError(f"window must be at least 8 tokens, got {window}")
        if overlap < 0:
            raise ConfigError(f"overlap must not be negative, got {overlap}")
        self._room, self._window, self._overlap = room, window, overlap

    def _fixed(self, words: str) -> list[int]:
        return list(self._tokenizer(words, add_special_tokens=False)["input_ids"]) if words else []

    def pieces(self, texts: Sequence[str]) -> list[Piece]:
        """Tokenise questions or texts, whatever their length and whatever stands in them."""
        if not texts:
            return []
        texts = [encodable(text) for text in texts]
        fast = bool(getattr(self._tokenizer, "is_fast", False))
        encoded = self._tokenizer(
            texts,
            add_special_tokens=False,
            return_offsets_mapping=fast,
            return_attention_mask=False,
            verbose=False,
        )
        offsets = encoded["offset_mapping"] if fast else [None] * len(texts)
        return [self._piece(*each) for each in zip(texts, encoded["input_ids"], offsets, strict=True)]

    def _piece(self, text: str, ids: list[int], offsets: list[tuple[int, int]] | None) -> Piece:
        unk = self._tokenizer.unk_token_id
        kept = tuple(i for i in ids if i not in self._special)
        if not kept:
            return Piece((), 1.0 if text.strip() else 0.0)
        if unk not in kept:
            return Piece(kept, 0.0)
        if offsets is None:
            return Piece(kept, sum(i == unk for i in kept) / len(kept))
        # By characters, because SentencePiece fuses a run of unknown characters into one token.
        unknown = sum(len(text[a:b].strip()) for i, (a, b) in zip(ids, offsets, strict=True) if i == unk)
        return Piece(kept, unknown / max(1, sum(not char.isspace() for char in text)))

    def inputs(self, question: Piece, text: Piece) -> list[EncodedPair]:
        """The inputs of one pair: one, or one a window of a long text, which together hold every token of it.

        A question longer than half of the room loses its middle, so that text always has the other half.
        """
        asked = _without_middle(question.ids, self._room // 2)
        room = self._room - len(asked)
        size = room if self._window is None else min(room, self._window)
        start = len(self._before_question)
        head = (*self._before_question, *asked, *self._before_text)
        tail = (*self._after_text, self._eos)
        spans = windows(len(text.ids), size, min(self._overlap, size // 2))
        return [
            EncodedPair(
                ids=(*head, *text.ids[a:b], *tail),
                question=(start, start + len(asked)),
                text=(len(head), len(head) + b - a),
            )
            for a, b in spans
        ]


def _without_middle(ids: tuple[int, ...], limit: int) -> tuple[int, ...]:
    if len(ids) <= limit:
        return ids
    head = limit - limit // 2
    return ids[:head] + ids[len(ids) - limit // 2 :]
