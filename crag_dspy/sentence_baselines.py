"""The strongest cheap baseline: the best sentences of both sources, by words or an embedder, without a grader.

What CRAG's refinement must beat is not whole passages but this: retrieve, search the web, cut everything into
sentences, rank them against the question, keep a few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import dspy
import numpy as np

from crag_dspy.actions import Thresholds
from crag_dspy.baselines import RAG
from crag_dspy.flow import Call, Flow
from crag_dspy.generate import answered, settled
from crag_dspy.knowledge import compose
from crag_dspy.passages import Strip
from crag_dspy.refine import distinct, shown_of, strips_of
from crag_dspy.retrievers.bm25 import BM25
from crag_dspy.retrievers.embedders import Embedder, as_embedder
from crag_dspy.state.arguments import check_choice, check_number, check_question, check_whole
from crag_dspy.text.replies import abstention_for, is_abstention
from crag_dspy.trace import Trace

Ranking = Literal["words", "embedding", "both"]


class BestSentences(RAG):
    """The `n` best sentences of what retriever and web search find, and the generator of RAG.

    Args:
        retrieve, generate, k, search, web_results: as in `RAG`.
        n: sentences kept, of both sources together, >= 1.
        by: "words" (BM25 among the sentences found), "embedding" (cosine), or "both" (the sum of the two, each
            centred and scaled over the sentences found).
        embedder: see `as_embedder`; what "embedding" and "both" rank with.
        cut: below this score of the best sentence nothing is kept, and the answer declines; None always answers.
            BM25 from 0 up, cosines in [-1, 1], "both" in standard deviations.

    Returns (when called with `question=`):
        A prediction with the fields of CRAG's; `action` is None. `evidence` are the sentences in their order. Ranking
        is no judgement: they have no score, and `grounded` is as in `RAG`, never True.
    """

    def __init__(
        self,
        retrieve: Any = None,
        *,
        search: Any = None,
        generate: Any = None,
        k: int = 10,
        n: int = 3,
        by: Ranking = "words",
        embedder: Any = "minilm",
        cut: float | None = None,
        web_results: int = 5,
    ) -> None:
        super().__init__(retrieve, generate=generate, k=k, search=search, web_results=web_results)
        check_whole("n", n)
        check_choice("by", by, get_args(Ranking))
        if cut is not None:
            check_number("cut", cut, -np.inf)
        self.n, self.by, self.cut = n, by, cut
        self._embedder = None if by == "words" else as_embedder(embedder)

    def _flow(self, question: str) -> Flow:
        check_question(question)
        trace = Trace(question, Thresholds(1.0, -1.0), "none")
        yield from self._retrieved(question, trace)
        yield from self._searched(question, trace)
        # Calls, as all work on text is: for long pages it takes time that an event loop does not have.
        internal = yield Call(strips_of, passages=trace.passages, origin="internal")
        web = yield Call(strips_of, passages=trace.web_passages, origin="web")
        strips = distinct([*internal, *web])
        evidence, best = yield Call(self._best, question=question, strips=strips)
        chosen = {id(strip) for strip in evidence}
        trace.dropped = [strip for strip in strips if id(strip) not in chosen]
        trace.evidence_score = best if strips else None
        if self.cut is not None and best < self.cut:
            trace.declined, evidence = evidence, []
        trace.kept = evidence
        knowledge = yield Call(compose, evidence=evidence)
        answer = abstention_for(question) if self.cut is not None else None
        if evidence:
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

    def _best(self, question: str, strips: Sequence[Strip]) -> tuple[list[Strip], float]:
        """The best `n` in their order, and the best score."""
        if not strips:
            return [], -np.inf
        scores = self._scores(question, [shown_of(strip) for strip in strips])
        chosen = np.sort(np.argsort(-scores, kind="stable")[: self.n])
        return [strips[i] for i in chosen], float(scores.max())

    def _scores(self, question: str, texts: Sequence[str]) -> Any:
        if self.by == "words":
            return by_words(question, texts)
        cosines = by_embedding(self._embedder, question, texts)
        return cosines if self.by == "embedding" else _scaled(by_words(question, texts)) + _scaled(cosines)


def by_words(question: str, texts: Sequence[str]) -> Any:
    """(len(texts),) BM25 scores among these texts, 0 for one without a word of the question."""
    scores = np.zeros(len(texts))
    for place, score in BM25(texts).top(question, len(texts)):
        scores[place] = score
    return scores


def by_embedding(embedder: Embedder | None, question: str, texts: Sequence[str]) -> Any:
    """(len(texts),) cosines in [-1, 1]."""
    if embedder is None:
        return np.zeros(len(texts))
    return embedder.embed(texts) @ embedder.embed_query(question)


def _scaled(scores: Any) -> Any:
    return (scores - scores.mean()) / (scores.std() + 1e-9)
