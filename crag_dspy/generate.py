"""From knowledge to an answer: one call of the generator that cannot crash a batch, and citations that hold.

Declining and failing are two things. A question is declined when everything worked and the evidence is not there, or
the language model says that it does not know. Where a part did not work, a question without an answer has failed.
"""

from __future__ import annotations

import inspect
from typing import Any

import dspy

from crag_dspy.errors import ConfigError, cause_of
from crag_dspy.flow import Call, Flow
from crag_dspy.signatures.answer import ShortAnswer
from crag_dspy.text.replies import abstention_for, check_citations, is_abstention, reply_text
from crag_dspy.text.untrusted import as_asked
from crag_dspy.trace import MODEL, Trace


def as_generator(generate: Any) -> dspy.Module:
    """A module that takes `context=` and `question=`: the one given, or a `dspy.Predict` of the signature given."""
    if generate is None:
        return dspy.Predict(ShortAnswer)
    if isinstance(generate, str) or (inspect.isclass(generate) and issubclass(generate, dspy.Signature)):
        predictor = dspy.Predict(generate)
        inputs, outputs = set(predictor.signature.input_fields), set(predictor.signature.output_fields)
        if not {"context", "question"} <= inputs or "answer" not in outputs:
            raise ConfigError(
                f"generate must have the fields context, question -> answer, got {sorted(inputs)} -> {sorted(outputs)}"
            )
        return predictor
    if isinstance(generate, dspy.Module):
        return generate
    raise ConfigError(
        f"generate must be a signature or a dspy.Module, got {type(generate).__name__}: "
        "for example generate=dspy.ChainOfThought('context, question -> answer')"
    )


def answered(
    generate: dspy.Module, context: str, question: str, sources: int, trace: Trace, seconds: float
) -> Flow:
    """The generator's answer with its citations checked, or None with a fault when it gave none that can be read."""
    with trace.timed("generate"):
        try:
            call = Call(generate, context=context, question=as_asked(question))
            prediction = yield call.within(seconds, trace.warn)
            answer = prediction.answer
            # A generator with several calls, such as Self-RAG's, says which of them failed.
            trace.learn((), getattr(prediction, "faults", None) or {})
        except Exception as error:
            if missing := no_lm_error(generate):
                raise missing from error
            trace.fault(
                MODEL, cause_of(error, generate), "the language model gave no answer that can be read"
            )
            return None
    return cited(reply_text(answer, "answer"), sources, trace)


def cited(text: str, sources: int, trace: Trace) -> str | None:
    """An answer without the citations that point at nothing, which are told; None, a fault, when nothing is left."""
    citations = check_citations(text, sources)
    trace.cited = list(citations.cited)
    if citations.dropped:
        numbers = ", ".join(f"[{n}]" for n in citations.dropped)
        trace.warn(f"the answer cited {numbers}, but there are {sources} sources: dropped")
    if not citations.answer:
        trace.fault(MODEL, "an empty answer", "the language model gave no answer that can be read")
    return citations.answer or None


def settled(answer: str | None, trace: Trace) -> str:
    """What is answered: without an answer a sentence that declines; the question failed where a part did not work."""
    if trace.faults and (answer is None or is_abstention(answer)):
        trace.failed = "; ".join(f"{part}: {cause}" for part, cause in trace.faults.items())
    trace.answer = abstention_for(trace.question) if answer is None else answer
    return trace.answer


def no_lm(module: dspy.Module) -> bool:
    """Whether some predictor of the module has no language model to call."""
    return dspy.settings.lm is None and any(predictor.lm is None for predictor in module.predictors())


def no_lm_error(module: dspy.Module) -> ConfigError | None:
    """The error that says what to do when there is no language model; None when there is one."""
    if not no_lm(module):
        return None
    return ConfigError(
        "no language model is configured: call dspy.configure(lm=dspy.LM('openai/gpt-4o-mini')), "
        "or use crag_dspy.local_lm() on a machine without a key"
    )
