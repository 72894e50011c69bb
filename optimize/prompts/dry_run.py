"""Running a program without its language models: how many calls and searches does a question take at most?

Retrieval and grading are real, since they decide which calls are made; the web is not searched. Every text that a
model would write is a stand-in: once "no", and once a word that decides nothing, since a reflecting program goes on
after the one or the other. The larger count stands.
"""

from __future__ import annotations

import enum
import inspect
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.prompts.remember import remember
from crag_dspy.optimize.runs.cap import calling_nothing
from crag_dspy.passages import Passage
from crag_dspy.settings import Settings
from crag_dspy.steps import Search

STAND_INS = ("no", "partially")
REPLY_TOKENS = 256  # of a reply, where the language model has no limit


@dataclass(frozen=True, slots=True)
class AQuestion:
    """What one question takes: LM calls, on average and at most, and tokens and web searches at most."""

    mean: float
    most: int
    tokens: int
    searches: int


class _Replies(dspy.Adapter):
    """Answers instead of the language model, and keeps the size of what it would have been sent."""

    def __init__(self, rendering: Any) -> None:
        super().__init__()
        self.rendering = rendering
        self.prompts: list[int] = []
        self.searches = 0
        self.text = STAND_INS[0]
        self._lock = threading.Lock()

    def __call__(
        self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        messages = self.rendering.format(signature, demos, inputs)
        with self._lock:
            self.prompts.append(sum(_tokens(str(message.get("content", ""))) for message in messages))
        fields = signature.output_fields.items()
        return [{name: _stand_in(field.annotation, self.text) for name, field in fields}]

    async def acall(
        self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        return self(lm, lm_kwargs, signature, demos, inputs)

    def search(self, query: str, max_results: int) -> list[Passage]:
        with self._lock:
            self.searches += 1
        return []


def run_dry(program: dspy.Module, examples: Sequence[dspy.Example], sample: int = 12) -> AQuestion:
    """Count for evenly spaced examples. No language model is called, and no web search.

    Raises:
        ConfigError: no example could be run; the message has the last failure.
    """
    step = max(1, math.ceil(len(examples) / sample))
    counts, tokens, searches, failure = [], [0], [0], None
    reply = int((getattr(dspy.settings.lm, "kwargs", None) or {}).get("max_tokens") or REPLY_TOKENS)
    with without_models(program) as (copy, replies):
        remember(copy)  # the second time is for the replies only
        for example in examples[::step]:
            found = []
            for replies.text in STAND_INS:
                replies.prompts.clear()
                replies.searches = 0
                try:
                    copy(**example.inputs())
                except Exception as error:  # noqa: BLE001 - one odd question must not forbid the estimate
                    failure = error
                    continue
                found.append(len(replies.prompts))
                tokens.append(sum(replies.prompts) + reply * len(replies.prompts))
                searches.append(replies.searches)
            counts.extend([max(found)] if found else [])
    if not counts:
        raise ConfigError(
            f"the program cannot be run on its examples: {failure or 'there are none'}"
        ) from failure
    return AQuestion(sum(counts) / len(counts), max(counts), max(tokens), max(searches))


@contextmanager
def without_models(program: dspy.Module) -> Iterator[tuple[dspy.Module, _Replies]]:
    """A copy that runs without language models and web, and answers even where there is no evidence."""
    copy = program.deepcopy()
    replies = _Replies(dspy.settings.adapter or dspy.ChatAdapter())
    for _, module in copy.named_sub_modules(dspy.Module):
        if isinstance(module, Search):
            module.part = replies.search
    for settings in copy.parameters():
        if isinstance(settings, Settings):
            settings.no_evidence = "answer"
    lm = dspy.settings.lm or dspy.LM("none/dry-run", cache=False)
    # Who calls a language model past the adapter is refused: a dry run pays for nothing.
    with dspy.context(adapter=replies, lm=lm, trace=[], disable_history=True), calling_nothing():
        yield copy, replies


def _tokens(text: str) -> int:
    """About how many: four letters of an alphabet are one, and so is a character of another script."""
    wide = sum(ord(character) > 0x2E7F for character in text)
    return wide + math.ceil((len(text) - wide) / 4)


def _stand_in(annotation: Any, text: str) -> Any:
    """A value of the field's type."""
    kind = get_origin(annotation) or annotation
    if kind is Literal:
        return get_args(annotation)[0]
    if inspect.isclass(kind):
        if issubclass(kind, enum.Enum):
            return next(iter(kind))
        for base, value in ((str, text), (bool, False), (int, 0), (float, 0.0)):
            if issubclass(kind, base):
                return value
        if issubclass(kind, (list, tuple, set, dict)):
            return kind()
    return None
