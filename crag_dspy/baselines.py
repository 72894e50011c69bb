"""What CRAG is compared with, and what it plugs into: the same generators on plain retrieval.

`NoRetrieval` asks the language model alone. `RAG` puts every retrieved passage before it, which is the usual way.
`SelfRAG` retrieves when the model wants it, and takes the best of its answers from each passage (arXiv 2310.11511).
`SelfCRAG` is that generator on corrected evidence (arXiv 2401.15884, section 5.3): only its retrieval is another.
"""

from __future__ import annotations

import difflib
from typing import Any

import dspy

from crag_dspy.actions import Action, Thresholds
from crag_dspy.closed_book import ClosedBook
from crag_dspy.crag import CRAG
from crag_dspy.errors import ConfigError, cause_of
from crag_dspy.flow import Call, Flow, adrive, drive
from crag_dspy.generate import answered, as_generator, cited, settled
from crag_dspy.knowledge import compose
from crag_dspy.passages import Origin, Passage, Strip
from crag_dspy.retrievers.adapt import as_retriever
from crag_dspy.self_rag.reflection import ReflectionSettings
from crag_dspy.self_rag.reflective import SelfReflective
from crag_dspy.settings import RetrievalSettings, Settings, with_cuts
from crag_dspy.state.arguments import check_choice, check_question, check_whole
from crag_dspy.state.saving import Saved
from crag_dspy.state.tunable import TIME_LIMIT
from crag_dspy.steps import Retrieve, Search
from crag_dspy.text.replies import is_abstention
from crag_dspy.trace import RETRIEVER, SEARCH, Trace
from crag_dspy.usage import track_calls
from crag_dspy.websearch.adapt import as_web_search


class RAG(Saved):
    """Plain retrieval augmented generation: the top `k` passages, whole, and no judge.

    Args:
        retrieve: whatever `as_retriever` reads; None means `dspy.settings.rm`.
        generate: as in `CRAG`.
        k: passages to retrieve; 0 answers from the language model alone.
        search: a web search, asked with the question as it is, whose pages are read too; None reads none.
        web_results: pages to ask for, >= 1.

    Returns (when called with `question=`):
        A prediction with the fields of CRAG's, so that the same metrics read both; `action` is None. Nobody judges the
        passages, so `grounded` is never True: False without passages or where the answer declines, else None.
    """

    def __init__(
        self,
        retrieve: Any = None,
        *,
        generate: Any = None,
        k: int = 10,
        search: Any = None,
        web_results: int = 5,
        time_limit: float = TIME_LIMIT,
    ) -> None:
        super().__init__()
        self.settings = RetrievalSettings(k=k, time_limit=time_limit)
        check_whole("web_results", web_results)
        web = as_web_search(search)
        self.search = Search(web) if web is not None else None
        self.web_results = web_results
        self.retrieve = Retrieve(as_retriever(retrieve))
        self.generate = as_generator(generate)

    @property
    def k(self) -> int:
        """Passages to retrieve."""
        return self.settings.k

    @k.setter
    def k(self, value: int) -> None:
        self.settings.k = value

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
        yield from self._retrieved(question, trace)
        yield from self._searched(question, trace)
        evidence = [_whole(passage) for passage in trace.passages]
        evidence += [_whole(page, "web") for page in trace.web_passages]
        trace.kept = evidence
        knowledge = compose(evidence)
        given = (self.generate, knowledge, question, len(evidence), trace)
        answer = yield from answered(*given, self.settings.time_limit)
        return dspy.Prediction(
            answer=settled(answer, trace),
            failed=trace.failed,
            action=None,
            evidence=evidence,
            knowledge=knowledge,
            grounded=None if evidence and answer is not None and not is_abstention(answer) else False,
            queries=trace.queries,
            warnings=trace.warnings,
            trace=trace,
        )

    def _searched(self, question: str, trace: Trace) -> Flow:
        if self.search is None:
            return
        trace.queries = [question]
        with trace.timed("search"):
            try:
                call = Call(self.search, query=question, max_results=self.web_results)
                trace.web_passages = yield call.within(self.settings.time_limit, trace.warn)
            except Exception as error:  # noqa: BLE001 - as in CRAG: a failing search is no page
                trace.fault(SEARCH, cause_of(error), "web search failed")

    def _retrieved(self, question: str, trace: Trace) -> Flow:
        if not self.k:
            return
        with trace.timed("retrieve"):
            try:
                call = Call(self.retrieve, query=question, k=self.k)
                trace.passages = yield call.within(self.settings.time_limit, trace.warn)
            except Exception as error:  # noqa: BLE001 - as in CRAG: a failing retriever is no passage
                trace.fault(RETRIEVER, cause_of(error, self), "retrieval failed, going on without passages")


class NoRetrieval(RAG):
    """The language model alone: no passage, no context in the prompt, never grounded.

    Args:
        generate: see `ClosedBook`.
    """

    def __init__(self, generate: Any = None) -> None:
        super().__init__([], generate=ClosedBook(generate), k=0)


class SelfRAG(RAG):
    """Self-RAG (arXiv 2310.11511): retrieval on demand, and the best supported of the answers from each passage.

    Args:
        retrieve, k: as in `RAG`; every one of the `k` passages is a paragraph of its own.
        generate, tokens, settings: those of `SelfReflective`, such as `retrieval="always"` or `w_support=2.0`; or pass
            one as `generate`.

    Returns (when called with `question=`):
        A prediction with the fields of CRAG's. `evidence` and `knowledge` are the passage that the answer rests on;
        `read` is all that the language model was given, which is more, and `reflections` how each passage did. An
        answer from memory, where no retrieval was wanted, has no evidence and is not grounded.
    """

    def __init__(
        self,
        retrieve: Any = None,
        *,
        generate: Any = None,
        k: int = 10,
        tokens: bool | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(retrieve, generate=_reflective(generate, tokens, settings), k=k)
        self.settings.time_limit = self.generate.settings.time_limit

    def _flow(self, question: str) -> Flow:
        check_question(question)
        trace = Trace(question, Thresholds(1.0, -1.0), "none")
        with trace.timed("decide"):
            wanted = self.k > 0 and (yield from self.generate.demanded(question, trace))
        if not wanted:
            return (yield from _from_memory(self.generate, question, trace))
        yield from self._retrieved(question, trace)
        whole = [_whole(passage) for passage in trace.passages]
        groups = [[strip] for strip in whole]
        return (yield from _from_paragraphs(self.generate, question, groups, trace))


class SelfCRAG(CRAG):
    """Self-RAG on corrected evidence: all of it is one paragraph, as in the CRAG paper.

    Args:
        retrieve, grader, search: as in `CRAG`.
        generate, tokens: as in `SelfRAG`.
        settings: fields of `Settings` (of the correction) and of `ReflectionSettings` (of the generator).

    A question for which no retrieval is wanted is answered from memory, with `action` None; when an action is given,
    retrieval is wanted.
    """

    def __init__(
        self,
        retrieve: Any = None,
        grader: Any = "mini",
        search: Any = None,
        *,
        generate: Any = None,
        tokens: bool | None = None,
        **settings: Any,
    ) -> None:
        settings = with_cuts(settings)
        _check_names(settings)
        reflection = {name: value for name, value in settings.items() if name in ReflectionSettings.RULES}
        correction = {name: value for name, value in settings.items() if name in Settings.RULES}
        made = _reflective(generate, tokens, reflection)
        super().__init__(retrieve, grader, search, generate=made, check=None, **correction)

    def _flow(self, question: str, action: Action | str | None) -> Flow:
        check_question(question)
        if action is not None:
            check_choice("action", action, list(map(str, Action)))
        settings = self.settings
        trace = Trace(question, settings.thresholds, settings.policy, self.corrective.grade.part.name)
        with trace.timed("decide"):
            wanted = action is not None or (yield from self.generate.demanded(question, trace))
        if not wanted:
            return (yield from _from_memory(self.generate, question, trace))
        found = yield Call(self.corrective, question=question, action=action)
        before, trace = trace, found.trace
        trace.seconds = {**before.seconds, **trace.seconds}
        trace.learn(before.warnings, before.faults)
        if not found.evidence and settings.no_evidence == "answer":
            return (yield from _from_memory(self.generate, question, trace))
        groups = [found.evidence] if found.evidence else []
        return (yield from _from_paragraphs(self.generate, question, groups, trace))


def _reflective(generate: Any, tokens: bool | None, settings: dict[str, Any]) -> SelfReflective:
    if not isinstance(generate, SelfReflective):
        return SelfReflective(generate, tokens=tokens, **settings)
    if tokens is not None:
        raise ConfigError("tokens must be given to the SelfReflective, which has its own")
    made: SelfReflective = generate.deepcopy() if settings else generate  # the caller's own stays as it is
    made.settings.update(settings)
    return made


def _from_memory(generate: SelfReflective, question: str, trace: Trace) -> Flow:
    with trace.timed("generate"):
        said = yield from generate.recalled(question, trace)
    answer = None if said is None else cited(said, 0, trace)
    return _prediction(answer, [], trace, grounded=False)


def _from_paragraphs(
    generate: SelfReflective, question: str, groups: list[list[Strip]], trace: Trace
) -> Flow:
    """Reflect on the paragraphs, one a group of strips; the evidence is the group that the answer rests on."""
    texts = [generate.paragraph(strips) for strips in groups]
    with trace.timed("generate"):
        judged = yield Call(generate, context=texts, question=question)
    trace.learn(judged.warnings, judged.faults)
    trace.reflections = judged.reflections
    evidence = [] if judged.paragraph is None else groups[judged.paragraph]
    answer = None if judged.paragraph is None else cited(judged.answer, len(evidence), trace)
    read = "\n".join(texts[each["paragraph"]] for each in judged.reflections)
    return _prediction(answer, evidence, trace, grounded=judged.grounded, read=read)


def _prediction(
    answer: str | None, evidence: list[Strip], trace: Trace, *, grounded: bool, read: str = ""
) -> dspy.Prediction:
    trace.kept = evidence
    return dspy.Prediction(
        answer=settled(answer, trace),
        failed=trace.failed,
        action=trace.action,
        evidence=evidence,
        knowledge=compose(evidence),
        grounded=grounded and answer is not None and not is_abstention(answer),
        queries=trace.queries,
        warnings=trace.warnings,
        read=read,
        reflections=trace.reflections,
        trace=trace,
    )


def _check_names(settings: dict[str, Any]) -> None:
    known = [*Settings.RULES, *ReflectionSettings.RULES]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigError(
                f"unknown setting {name!r}"
                + (f": did you mean {near[0]!r}?" if near else f", not in {known}")
            )


def _whole(passage: Passage, origin: Origin = "internal") -> Strip:
    return Strip(passage.text, 0, len(passage.text), None, passage, origin)
