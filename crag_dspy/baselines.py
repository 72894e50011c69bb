"""What CRAG is compared with, and what it plugs into: the same generators on plain retrieval.

`RAG` puts every retrieved passage before the language model, which is the usual way. `SelfRAG` lets the model judge
its own answer. `SelfCRAG` is that generator on corrected evidence (arXiv 2401.15884, section 5.3).
"""

from __future__ import annotations

from typing import Any

import dspy

from crag_dspy.abstain import abstention
from crag_dspy.actions import Thresholds
from crag_dspy.arguments import check_question
from crag_dspy.closed_book import ClosedBook
from crag_dspy.crag import CRAG
from crag_dspy.errors import ConfigError
from crag_dspy.flow import Call, Flow, adrive, drive
from crag_dspy.generate import answered, as_generator
from crag_dspy.knowledge import compose
from crag_dspy.passages import Passage, Strip
from crag_dspy.retrievers.adapt import as_retriever
from crag_dspy.saving import Saved
from crag_dspy.signatures.reflect import ReflectOnAnswer
from crag_dspy.steps import Retrieve
from crag_dspy.trace import Trace
from crag_dspy.usage import track_calls


class RAG(Saved):
    """Plain retrieval augmented generation: the top `k` passages, whole, and no judge.

    Args:
        retrieve: whatever `as_retriever` reads; None means `dspy.settings.rm`.
        generate: as in `CRAG`.
        k: passages to retrieve; 0 answers from the language model alone.

    Returns (when called with `question=`):
        A prediction with the fields of CRAG's, so that the same metrics read both; `action` is None.
    """

    def __init__(self, retrieve: Any = None, *, generate: Any = None, k: int = 10) -> None:
        super().__init__()
        if isinstance(k, bool) or not isinstance(k, int) or k < 0:
            raise ConfigError(f"k must be an integer of at least 0, got {k!r}")
        self.retrieve = Retrieve(as_retriever(retrieve))
        self.generate = as_generator(generate)
        self.k = k

    def forward(self, question: str) -> dspy.Prediction:
        with track_calls() as usage:
            prediction = drive(self._flow(question))
        prediction.trace.add_usage(usage.usage_data)
        return prediction

    async def aforward(self, question: str) -> dspy.Prediction:
        with track_calls() as usage:
            prediction = await adrive(self._flow(question))
        prediction.trace.add_usage(usage.usage_data)
        return prediction

    def _flow(self, question: str) -> Flow:
        check_question(question)
        trace = Trace(question, Thresholds(1.0, -1.0), "none")
        if self.k:
            with trace.timed("retrieve"):
                try:
                    trace.passages = yield Call(self.retrieve, query=question, k=self.k)
                except Exception as error:  # noqa: BLE001 - as in CRAG: a failing retriever is no passage
                    trace.warn(
                        f"retrieval failed, going on without passages: {type(error).__name__}: {error}"[:400]
                    )
        evidence = [_whole(passage) for passage in trace.passages]
        trace.kept = evidence
        knowledge = compose(evidence)
        answer = yield from answered(self.generate, knowledge, question, len(evidence), trace)
        trace.answer = answer if answer is not None else abstention(question)
        return dspy.Prediction(
            answer=trace.answer,
            action=None,
            evidence=evidence,
            knowledge=knowledge,
            grounded=bool(evidence) and answer is not None,
            queries=[],
            warnings=trace.warnings,
            trace=trace,
        )


class NoRetrieval(RAG):
    """The language model alone: no passage, no context in the prompt, never grounded.

    Args:
        generate: see `ClosedBook`.
    """

    def __init__(self, generate: Any = None) -> None:
        super().__init__([], generate=ClosedBook(generate), k=0)


class SelfReflective(dspy.Module):
    """A generator that judges its own answer against the context and tries once more when it is not supported.

    The Self-RAG idea (arXiv 2310.11511) by prompting: `generate` drafts, `reflect` gives a verdict. An answer that
    the context supports in neither try is an abstention. At most two tries, so it cannot loop.
    """

    def __init__(self, generate: Any = None) -> None:
        super().__init__()
        self.generate = as_generator(generate)
        self.reflect = dspy.Predict(ReflectOnAnswer)

    def forward(self, context: str, question: str) -> dspy.Prediction:
        return drive(self._flow(context, question))

    async def aforward(self, context: str, question: str) -> dspy.Prediction:
        return await adrive(self._flow(context, question))

    def _flow(self, context: str, question: str) -> Flow:
        draft = yield Call(self.generate, context=context, question=question)
        if (yield from self._supported(context, question, draft.answer)):
            return draft
        doubt = f"{question}\n(A first answer, {draft.answer!r}, is not supported by the context.)"
        second = yield Call(self.generate, context=context, question=doubt)
        if (yield from self._supported(context, question, second.answer)):
            return second
        return dspy.Prediction(answer=abstention(question))

    def _supported(self, context: str, question: str, answer: str) -> Flow:
        from crag_dspy.graders.verdict import read_verdict

        reflection = yield Call(self.reflect, context=context, question=question, answer=answer)
        return read_verdict(reflection.verdict) == 1.0


class SelfRAG(RAG):
    """Plain retrieval with the self-reflective generator."""

    def __init__(self, retrieve: Any = None, *, generate: Any = None, k: int = 10) -> None:
        super().__init__(retrieve, generate=SelfReflective(generate), k=k)


class SelfCRAG(CRAG):
    """Corrective retrieval with the self-reflective generator."""

    def __init__(
        self,
        retrieve: Any = None,
        grader: Any = "mini",
        search: Any = None,
        *,
        generate: Any = None,
        **settings: Any,
    ) -> None:
        super().__init__(retrieve, grader, search, generate=SelfReflective(generate), **settings)


def _whole(passage: Passage) -> Strip:
    return Strip(passage.text, 0, len(passage.text), None, passage, "internal")
