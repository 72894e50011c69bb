"""CRAG: corrective retrieval, then a generator. Start reading here; `corrective.py` is the next page.

    question -> retrieve -> grade -> decide -> refine / search the web / both -> generate

    crag = CRAG(retrieve=LocalIndex.open("docs"), search=TavilySearch())
    crag(question="Who designed the bridge?").answer

The answer rests on `evidence`: strips of passages that a grader found relevant, each with its source. When no strip
survives, the program says so instead of asking the language model to guess.
"""

from __future__ import annotations

from typing import Any

import dspy

from crag_dspy.actions import Action
from crag_dspy.check.step import as_check, checked
from crag_dspy.corrective import CorrectiveRetriever
from crag_dspy.errors import ConfigError
from crag_dspy.flow import Call, Flow, adrive, drive
from crag_dspy.generate import answered, as_generator, settled
from crag_dspy.state.saving import Saved
from crag_dspy.usage import track_calls


class CRAG(Saved):
    """Corrective retrieval augmented generation (arXiv 2401.15884) as one program that can be compiled and saved.

    Args:
        retrieve, grader, search, **settings: those of `CorrectiveRetriever`; or pass one as `retrieve`.
        generate: what answers: a signature with `context, question -> answer` (default `ShortAnswer`), or any module
            that takes `context=` and `question=`.
        check: what judges whether the evidence supports the answer: "auto" (by three signals, where the grader has
            weights for it, as "mini" has), None, or any `AnswerCheck`.

    Returns (when called with `question=`):
        A prediction with `answer`, `action`, `evidence`, `knowledge`, `grounded` (False when the answer rests on no
        evidence, on none that the grader could judge, or is not supported by it), `confidence` (in [0, 1]; None when
        support was not judged), `supported_by` (strips that hold the answer, with the characters), `failed` (None, or
        what did not work and why, where that left the question without an answer: not the same as declining),
        `queries`, `warnings` and `trace`. The question that is answered is the original one.
    """

    def __init__(
        self,
        retrieve: Any = None,
        grader: Any = "mini",
        search: Any = None,
        *,
        generate: Any = None,
        check: Any = "auto",
        **settings: Any,
    ) -> None:
        super().__init__()
        if isinstance(retrieve, CorrectiveRetriever):
            if grader != "mini" or search is not None:
                raise ConfigError(
                    "grader and search must be given to the CorrectiveRetriever, which has its own"
                )
            # The caller's own stays as it is: it may serve elsewhere, with other settings.
            self.corrective = retrieve.deepcopy() if settings else retrieve
            self.corrective.settings.update(settings)
        else:
            self.corrective = CorrectiveRetriever(retrieve, grader, search, **settings)
        self.generate = as_generator(generate)
        self.check = as_check(check, self.corrective.grade.part)

    @property
    def settings(self) -> Any:
        """The `Settings` of the corrective retriever: thresholds, k, strips, the rule without evidence."""
        return self.corrective.settings

    def forward(self, question: str, action: Action | str | None = None) -> dspy.Prediction:
        with track_calls() as usage:
            prediction = drive(self._flow(question, action))
        return _with_usage(prediction, usage)

    async def aforward(self, question: str, action: Action | str | None = None) -> dspy.Prediction:
        with track_calls() as usage:
            prediction = await adrive(self._flow(question, action))
        return _with_usage(prediction, usage)

    def _flow(self, question: str, action: Action | str | None) -> Flow:
        found = yield Call(self.corrective, question=question, action=action)
        evidence = found.evidence
        answer = None
        if evidence or self.settings.no_evidence == "answer":
            given = (self.generate, found.knowledge, question, len(evidence), found.trace)
            answer = yield from answered(*given, self.settings.time_limit)
        asked = (self.check, question, answer, evidence, self.settings, found.trace)
        answer, grounded, supported_by = yield from checked(*asked)
        return dspy.Prediction(
            answer=settled(answer, found.trace),
            failed=found.trace.failed,
            action=found.action,
            evidence=evidence,
            knowledge=found.knowledge,
            grounded=grounded,
            confidence=found.trace.confidence,
            supported_by=supported_by,
            queries=found.queries,
            warnings=found.warnings,
            trace=found.trace,
        )


def _with_usage(prediction: dspy.Prediction, usage: Any) -> dspy.Prediction:
    trace = prediction.trace
    trace.before_answer = (trace.lm_calls, sum(trace.lm_tokens.values()))
    trace.lm_calls, trace.lm_tokens = 0, {}  # the retriever's share is part of the whole
    trace.add_usage(usage.usage_data)
    return prediction
