"""Running a program without its language models: how many calls does a question take, and what would they read?

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
from crag_dspy.optimize.prompts.predictors import predictors_of
from crag_dspy.optimize.prompts.remember import remember
from crag_dspy.passages import Passage
from crag_dspy.settings import Settings
from crag_dspy.steps import Search
from crag_dspy.text.matching import contains_answer

STAND_INS = ("no", "partially")


@dataclass(frozen=True, slots=True)
class CallsAQuestion:
    """What one question takes: the mean and the most LM calls, and the mean size of their prompts together."""

    mean: float
    most: int
    tokens: float
    questions: int


class _Replies(dspy.Adapter):
    """Answers instead of the language model, and keeps what it would have been sent."""

    def __init__(self, rendering: Any) -> None:
        super().__init__()
        self.rendering = rendering
        self.prompts: list[int] = []
        self.text = STAND_INS[0]
        self._lock = threading.Lock()

    def __call__(
        self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        messages = self.rendering.format(signature, demos, inputs)
        with self._lock:
            self.prompts.append(sum(len(str(message.get("content", ""))) for message in messages))
        fields = signature.output_fields.items()
        return [{name: _stand_in(field.annotation, self.text) for name, field in fields}]

    async def acall(
        self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        return self(lm, lm_kwargs, signature, demos, inputs)


def calls_a_question(
    program: dspy.Module, examples: Sequence[dspy.Example], sample: int = 12
) -> CallsAQuestion:
    """Count the calls for evenly spaced examples. No language model is called, and no web search.

    Raises:
        ConfigError: no example could be run; the message has the last failure.
    """
    step = max(1, math.ceil(len(examples) / sample))
    counts, sizes, failure = [], [], None
    with _without_models(program) as (copy, replies):
        remember(copy)  # the second time is for the replies only
        for example in examples[::step]:
            found = []
            for replies.text in STAND_INS:
                replies.prompts.clear()
                try:
                    copy(**example.inputs())
                except Exception as error:  # noqa: BLE001 - one odd question must not forbid the estimate
                    failure = error
                    continue
                found.append((len(replies.prompts), sum(replies.prompts)))
            if found:
                most, size = max(found)
                counts.append(most)
                sizes.append(size)
    if not counts:
        raise ConfigError(
            f"the program cannot be run on its examples: {failure or 'there are none'}"
        ) from failure
    # About four characters a token in English; fewer in Chinese, where the estimate is low.
    return CallsAQuestion(sum(counts) / len(counts), max(counts), sum(sizes) / len(sizes) / 4, len(counts))


def labelled_demos(
    program: dspy.Module, examples: Sequence[dspy.Example], names: Sequence[str]
) -> dict[str, list[dspy.Example]]:
    """Demonstrations made of what each predictor would be given, and the gold answer as what it should say.

    No language model is needed, and the context is the program's own: a demonstration without context would teach to
    answer without one. Examples whose evidence does not have the gold answer, and predictors whose outputs the
    examples do not label (a query, a verdict), get none.
    """
    made: dict[str, list[dspy.Example]] = {name: [] for name in names}
    with _without_models(program) as (copy, _):
        homes = {id(predictor): name for name, predictor in predictors_of(copy).items()}
        for example in examples:
            with dspy.context(trace=[]):
                try:
                    copy(**example.inputs())
                except Exception:  # noqa: BLE001 - a question that cannot be run makes no demonstration
                    continue
                steps = list(dspy.settings.trace)
            for predictor, inputs, _ in steps:
                name = homes.get(id(predictor))
                demo = _demo(predictor, inputs, example) if name in made else None
                if demo is not None:
                    made[str(name)].append(demo)
    return made


def _demo(predictor: dspy.Predict, inputs: dict[str, Any], example: dspy.Example) -> dspy.Example | None:
    answers = example.get("answers")
    if isinstance(answers, (list, tuple)):
        if not answers:
            return None
        labels = {"answer": str(answers[0]), **example.labels().toDict()}
    else:
        labels = example.labels().toDict()
        answers = [str(labels["answer"])] if "answer" in labels else []
    outputs = {name: labels[name] for name in predictor.signature.output_fields if name in labels}
    if not outputs:
        return None
    context = inputs.get("context")
    if (
        context is not None
        and answers
        and not contains_answer(str(context), [str(answer) for answer in answers])
    ):
        return None
    return dspy.Example(augmented=True, **inputs, **outputs)


@contextmanager
def _without_models(program: dspy.Module) -> Iterator[tuple[dspy.Module, _Replies]]:
    """A copy that runs without language models and web, and answers even where there is no evidence."""
    copy = program.deepcopy()
    for _, module in copy.named_sub_modules(dspy.Module):
        if isinstance(module, Search):
            module.part = _no_page
    for settings in copy.parameters():
        if isinstance(settings, Settings):
            settings.no_evidence = "answer"
    replies = _Replies(dspy.settings.adapter or dspy.ChatAdapter())
    with dspy.context(adapter=replies, lm=dspy.settings.lm or _placeholder(), trace=[], disable_history=True):
        yield copy, replies


def _no_page(query: str, max_results: int) -> list[Passage]:
    return []


class _NoEngine:
    def complete(self, request: Any) -> Any:
        raise ConfigError("a dry run calls no language model")


def _placeholder() -> dspy.LM:
    return dspy.LM("none/dry-run", engine=_NoEngine(), cache=False, num_retries=0)


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
