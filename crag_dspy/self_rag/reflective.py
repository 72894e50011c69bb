"""Self-RAG (arXiv 2310.11511): retrieve when it is needed, answer from every passage, judge, and take the best.

`SelfReflective` is the generator: what reads paragraphs and answers from the one that carries the answer best. With
`SelfRAG` a paragraph is one retrieved passage. With `SelfCRAG` all the evidence is ONE paragraph, as in the CRAG paper,
where the refined knowledge takes the place of the retrieved text: one continuation, which is judged.

Any language model can play it, by the signatures of `signatures/reflect.py`; a Self-RAG checkpoint that gives
log-probabilities is asked in its own format, and its reflection tokens are read (`reflection_tokens.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from crag_dspy.actions import Thresholds
from crag_dspy.closed_book import ClosedBook
from crag_dspy.errors import ConfigError, cause_of
from crag_dspy.flow import Call, Flow, Together, adrive, drive
from crag_dspy.generate import as_generator, no_lm_error
from crag_dspy.knowledge import as_context, compose
from crag_dspy.passages import Strip
from crag_dspy.self_rag.reflection import Reflection, ReflectionSettings, winner
from crag_dspy.self_rag.tokens import (
    NO_RETRIEVE,
    answer_of,
    asking,
    gives_tokens,
    instruction_for,
    paragraph_of,
    prompt_of,
    reflection_of,
    retrieval_share,
)
from crag_dspy.signatures.grade import GradeRelevance
from crag_dspy.signatures.reflect import DecideRetrieval, JudgeSupport, JudgeUsefulness
from crag_dspy.text.replies import (
    abstention_for,
    is_abstention,
    read_relevance,
    read_support,
    read_usefulness,
    reply_text,
)
from crag_dspy.text.untrusted import as_asked
from crag_dspy.trace import MODEL, Trace

MEMORY = "an answer from memory"


class SelfReflective(dspy.Module):
    """A generator that answers from each paragraph, judges its answers, and gives the best one that is supported.

    Args:
        generate: what continues, as in `CRAG`.
        tokens: read reflection tokens instead of asking for judgements; None does where the language model's name says
            that it is a Self-RAG checkpoint.
        settings: fields of `ReflectionSettings`.

    Returns (when called with `context=` and `question=`, where `context` is one paragraph or a list of them):
        A prediction with `answer` (an abstention when no continuation may win), `grounded` (some paragraph supports
        it), `paragraph` (which one, from 0; None for none), `reflections` (a dict a paragraph that was read),
        `warnings` and `faults`. A call that fails costs its paragraph only, and is a fault; a reply that cannot be read
        is one only where no continuation may win, since another one might have.
    """

    def __init__(self, generate: Any = None, *, tokens: bool | None = None, **settings: Any) -> None:
        super().__init__()
        if tokens is not None and not isinstance(tokens, bool):
            raise ConfigError(f"tokens must be True, False or None, got {tokens!r}")
        self.settings = ReflectionSettings()
        self.settings.update(settings)
        self.tokens = tokens
        self.generate = as_generator(generate)
        # A copy: one predictor under two names would be two after the first compilation.
        self.recall = ClosedBook(generate.deepcopy() if isinstance(generate, dspy.Module) else generate)
        self.decide = dspy.Predict(DecideRetrieval)
        self.relevance = dspy.Predict(GradeRelevance)
        self.support = dspy.Predict(JudgeSupport)
        self.usefulness = dspy.Predict(JudgeUsefulness)

    def forward(self, context: str | Sequence[str], question: str) -> dspy.Prediction:
        return drive(self._flow(context, question))

    async def aforward(self, context: str | Sequence[str], question: str) -> dspy.Prediction:
        return await adrive(self._flow(context, question))

    @property
    def with_tokens(self) -> bool:
        """Whether reflection tokens are read, of the language model that is configured now."""
        return gives_tokens(self._lm()) if self.tokens is None else self.tokens

    def paragraph(self, strips: Sequence[Strip]) -> str:
        """Evidence as the one paragraph that the language model in use reads best."""
        return paragraph_of(strips) if self.with_tokens else compose(strips)

    def demanded(self, question: str, trace: Trace) -> Flow:
        """Whether to retrieve for a question. What cannot be read, and a call that fails, mean yes."""
        if self.settings.retrieval != "on_demand":
            return self.settings.retrieval == "always"
        if self.with_tokens:
            output = yield from self._said(self._asking(question, most=1), "whether to retrieve", trace)
            share = retrieval_share(output)
            if share is None and output is not None:
                trace.warn("the language model gave no [Retrieval] token, retrieving")
            return share is None or share > self.settings.retrieval_threshold
        verdict = yield from self._said(
            Call(self.decide, question=as_asked(question)), "whether to retrieve", trace, "verdict"
        )
        return (read_relevance(verdict or "") or 0.0) <= 0

    def recalled(self, question: str, trace: Trace) -> Flow:
        """An answer from memory, or None with a fault."""
        unread: list[str] = []
        if self.with_tokens:
            call = self._asking(question, end=NO_RETRIEVE)
            output = yield from self._said(call, MEMORY, trace, unread=unread)
            said = None if output is None else answer_of(output)
        else:
            call = Call(self.recall, context="", question=as_asked(question))
            said = yield from self._said(call, MEMORY, trace, "answer", unread)
        if said is None and unread:
            trace.faults.setdefault(MODEL, unread[0])
        return said

    def _flow(self, context: str | Sequence[str], question: str) -> Flow:
        given = enumerate([context] if isinstance(context, str) else context)
        paragraphs = [(i, text) for i, text in given if text.strip()]  # numbered as the caller counts them
        trace, unread = Trace(question, Thresholds(1.0, -1.0), "none"), list[str]()
        made = yield from self._reflected(paragraphs, question, trace, unread)
        best = winner(made, self.settings)
        if best is None and unread:
            trace.faults.setdefault(MODEL, unread[0])
        return dspy.Prediction(
            answer=best.answer if best is not None else abstention_for(question),
            grounded=best is not None and best.supported is True,
            paragraph=best.paragraph if best is not None else None,
            reflections=[each.to_json(self.settings) for each in made],
            warnings=trace.warnings,
            faults=trace.faults,
        )

    def _reflected(
        self, numbered: Sequence[tuple[int, str]], question: str, trace: Trace, unread: list[str]
    ) -> Flow:
        if self.with_tokens:
            flows = [self._continued(i, text, question, trace, unread) for i, text in numbered]
        elif self.settings.exhaustive or self.settings.combine == "sum":
            flows = [self._judged(i, text, question, trace, unread) for i, text in numbered]
        else:
            made: list[Reflection] = []
            for i, text in numbered:
                best = winner(made, self.settings)
                floor = None if best is None else best.score(self.settings)
                if floor is not None and Reflection(i, "").bound(self.settings) <= floor:
                    break  # no continuation can weigh more
                made.append((yield from self._judged(i, text, question, trace, unread, floor)))
            return made
        return (yield Together(*flows)) if flows else []

    def _continued(self, index: int, paragraph: str, question: str, trace: Trace, unread: list[str]) -> Flow:
        """One call: the checkpoint writes the continuation and its judgements."""
        where = f"passage {index + 1}"
        call = self._asking(question, paragraph)
        output = yield from self._said(call, f"an answer from {where}", trace, unread=unread)
        if output is None:
            return Reflection(index, "")
        reflection = reflection_of(index, output)
        missing = [name for name in ("relevance", "support") if getattr(reflection, name) is None]
        if missing:
            trace.warn(f"{where}: no reflection token for {' and '.join(missing)}")
        if "support" in missing:
            unread.append(f"no reflection token for support of {where}")
        return reflection

    def _judged(
        self,
        index: int,
        paragraph: str,
        question: str,
        trace: Trace,
        unread: list[str],
        floor: float | None = None,
    ) -> Flow:
        """A continuation and its judgements; those that could not make it weigh more than `floor` are not asked for."""
        where, settings = f"passage {index + 1}", self.settings
        question, paragraph = as_asked(question), as_context(paragraph)

        def hopeless(so_far: Reflection) -> bool:
            return floor is not None and so_far.bound(settings) <= floor

        call = Call(self.relevance, question=question, passage=paragraph)
        said = yield from self._said(call, f"relevance of {where}", trace, "verdict")
        verdict = _read(read_relevance, said, f"relevance of {where}", trace)
        made = Reflection(index, "", relevance=None if verdict is None else (verdict + 1) / 2)
        if hopeless(made):
            return made

        call = Call(self.generate, context=paragraph, question=question)
        answer = yield from self._said(call, f"an answer from {where}", trace, "answer", unread)
        made = replace(made, answer=answer or "")
        if not made.answer or is_abstention(made.answer):
            return made

        call = Call(self.support, context=paragraph, question=question, answer=as_asked(made.answer))
        said = yield from self._said(call, f"support of {where}", trace, "support", unread)
        support = _read(read_support, said, f"support of {where}", trace, unread)
        made = replace(made, support=support, supported=None if support is None else support > 0)
        if not made.stands(settings) or hopeless(made):
            return made

        call = Call(self.usefulness, question=question, answer=as_asked(made.answer))
        said = yield from self._said(call, f"usefulness of {where}", trace, "rating")
        rating = _read(read_usefulness, said, f"usefulness of {where}", trace)
        return replace(made, usefulness=None if rating is None else (rating - 3) / 2)

    def _said(
        self, call: Call, what: str, trace: Trace, field: str | None = None, unread: list[str] | None = None
    ) -> Flow:
        """What a call gave: a field of a prediction, or the first output of a language model; None when it fails.

        Of a reply that cannot be read, the cause goes into `unread` where an answer may hang on it.
        """
        try:
            result = yield call.within(self.settings.time_limit, trace.warn)
            if field is None:
                return result[0]
            value = getattr(result, field)
            return reply_text(value, field)
        except AdapterParseError as error:
            trace.warn(f"no {what}: {cause_of(error, self)}")
            if unread is not None:
                unread.append(cause_of(error, self))
        except Exception as error:
            if missing := no_lm_error(self):
                raise missing from error
            trace.fault(MODEL, cause_of(error, self), f"no {what}")
        return None

    def _asking(
        self, question: str, paragraph: str | None = None, *, end: str = "", most: int | None = None
    ) -> Call:
        lm = self._lm()
        if lm is None:
            raise no_lm_error(self) or ConfigError("no language model is configured")
        task = instruction_for(getattr(self.generate, "signature", None))
        return asking(lm, prompt_of(question, paragraph, instruction=task) + end, most=most)

    def _lm(self) -> Any:
        return next((p.lm for p in self.predictors() if p.lm is not None), None) or dspy.settings.lm


def _read(
    reader: Callable[[str], Any], said: str | None, what: str, trace: Trace, unread: list[str] | None = None
) -> Any:
    if said is None:  # the call failed, and that was told
        return None
    value = reader(said)
    if value is None:
        cause = f"the {what} cannot be read from {said[:80]!r}"
        trace.warn(cause)
        if unread is not None:
            unread.append(cause)
    return value
