"""What a teacher thinks of every text: its token states, computed once and kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_dspy.graders.precision import native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from crag_dspy.evaluator_train.pairs.teachers import Teacher


@dataclass(frozen=True, slots=True)
class Text:
    """A text as token ids of the student; `question` says which prefix the teacher reads."""

    ids: tuple[int, ...]
    question: bool


class TeacherStates:
    """The teacher's final and middle states of every text, computed when first asked for.

    They are centred: sentence encoders such as E5 put most of a state's length into one common direction, which a
    cosine loss would learn first and be content.
    """

    def __init__(
        self, teacher: Teacher, items: Sequence[Text], order: Sequence[int], middle_layer: int
    ) -> None:
        import torch

        self.teacher, self.items, self.order, self.middle = teacher, items, torch.tensor(order), middle_layer
        self.known: dict[int, Tensor] = {}
        self.prefixes = {
            True: self._prefix(teacher.question_prefix),
            False: self._prefix(teacher.text_prefix),
        }
        self.mean: Tensor | None = None
        self.batches = 0

    def of(self, batch: Sequence[Sequence[int]], centre: bool) -> tuple[Tensor, Tensor]:
        import torch

        wanted = [i for row in batch for i in row]
        self._compute([i for i in dict.fromkeys(wanted) if i not in self.known])
        states = torch.cat([self.known[i] for i in wanted]).float()
        if centre:
            self.batches += 1
            mean = states.mean(0)
            self.mean = mean if self.mean is None else self.mean + (mean - self.mean) / self.batches
        centred = states - (self.mean if self.mean is not None else 0.0)
        width = centred.shape[1] // 2
        return centred[:, :width], centred[:, width:]

    def _prefix(self, words: str) -> tuple[int, ...]:
        if not words:
            return self.teacher.before
        ids = self.teacher.tokenizer.encode(words + "a", add_special_tokens=False).ids
        return (*self.teacher.before, *ids[:-1])

    def _compute(self, wanted: list[int]) -> None:
        import torch

        if not wanted:
            return
        rows = []
        for i in wanted:
            item = self.items[i]
            rows.append(
                [*self.prefixes[item.question], *self.order[list(item.ids)].tolist(), *self.teacher.after]
            )
        length = max(map(len, rows))
        ids = torch.full((len(rows), length), self.teacher.pad_id)
        mask = torch.zeros(len(rows), length)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=native("cpu") == "bf16"):
            layers = self.teacher.encoder(
                input_ids=ids, attention_mask=mask, output_hidden_states=True
            ).hidden_states
        for row, i in enumerate(wanted):
            first = len(self.prefixes[self.items[i].question])
            span = slice(first, first + len(self.items[i].ids))
            both = torch.cat([layers[-1][row, span], layers[self.middle][row, span]], dim=-1)
            self.known[i] = both.to(torch.float16).clone()
