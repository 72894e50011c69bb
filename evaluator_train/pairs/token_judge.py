"""What a sentence encoder thinks of a question and a text: late interaction over its token states.

    cosine     of the two pooled states
    maxsim     the mean, over the tokens of the question, of the best cosine with a token of the text (ColBERT,
               arXiv 2004.12832)

Logistic regression on both, fitted on labelled pairs, makes them a probability. The encoder itself learns nothing.
"""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.measuring.platt import logistic, sigmoid
from crag_dspy.evaluator_train.pairs.teachers import open_teacher
from crag_dspy.graders.precision import native
from crag_dspy.retrievers.embedders import UNREAD_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from crag_dspy.evaluator_train.pairs.pair_files import Pair
    from crag_dspy.evaluator_train.pairs.teachers import Teacher

    Floats = NDArray[np.float64]
    Half = NDArray[np.float16]
    Known = tuple[NDArray[np.float32], Half]  # pooled, tokens

MAX_TOKENS = 200
BATCH = 64


class TokenJudge:
    """Probabilities of relevance by a sentence encoder.

    Args:
        source: what `open_teacher` opens, or a `Teacher`.
        labelled: pairs of both labels to fit three numbers on; from 0.5 on a label counts as relevant.
    """

    def __init__(self, source: str | Teacher, labelled: Sequence[Pair]) -> None:
        self._states = TokenStates(open_teacher(source) if isinstance(source, str) else source)
        truth = np.array([pair.relevant for pair in labelled], dtype=np.float64)
        features = self.features(labelled)
        read = np.isfinite(features).all(axis=1)
        if len(np.unique(truth[read])) < 2:
            raise ConfigError(
                "the teacher needs labelled pairs in its language, relevant and irrelevant ones, to be fitted on: "
                f"{int(read.sum())} of {len(labelled)} can be used"
            )
        self.weights, self.shift = logistic(features[read], truth[read])

    def __call__(self, pairs: Sequence[Pair]) -> list[float | None]:
        """One probability a pair; None for a text in a script that the encoder does not read."""
        features = self.features(pairs)
        probabilities = sigmoid(features @ self.weights + self.shift)
        return [float(one) if np.isfinite(one) else None for one in probabilities]

    def features(self, pairs: Sequence[Pair]) -> Floats:
        """Cosine and maxsim, shape (len(pairs), 2); NaN where either text is not read."""
        self._states.compute(
            [(pair.question, True) for pair in pairs] + [(pair.text, False) for pair in pairs]
        )
        found = np.full((len(pairs), 2), np.nan)
        for row, pair in enumerate(pairs):
            question, text = self._states.of(pair.question, True), self._states.of(pair.text, False)
            if question is not None and text is not None:
                close = question[1].astype(np.float32) @ text[1].astype(np.float32).T
                found[row] = question[0] @ text[0], close.max(axis=1).mean()
        return found


class TokenStates:
    """Unit states of texts, each text encoded once. Those of tokens are many, and lie in a temporary file."""

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the states are asked for
        self._width = int(teacher.encoder.config.hidden_size)
        self._rows = 0
        self._known: dict[tuple[str, bool], tuple[NDArray[np.float32], int, int] | None] = {}

    def of(self, text: str, question: bool) -> Known | None:
        """(pooled, tokens) of a text that was computed, shapes (d,) and (tokens, d); None when it is not read."""
        known = self._known[self._name(text, question)]
        if known is None:
            return None
        pooled, start, count = known
        self._file.seek(start * self._width * 2)
        raw = self._file.read(count * self._width * 2)
        return pooled, np.frombuffer(raw, np.float16).reshape(count, self._width)

    def compute(self, texts: Iterable[tuple[str, bool]]) -> None:
        """Encode those (text, whether it is a question) that are not known yet."""
        from tqdm import tqdm

        named = dict.fromkeys(self._name(*one) for one in texts)
        wanted = sorted((one for one in named if one not in self._known), key=lambda one: len(one[0]))
        starts = range(0, len(wanted), BATCH)
        for start in tqdm(starts, desc="encoding", unit="batch", file=sys.stderr, disable=None, leave=False):
            batch = wanted[start : start + BATCH]
            tokenizer: Any = self._teacher.tokenizer
            encoded = tokenizer.encode_batch([text for text, _ in batch], add_special_tokens=False)
            self._known.update(dict.fromkeys(batch))
            read = {
                one: row.ids[:MAX_TOKENS]
                for one, row in zip(batch, encoded, strict=True)
                if _is_read(row.tokens)
            }
            for one, (pooled, tokens) in zip(read, self._encoded(read), strict=True):
                self._known[one] = (pooled, self._rows, len(tokens))
                self._file.seek(self._rows * self._width * 2)
                self._file.write(tokens.tobytes())
                self._rows += len(tokens)

    def _name(self, text: str, question: bool) -> tuple[str, bool]:
        """An encoder without prefixes reads questions as it reads texts."""
        teacher = self._teacher
        return text, question and teacher.question_prefix != teacher.text_prefix

    def _prefix(self, question: bool) -> list[int]:
        words = self._teacher.question_prefix if question else self._teacher.text_prefix
        inner = self._teacher.tokenizer.encode(words + "a", add_special_tokens=False).ids if words else ()
        return [*self._teacher.before, *inner[:-1]]

    def _encoded(self, texts: Mapping[tuple[str, bool], list[int]]) -> Iterator[Known]:
        import torch

        if not texts:
            return
        rows = [
            [*self._prefix(question), *inner, *self._teacher.after] for (_, question), inner in texts.items()
        ]
        ids = torch.full((len(rows), max(map(len, rows))), self._teacher.pad_id)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
            mask[number, : len(row)] = 1
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=native("cpu") == "bf16"):
            states = self._teacher.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        states, weight = states.float(), mask[..., None]
        pooled = torch.nn.functional.normalize((states * weight).sum(1) / weight.sum(1), dim=-1).numpy()
        unit = torch.nn.functional.normalize(states, dim=-1).half().numpy()
        for number, ((_, question), inner) in enumerate(texts.items()):
            start = len(self._prefix(question))
            yield pooled[number].copy(), unit[number, start : start + len(inner)]


def _is_read(tokens: Sequence[str]) -> bool:
    """Whether the pieces say what the text says: unknown ones do not, nor letters that stand alone in a word."""
    unread = sum(
        token in ("[UNK]", "<unk>") or (len(token) == 3 and token.startswith("##") and not token.isascii())
        for token in tokens
    )
    return bool(tokens) and unread <= UNREAD_SHARE * len(tokens)
