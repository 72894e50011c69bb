"""Corrective retrieval (arXiv 2401.15884, sections 4.2 to 4.5): everything from the question down to the evidence.

The flow below is written once, as a generator, and driven sync or async (`flow.py`). What fails inside it becomes a
warning and a safer path; one question never ends a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from crag_dspy.actions import Action, decide
from crag_dspy.check.contract import CheckingGrader
from crag_dspy.contracts import ReadingGrader, TunedGrader
from crag_dspy.errors import ConfigError, cause_of
from crag_dspy.flow import Call, Flow, Together, adrive, drive
from crag_dspy.graders.adapt import as_grader
from crag_dspy.knowledge import compose, quoted
from crag_dspy.passages import Origin, Passage, Strip
from crag_dspy.refine import select, shown_of, strips_of, titled
from crag_dspy.retrievers.adapt import as_retriever
from crag_dspy.settings import Settings, with_cuts
from crag_dspy.signatures.rewrite import RewriteQuery
from crag_dspy.state.arguments import check_choice, check_question
from crag_dspy.state.saving import Saved
from crag_dspy.steps import Grade, ReadOnce, Retrieve, Search
from crag_dspy.text.untrusted import as_asked
from crag_dspy.trace import GRADER, MODEL, RETRIEVER, SEARCH, Trace
from crag_dspy.usage import track_calls
from crag_dspy.websearch.adapt import as_web_search
from crag_dspy.websearch.query import clean_query

REWRITE_FAILED = "the query rewrite failed, searching with the question itself"


class CorrectiveRetriever(Saved):
    """Retrieve, grade, decide, and return evidence that was checked.

    Args:
        retrieve: whatever `as_retriever` reads; None means `dspy.settings.rm`.
        grader: a grader, or the name or path of a T5 grader; "mini" is the one in the package.
        search: a web search, or None to work without the web.
        settings: fields of `Settings`, such as `upper=0.4` or `k=5`. Thresholds default to the grader's own.

    Returns (when called with `question=`):
        A prediction with `action`, `evidence` (list of `Strip`), `knowledge` (str), `passages` (texts of the evidence),
        `queries`, `warnings`, `trace` (with `faults`: the parts that did not work). `action=` forces a branch, which is
        how outcomes are collected; `k=` retrieves another number of passages for this question.
    """

    def __init__(
        self, retrieve: Any = None, grader: Any = "mini", search: Any = None, **settings: Any
    ) -> None:
        super().__init__()
        judge = as_grader(grader)
        web = as_web_search(search)
        self.retrieve = Retrieve(as_retriever(retrieve))
        self.grade = Grade(judge)
        self.read = ReadOnce(judge) if isinstance(judge, ReadingGrader) and judge.reads_once else None
        self.search = Search(web) if web is not None else None
        self.rewrite = dspy.Predict(RewriteQuery)
        self.settings = Settings()
        self.settings.update({**_suggested(judge, settings.get("grade_by", "auto")), **with_cuts(settings)})

    def forward(
        self, question: str, action: Action | str | None = None, k: int | None = None
    ) -> dspy.Prediction:
        with track_calls() as usage:
            found = drive(self._flow(question, action, k))
        found.trace.add_usage(usage.usage_data)
        return found

    async def aforward(
        self, question: str, action: Action | str | None = None, k: int | None = None
    ) -> dspy.Prediction:
        with track_calls() as usage:
            found = await adrive(self._flow(question, action, k))
        found.trace.add_usage(usage.usage_data)
        return found

    def _flow(self, question: str, forced: Action | str | None, k: int | None) -> Flow:
        check_question(question)
        if forced is not None:
            check_choice("action", forced, list(map(str, Action)))
        settings, grader = self.settings, self.grade.part
        if self.grade_by == "once":
            self._reader()  # an error before any work
        trace = Trace(question, settings.thresholds, settings.policy, grader.name, forced=forced is not None)
        if mismatch := self.grader_mismatch():
            trace.warn(mismatch)

        passages = yield from self._retrieved(question, trace, k or self.settings.k)
        strips = yield from self._cut(passages, "internal")
        trace.scores, strips = yield from self._judged(question, passages, strips, trace)
        action = (
            Action(forced)
            if forced
            else decide(trace.scores, trace.thresholds, trace.policy, settings.actions)
        )
        trace.action = action

        internal: list[Strip] = []
        web: list[Strip] = []
        if action is Action.CORRECT:
            internal = yield from self._refined(question, strips, trace)
        elif action is Action.INCORRECT:
            web = yield from self._from_web(question, trace)
            if not trace.web_passages:  # the search failed or found nothing: better our own strips than none
                internal = yield from self._refined(question, strips, trace)
        else:
            internal, web = yield Together(
                self._refined(question, strips, trace), self._from_web(question, trace)
            )
        evidence = yield Call(self._chosen, strips=[*internal, *web], trace=trace)
        knowledge, texts = yield Call(_rendered, evidence=evidence)
        return dspy.Prediction(
            action=action,
            evidence=evidence,
            knowledge=knowledge,
            passages=texts,
            queries=trace.queries,
            warnings=trace.warnings,
            trace=trace,
        )

    def _retrieved(self, question: str, trace: Trace, k: int) -> Flow:
        with trace.timed("retrieve"):
            try:
                call = Call(self.retrieve, query=question, k=k)
                trace.passages = yield call.within(self.settings.time_limit, trace.warn)
            except Exception as error:  # noqa: BLE001 - a failing retriever is no passage, not a crash
                trace.fault(RETRIEVER, cause_of(error, self), "retrieval failed, going on without passages")
        return trace.passages

    def _cut(self, passages: Sequence[Passage], origin: Origin) -> Flow:
        # A call, as all work on text is: for long pages it takes seconds, which an event loop does not have.
        settings = self.settings
        return (
            yield Call(
                strips_of,
                passages=passages,
                origin=origin,
                mode=settings.strip_mode,
                group=settings.strip_size,
            )
        )

    def _graded(self, question: str, texts: Sequence[str], trace: Trace) -> Flow:
        if not texts:
            return []
        with trace.timed("grade"):
            try:
                call = Call(self.grade, question=question, texts=list(texts))
                return (yield call.within(self.settings.time_limit, trace.told(GRADER)))
            except Exception as error:  # noqa: BLE001 - a grader that is down judges nothing: never CORRECT
                trace.fault(GRADER, cause_of(error, self), "the grader failed, relevance is unknown")
        return [None] * len(texts)

    def _judged(
        self, question: str, passages: Sequence[Passage], strips: Sequence[Strip], trace: Trace
    ) -> Flow:
        """(a score a passage, the strips): what decides, and the strips with their scores where it takes no more."""
        if self.grade_by == "once":
            return (yield from self._read(question, passages, strips, trace))
        if self.grade_by == "passage":
            scores = yield from self._graded(question, [titled(p, p.text) for p in passages], trace)
            return scores, strips
        strips = yield from self._graded_strips(question, strips, trace)
        return [_best(strip.score for strip in strips if strip.passage is p) for p in passages], strips

    def _read(
        self, question: str, passages: Sequence[Passage], strips: Sequence[Strip], trace: Trace
    ) -> Flow:
        """Scores of passages and strips, from one encoding of each passage."""
        if not passages:
            return [], []
        with trace.timed("grade"):
            try:
                call = Call(self._reader(), question=question, passages=passages, strips=strips)
                scores, of_strips = yield call.within(self.settings.time_limit, trace.warn)
            except Exception as error:  # noqa: BLE001 - a grader that is down judges nothing: never CORRECT
                trace.fault(GRADER, cause_of(error, self), "the grader failed, relevance is unknown")
                return [None] * len(passages), list(strips)
        return scores, _scored(strips, of_strips)

    def _graded_strips(self, question: str, strips: Sequence[Strip], trace: Trace) -> Flow:
        texts = yield Call(_read_texts, strips=strips)
        scores = yield from self._graded(question, texts, trace)
        return _scored(strips, scores)

    def _refined(self, question: str, strips: Sequence[Strip], trace: Trace) -> Flow:
        """Filter strips (grading those that are not yet) and keep the best, in source order."""
        if strips and self.settings.select not in ("both", strips[0].origin):
            return list(strips)
        by_strips = self.grade_by == "strips" and any(strip.origin == "internal" for strip in strips)
        if self.grade_by != "once" and not by_strips:
            strips = yield from self._graded_strips(question, strips, trace)
        kept = select(strips, self.settings.strip_threshold, self.settings.top_n)
        chosen = {id(strip) for strip in kept}
        trace.dropped += [strip for strip in strips if id(strip) not in chosen]
        return kept

    def _chosen(self, strips: Sequence[Strip], trace: Trace) -> list[Strip]:
        """The evidence: the best of both origins, and nothing at all where even that is too weak."""
        settings = self.settings
        # A page may say what a passage says; and of an origin that is not selected from, everything is kept.
        budget = settings.top_n if settings.select == "both" else len(strips)
        evidence = select(strips, -1.0, budget)
        trace.evidence_score = _best(strip.score for strip in evidence)
        weak = trace.evidence_score is not None and trace.evidence_score < settings.evidence_threshold
        trace.kept, trace.declined = ([], evidence) if weak else (evidence, [])
        chosen = {id(strip) for strip in evidence}
        trace.dropped += [strip for strip in strips if id(strip) not in chosen]
        return trace.kept

    def _from_web(self, question: str, trace: Trace) -> Flow:
        """Rewrite, search, refine. No page at all when there is no search or it fails."""
        if self.search is None:
            trace.warn("no web search is configured, so nothing could correct the retrieval: pass search=")
            return []
        query = yield from self._rewritten(question, trace)
        with trace.timed("search"):
            try:
                call = Call(self.search, query=query, max_results=self.settings.web_results)
                pages = yield call.within(self.settings.time_limit, trace.warn)
            except Exception as error:  # noqa: BLE001 - typed inside the search; here every kind means no page
                trace.fault(SEARCH, cause_of(error, self), "web search failed")
                return []
        trace.web_passages = pages
        origin: Origin = "web"
        strips = yield from self._cut(pages, origin)
        if self.grade_by == "once":
            _, strips = yield from self._read(question, pages, strips, trace)
        return (yield from self._refined(question, strips, trace))

    def _rewritten(self, question: str, trace: Trace) -> Flow:
        raw = question
        if self.settings.rewrite:
            with trace.timed("rewrite"):
                try:
                    call = Call(self.rewrite, question=as_asked(question))
                    raw = (yield call.within(self.settings.time_limit, trace.warn)).query
                except AdapterParseError as error:  # a weak model's doing, and the question is a query too
                    trace.warn(f"{REWRITE_FAILED}: {cause_of(error, self)}")
                except Exception as error:  # noqa: BLE001 - a failing rewrite must not cost the search
                    trace.fault(MODEL, cause_of(error, self), REWRITE_FAILED)
        query, notes = clean_query(raw, question)
        for note in notes:
            trace.warn(note)
        trace.queries.append(query)
        return query

    @property
    def grade_by(self) -> str:
        """How texts are graded: `settings.grade_by`, or what "auto" comes to with this grader."""
        chosen: str = self.settings.grade_by
        return chosen if chosen != "auto" else "passage" if self.read is None else "once"

    def _reader(self) -> ReadOnce:
        if self.read is None:
            raise ConfigError(
                f"grade_by='once' needs a grader that reads passages once, such as 'mini'; {self.grade.part.name!r} "
                "reads a question and a text together: use grade_by='passage'"
            )
        return self.read

    def grader_mismatch(self) -> str | None:
        """What to tell when the thresholds were tuned on another grader than the one in use; None when they fit."""
        tuned_on, grader = self.settings, self.grade.part
        if not tuned_on.grader_fingerprint or tuned_on.grader_fingerprint == grader.fingerprint:
            return None
        return (
            f"the thresholds were tuned on grader {tuned_on.grader!r} ({tuned_on.grader_fingerprint}), but "
            f"{grader.name!r} ({grader.fingerprint}) is in use: search thresholds again for this grader"
        )


def _suggested(grader: Any, grade_by: str) -> dict[str, float]:
    """What the grader was tuned to, of the settings."""
    found: dict[str, float] = {}
    if isinstance(grader, TunedGrader) and (cuts := grader.thresholds) is not None:
        found = {"upper": cuts.upper, "lower": cuts.lower}
    if grade_by in ("auto", "once") and isinstance(grader, ReadingGrader) and grader.reads_once:
        cut = grader.evidence_threshold
        found |= {} if cut is None else {"evidence_threshold": cut}
    if isinstance(grader, CheckingGrader) and (weights := grader.check_weights) is not None:
        cut = weights.answer_threshold
        found |= {} if cut is None else {"answer_threshold": cut}
    return found


def _read_texts(strips: Sequence[Strip]) -> list[str]:
    return [shown_of(strip) for strip in strips]


def _scored(strips: Sequence[Strip], scores: Sequence[float | None]) -> list[Strip]:
    return [replace(strip, score=score) for strip, score in zip(strips, scores, strict=True)]


def _rendered(evidence: Sequence[Strip]) -> tuple[str, list[str]]:
    return compose(evidence), [quoted(strip) for strip in evidence]


def _best(scores: Any) -> float | None:
    known = [score for score in scores if score is not None]
    return max(known) if known else None
