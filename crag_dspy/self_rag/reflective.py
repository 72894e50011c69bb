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

from crag_dspy.closed_book import ClosedBook
from crag_dspy.errors import ConfigError
from crag_dspy.flow import Call, Flow, Together, adrive, drive
from crag_dspy.generate import as_generator, no_lm_error
from crag_dspy.graders.scale import RELEVANT
from crag_dspy.knowledge import compose
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
from crag_dspy.self_rag.words import read_support, read_usefulness
from crag_dspy.signatures.grade import GradeRelevance
from crag_dspy.signatures.reflect import DecideRetrieval, JudgeSupport, JudgeUsefulness
from crag_dspy.text.abstain import abstention, is_abstention
from crag_dspy.text.untrusted import as_asked
from crag_dspy.text.verdict import read_verdict

Warn = Callable[[str], None]


class SelfReflective(dspy.Module):
    """A generator that answers from each paragraph, judges its answers, and gives the best one that is supported.

    Args:
        generate: what continues, as in `CRAG`.
        tokens: read reflection tokens instead of asking for judgements; None does where the language model's name says
            that it is a Self-RAG checkpoint.
        settings: fields of `ReflectionSettings`.

    Returns (when called with `context=` and `question=`, where `context` is one paragraph or a list of them):
        A prediction with `answer` (an abstention when no continuation may win), `grounded` (some paragraph supports
        it), `paragraph` (which one, from 0; None for none), `reflections` (a dict a paragraph that was read) and
        `warnings`. A call that fails is a warning and costs its paragraph only.
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

    def demanded(self, question: str, warn: Warn) -> Flow:
        """Whether to retrieve for a question. What cannot be read, and a call that fails, mean yes."""
        if self.settings.retrieval != "on_demand":
            return self.settings.retrieval == "always"
        if self.with_tokens:
            output = yield from self._said(self._asking(question, most=1), "whether to retrieve", warn)
            share = retrieval_share(output)
            if share is None and output is not None:
                warn("the language model gave no [Retrieval] token, retrieving")
            return share is None or share > self.settings.retrieval_threshold
        verdict = yield from self._said(
            Call(self.decide, question=as_asked(question)), "whether to retrieve", warn, "verdict"
        )
        return read_verdict(verdict or "") != RELEVANT

    def recalled(self, question: str, warn: Warn) -> Flow:
        """An answer from memory, or None with a warning."""
        if not self.with_tokens:
            call = Call(self.recall, context="", question=as_asked(question))
            return (yield from self._said(call, "an answer from memory", warn, "answer"))
        output = yield from self._said(self._asking(question, end=NO_RETRIEVE), "an answer from memory", warn)
        return None if output is None else answer_of(output)

    def _flow(self, context: str | Sequence[str], question: str) -> Flow:
        given = enumerate([context] if isinstance(context, str) else context)
        paragraphs = [(i, text) for i, text in given if text.strip()]  # numbered as the caller counts them
        warnings: list[str] = []
        made = yield from self._reflected(paragraphs, question, warnings.append)
        best = winner(made, self.settings)
        return dspy.Prediction(
            answer=best.answer if best is not None else abstention(question),
            grounded=best is not None and best.supported is True,
            paragraph=best.paragraph if best is not None else None,
            reflections=[each.to_json(self.settings) for each in made],
            warnings=list(dict.fromkeys(warnings)),
        )

    def _reflected(self, numbered: Sequence[tuple[int, str]], question: str, warn: Warn) -> Flow:
        if self.with_tokens:
            flows = [self._continued(i, text, question, warn) for i, text in numbered]
        elif self.settings.exhaustive or self.settings.combine == "sum":
            flows = [self._judged(i, text, question, warn) for i, text in numbered]
        else:
            made: list[Reflection] = []
            for i, text in numbered:
                best = winner(made, self.settings)
                floor = None if best is None else best.score(self.settings)
                if floor is not None and Reflection(i, "").bound(self.settings) <= floor:
                    break  # no continuation can weigh more
                made.append((yield from self._judged(i, text, question, warn, floor)))
            return made
        return (yield Together(*flows)) if flows else []

    def _continued(self, index: int, paragraph: str, question: str, warn: Warn) -> Flow:
        """One call: the checkpoint writes the continuation and its judgements."""
        where = f"passage {index + 1}"
        output = yield from self._said(self._asking(question, paragraph), f"an answer from {where}", warn)
        if output is None:
            return Reflection(index, "")
        reflection = reflection_of(index, output)
        missing = [name for name in ("relevance", "support") if getattr(reflection, name) is None]
        if missing:
            warn(f"{where}: no reflection token for {' and '.join(missing)}")
        return reflection

    def _judged(
        self, index: int, paragraph: str, question: str, warn: Warn, floor: float | None = None
    ) -> Flow:
        """A continuation and its judgements; those that could not make it weigh more than `floor` are not asked for."""
        where, settings = f"passage {index + 1}", self.settings
        question = as_asked(question)

        def hopeless(so_far: Reflection) -> bool:
            return floor is not None and so_far.bound(settings) <= floor

        call = Call(self.relevance, question=question, passage=paragraph)
        said = yield from self._said(call, f"relevance of {where}", warn, "verdict")
        verdict = _read(read_verdict, said, f"relevance of {where}", warn)
        made = Reflection(index, "", relevance=None if verdict is None else float(verdict == RELEVANT))
        if hopeless(made):
            return made

        call = Call(self.generate, context=paragraph, question=question)
        answer = yield from self._said(call, f"an answer from {where}", warn, "answer")
        made = replace(made, answer=answer or "")
        if not made.answer or is_abstention(made.answer):
            return made

        call = Call(self.support, context=paragraph, question=question, answer=as_asked(made.answer))
        said = yield from self._said(call, f"support of {where}", warn, "support")
        support = _read(read_support, said, f"support of {where}", warn)
        made = replace(made, support=support, supported=None if support is None else support > 0)
        if not made.stands(settings) or hopeless(made):
            return made

        call = Call(self.usefulness, question=question, answer=as_asked(made.answer))
        said = yield from self._said(call, f"usefulness of {where}", warn, "rating")
        rating = _read(read_usefulness, said, f"usefulness of {where}", warn)
        return replace(made, usefulness=None if rating is None else (rating - 3) / 2)

    def _said(self, call: Call, what: str, warn: Warn, field: str | None = None) -> Flow:
        """What a call gave: a field of a prediction, or the first output of a language model; None when it fails."""
        try:
            result = yield call
            if field is None:
                return result[0]
            value = getattr(result, field)
            return "" if value is None else str(value).strip()
        except Exception as error:
            if missing := no_lm_error(self):
                raise missing from error
            warn(f"no {what}: {type(error).__name__}: {' '.join(str(error).split())}"[:400])
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


def _read(reader: Callable[[str], Any], said: str | None, what: str, warn: Warn) -> Any:
    if said is None:  # the call failed, and that was told
        return None
    value = reader(said)
    if value is None:
        warn(f"the {what} cannot be read from {said[:80]!r}")
    return value
