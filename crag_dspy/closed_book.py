"""The language model alone: what it answers without any evidence, which every comparison needs as its floor."""

from __future__ import annotations

import inspect
import re
from typing import Any

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.signatures.answer import ChoiceAnswer, ClaimCheck, LongAnswer, ShortAnswer
from crag_dspy.signatures.closed_book import (
    ChoiceAnswerAlone,
    ClaimCheckAlone,
    LongAnswerAlone,
    ShortAnswerAlone,
)
from crag_dspy.text.untrusted import as_asked

_COUNTERPARTS: dict[Any, Any] = {
    ShortAnswer: ShortAnswerAlone,
    LongAnswer: LongAnswerAlone,
    ClaimCheck: ClaimCheckAlone,
    ChoiceAnswer: ChoiceAnswerAlone,
}


class ClosedBook(dspy.Module):
    """A generator that reads no context. Its prompt speaks of none, which a language model would otherwise miss.

    Args:
        generate: a signature, `dspy.Predict` or `dspy.ChainOfThought` that asks for `answer` and reads `question`; None
            is "question -> answer". A signature of `signatures/answer.py` is replaced by its counterpart without a
            context; of another one that reads `context`, that field is left out. Any other module is called as it is,
            with `context=""` if it takes one.
    """

    def __init__(self, generate: Any = None) -> None:
        super().__init__()
        self.predict = _without_context("question -> answer" if generate is None else generate)

    def forward(self, context: str, question: str) -> dspy.Prediction:
        return self.predict(**self._inputs(question))

    async def aforward(self, context: str, question: str) -> dspy.Prediction:
        return await self.predict.acall(**self._inputs(question))

    def _inputs(self, question: str) -> dict[str, str]:
        asked = {"question": as_asked(question)}
        return {"context": "", **asked} if _takes_context(self.predict) else asked


def _without_context(generate: Any) -> dspy.Module:
    if isinstance(generate, dspy.Predict):
        return _with_its_options(dspy.Predict(_bookless(generate.signature)), generate)
    if isinstance(generate, dspy.ChainOfThought):
        alone = dspy.ChainOfThought(_bookless(generate.predict.signature.delete("reasoning")))
        _with_its_options(alone.predict, generate.predict)
        return alone
    if isinstance(generate, dspy.Module):
        return generate
    if isinstance(generate, str) or (inspect.isclass(generate) and issubclass(generate, dspy.Signature)):
        return dspy.Predict(_bookless(dspy.ensure_signature(generate)))
    raise ConfigError(
        f"generate must be a signature or a dspy.Module, got {type(generate).__name__}: "
        "for example generate='question -> answer'"
    )


def _with_its_options(alone: dspy.Predict, generate: dspy.Predict) -> dspy.Predict:
    """By the same language model with the same options; not its demos, which answer from a context."""
    alone.lm, alone.config = generate.lm, dict(generate.config)
    return alone


def _bookless(signature: Any) -> Any:
    for known, alone in _COUNTERPARTS.items():
        if signature.equals(known):
            return alone
    asked = signature.delete("context") if "context" in signature.input_fields else signature
    if list(asked.input_fields) != ["question"] or "answer" not in asked.output_fields:
        raise ConfigError(
            f"generate must read question alone and ask for answer, got {sorted(asked.input_fields)} -> "
            f"{sorted(asked.output_fields)}"
        )
    unwritten = re.match(r"Given the fields .*, produce the fields ", signature.instructions)
    return dspy.Signature(asked.fields) if unwritten else asked  # DSPy's own words name the fields


def _takes_context(module: dspy.Module) -> bool:
    if isinstance(module, (dspy.Predict, dspy.ChainOfThought)):
        return False  # its signature has none
    return "context" in inspect.signature(module.forward).parameters
