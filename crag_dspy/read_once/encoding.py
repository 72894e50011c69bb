"""Reading passages once: texts to `PassageVectors` with the encoder of a `segments` grader whose segments are apart.

A long passage is read in windows of as many tokens as the model takes, which overlap; of what two windows share, each
gives the half that it saw with more around it. The title stands before every window, and is kept once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crag_dspy.graders.windows import batches, windows
from crag_dspy.read_once.vectors import TITLE, PassageVectors, QuestionVectors, quantised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from crag_dspy.graders.heads import Segments

OVERLAP = 64  # tokens that neighbouring windows share
LONGEST_TITLE = 64  # tokens of a title that are read
LONGEST_QUESTION = 128  # tokens of a question that are read


@dataclass(frozen=True, slots=True)
class _Text:
    """A tokenised text: ids, the characters of each, and the share of its characters that are unknown."""

    ids: list[int]
    places: NDArray[np.int32]  # (n, 2)
    unknown: float


@dataclass(frozen=True, slots=True)
class _Window:
    """Tokens to encode: `owner` is the passage, `title` how many are its title's, `kept` which of the rest count."""

    owner: int
    ids: list[int]
    title: int
    kept: tuple[int, int]
    places: NDArray[np.int32]


class PassageEncoder:
    """Encodes passages and questions.

    Args:
        scorer: encoder and head, with late interaction and segments apart.
        tokenizer: a fast one (it gives the characters of each token).
        length: tokens of one input, the end-of-sequence token included.
        batch_tokens: tokens of one batch, padding counted.
        maker: fingerprint of the grader, which its vectors carry.
        device: where the scorer is.
    """

    def __init__(
        self,
        scorer: Segments,
        tokenizer: Any,
        length: int,
        batch_tokens: int,
        maker: str = "",
        device: str = "cpu",
    ) -> None:
        self._maker = maker
        self._scorer, self._tokenizer, self._device = scorer, tokenizer, device
        self._room, self._batch_tokens = length - 1, batch_tokens
        self._end = int(tokenizer.eos_token_id)
        # The text of a passage must never act as a control token, as a literal "</s>" in a web page would.
        self._special = frozenset(tokenizer.all_special_ids) - {tokenizer.unk_token_id}

    def passages(self, passages: Sequence[tuple[str, str]]) -> list[PassageVectors]:
        """(title, text) of each passage to its vectors, in order."""
        titles = self._tokenised([f"{title.strip()}:" if title.strip() else "" for title, _ in passages])
        texts = self._tokenised([text for _, text in passages])
        found: list[_Window] = []
        for owner, (title, text) in enumerate(zip(titles, texts, strict=True)):
            found += self._windows(owner, title.ids[:LONGEST_TITLE], text)
        pieces: dict[int, list[tuple[_Window, Any, Any]]] = {}
        for group in batches([len(window.ids) + 1 for window in found], self._batch_tokens):
            tokens, single = self._encoded([found[i].ids for i in group])
            for row, i in enumerate(group):
                pieces.setdefault(found[i].owner, []).append((found[i], tokens[row], single[row]))
        return [self._joined(pieces.get(owner, []), text) for owner, text in enumerate(texts)]

    def questions(self, questions: Sequence[str]) -> list[QuestionVectors]:
        """Each question to its vectors; a longer one than is read loses its middle."""
        half = LONGEST_QUESTION // 2
        texts = self._tokenised(questions)
        ids = [t.ids if len(t.ids) <= 2 * half else [*t.ids[:half], *t.ids[-half:]] for t in texts]
        order = batches([len(each) + 1 for each in ids], self._batch_tokens)
        of: dict[int, QuestionVectors] = {}
        for group in order:
            states, mask = self._states([ids[i] for i in group])
            head: Any = self._scorer.head
            tokens, weights = head.late.tokens(states), head.late.weights(states, mask)
            single = self._single(states, mask)
            for row, i in enumerate(group):
                n = len(ids[i])
                of[i] = QuestionVectors(
                    tokens[row, :n].cpu().numpy(),
                    weights[row, :n].cpu().numpy(),
                    single[row],
                    texts[i].unknown,
                )
        return [of[i] for i in range(len(questions))]

    def _windows(self, owner: int, title: list[int], text: _Text) -> list[_Window]:
        size = self._room - len(title)
        spans = windows(len(text.ids), size, min(OVERLAP, size // 2))
        made = []
        for number, (start, end) in enumerate(spans):
            # Half of what is shared with the neighbour before, and half of what is shared with the one after.
            first = 0 if number == 0 else (spans[number - 1][1] - start + 1) // 2
            last = (
                end - start if number == len(spans) - 1 else (end - start) - (end - spans[number + 1][0]) // 2
            )
            made.append(
                _Window(
                    owner, [*title, *text.ids[start:end]], len(title), (first, last), text.places[start:end]
                )
            )
        return [window for window in made if window.ids]

    def _joined(self, parts: Sequence[tuple[_Window, Any, Any]], text: _Text) -> PassageVectors:
        width = self._scorer.head.late.project.out_features  # type: ignore[union-attr]
        if not parts:
            nothing = np.zeros(0, np.int32)
            return PassageVectors(
                np.zeros((0, width), np.int8),
                nothing,
                nothing,
                np.zeros(0, np.float16),
                text.unknown,
                self._maker,
            )
        parts = sorted(parts, key=lambda part: int(part[0].places[0, 0]) if len(part[0].places) else -1)
        tokens, places = [], []
        for number, (window, vectors, _) in enumerate(parts):
            if number == 0 and window.title:
                tokens.append(vectors[: window.title])
                places.append(np.full((window.title, 2), TITLE, np.int32))
            first, last = window.kept
            tokens.append(vectors[window.title + first : window.title + last])
            places.append(window.places[first:last])
        # A window's share of the passage's one vector is the share of its tokens.
        single = sum(one * (window.kept[1] - window.kept[0] + 1) for window, _, one in parts)
        single = single / max(float(np.linalg.norm(single)), 1e-12)
        at = np.concatenate(places)
        return PassageVectors(
            quantised(np.concatenate(tokens)),
            np.ascontiguousarray(at[:, 0]),
            np.ascontiguousarray(at[:, 1]),
            np.asarray(single, np.float16),
            text.unknown,
            self._maker,
        )

    def _encoded(self, rows: Sequence[list[int]]) -> tuple[list[Any], Any]:
        states, mask = self._states(rows)
        head: Any = self._scorer.head
        tokens = head.late.tokens(states).cpu().numpy()
        return [tokens[row, : len(ids)] for row, ids in enumerate(rows)], self._single(states, mask)

    def _single(self, states: Tensor, mask: Tensor) -> Any:
        head: Any = self._scorer.head
        if head.single is None:
            return np.zeros((len(states), 0), np.float32)
        return head.single(states, mask).cpu().numpy()

    def _states(self, rows: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        import torch

        shape = (len(rows), max(map(len, rows)) + 1)
        ids, seen, inside = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        for row, each in enumerate(rows):
            ids[row, : len(each) + 1] = (*each, self._end)
            seen[row, : len(each) + 1] = 1
            inside[row, : len(each)] = 1
        given, attention, mask = (torch.from_numpy(array).to(self._device) for array in (ids, seen, inside))
        with torch.inference_mode():
            states = self._scorer.backbone(
                input_ids=given, attention_mask=attention
            ).last_hidden_state.float()
        return states, mask == 1

    def _tokenised(self, texts: Sequence[str]) -> list[_Text]:
        if not texts:
            return []
        encoded = self._tokenizer(
            list(texts),
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            verbose=False,
        )
        return [
            self._text(*each)
            for each in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
        ]

    def _text(self, text: str, ids: list[int], offsets: list[tuple[int, int]]) -> _Text:
        kept = [place for place, one in enumerate(ids) if one not in self._special]
        places = np.array([offsets[place] for place in kept], dtype=np.int32).reshape(-1, 2)
        chosen = [ids[place] for place in kept]
        unk = self._tokenizer.unk_token_id
        # By characters, because SentencePiece fuses a run of unknown characters into one token.
        unknown = sum(
            len(text[a:b].strip()) for one, (a, b) in zip(chosen, places, strict=True) if one == unk
        )
        visible = sum(not char.isspace() for char in text)
        share = unknown / visible if visible else 0.0
        return _Text(chosen, places, 1.0 if visible and not chosen else share)
