"""FActScore (arXiv 2305.14251): the share of a text's atomic facts that a knowledge source supports.

judged = FactScore(judge=dspy.LM("openai/gpt-4o-mini"), knowledge=index)
found = evaluate(program, biographies, judged)
print(fact_summary(found))          # mean over those who answered, and how many did
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import dspy

from crag_dspy.contracts import Retriever
from crag_dspy.errors import ConfigError, JudgeError
from crag_dspy.optimize.metrics.facts import Fact, FactJudge
from crag_dspy.optimize.metrics.feedback import listed
from crag_dspy.optimize.metrics.observed import abstained, answer_of, failure_of, field_of
from crag_dspy.optimize.metrics.score import Score
from crag_dspy.optimize.runs.evaluation import Evaluation
from crag_dspy.optimize.statistics.intervals import MeanInterval, mean_interval
from crag_dspy.passages import as_passages
from crag_dspy.retrievers.adapt import as_retriever
from crag_dspy.retrievers.chunking import chunk
from crag_dspy.state.arguments import check_number, check_whole
from crag_dspy.state.plain import Plain

NO_RESPONSE = "No response"
PASSAGE_WORDS = 100  # of an example's own context, as the passages of the paper's Wikipedia dump


class FactScore:
    """A metric for long answers: supported facts over all facts, times the length penalty.

    An example names its topic (`topic`, else `document`, else the question is the topic). An answer that declines, or
    that states no fact, is no response: its score is 0 with `abstained=True`, and `fact_summary` leaves it out of the
    mean, as the paper does. A question that failed has the score 0 too, with `failed`, and is no response of any kind.
    A fact of which the judge's verdict cannot be read counts neither as supported nor as not.

    Args:
        judge: the `dspy.LM` that splits and verifies; None is `dspy.settings.lm`.
        knowledge: what `as_retriever` reads, such as an index of the topics' articles; None takes each example's own
            `passages` or `context`, cut into passages of about 100 words.
        k: passages that a fact is verified against, at most.
        gamma: answers of fewer facts are multiplied by exp(1 - gamma / facts); 0 for no penalty (section 3.1's score).

    Raises (when called):
        ConfigError: an example without a source, when there is no `knowledge`; or no language model.
        JudgeError: a call of the judge or of the source that failed, or no verdict of the judge's that can be read.
            `evaluate` counts the question as failed and asks again next time.
    """

    def __init__(
        self,
        judge: Any = None,
        knowledge: Any = None,
        *,
        k: int = 5,
        gamma: float = 10,
        name: str = "factscore",
    ) -> None:
        check_whole("k", k)
        check_number("gamma", gamma, 0)
        if judge is not None and not isinstance(judge, dspy.BaseLM):
            raise ConfigError(
                f"judge must be a dspy.LM, got {type(judge).__name__}: pass dspy.LM('provider/model')"
            )
        self.judge = judge
        self.knowledge = None if knowledge is None else as_retriever(knowledge)
        self.k, self.gamma = k, float(gamma)
        self.asks = FactJudge(k)
        # Plain attributes are a metric's identity: stored scores of another judge are of another metric.
        self.judged_by = "" if judge is None else str(judge.model)
        self.known_by = "" if knowledge is None else _name(knowledge)
        self.__name__ = name

    def __call__(
        self, example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Score:
        source = self.knowledge or _own_source(example)
        if (failed := failure_of(pred)) is not None:
            return Score(score=0.0, feedback=f"The question failed: {failed}.", abstained=False, failed=True)
        if abstained(pred):
            return _no_response("it declined to answer")
        # A trace of its own: the judge's calls are no steps of the program.
        with dspy.context(trace=[], lm=self.judge or dspy.settings.lm):
            facts = self.asks(text=answer_of(pred), topic=_topic(example), source=source)
        if not facts:
            return _no_response("the answer states no fact")
        judged = [fact for fact in facts if fact.supported is not None]
        if not judged:
            raise JudgeError(
                f"the judge gave no verdict that can be read on any of {len(facts)} facts, such as {facts[0].text!r}"
            )
        right = sum(fact.supported is True for fact in judged)
        value = fact_score(right, len(judged), self.gamma)
        return Score(
            score=value,
            feedback=_feedback(judged, right, value, len(facts) - len(judged)),
            abstained=False,
            facts=len(judged),
            supported=right,
        )


def fact_score(supported: int, facts: int, gamma: float = 10) -> float:
    """supported / facts, times exp(1 - gamma / facts) when there are fewer facts than gamma; 0 for no fact."""
    if not facts:
        return 0.0
    return supported / facts * (math.exp(1 - gamma / facts) if facts < gamma else 1.0)


@dataclass(frozen=True, slots=True)
class FactSummary(Plain):
    """FActScore of a system: `score` over the questions it responded to (None when it responded to none).

    `failed` questions, on which the system or the judge failed, are not among the `questions`.
    """

    SHOWN: ClassVar[str] = "score responded questions respondent_ratio failed"

    score: MeanInterval | None
    responded: int
    questions: int
    failed: int = 0

    @property
    def respondent_ratio(self) -> float:
        """The share of the questions it responded to."""
        return self.responded / self.questions

    def __str__(self) -> str:
        mean = "-" if self.score is None else str(self.score)
        failed = f", failed {self.failed}" if self.failed else ""
        share = f"{self.responded} of {self.questions} ({self.respondent_ratio:.1%})"
        return f"FActScore {mean}, responded to {share}{failed}"


def fact_summary(
    scores: Evaluation | Iterable[Score], metric: str = "factscore", *, level: float = 0.95
) -> FactSummary:
    """The mean over the questions that were responded to, and how many were.

    Args:
        scores: what `FactScore` returned, or an evaluation with it; questions on which the judge failed are left out.
        metric: its name in the evaluation.
    """
    if isinstance(scores, Evaluation):
        scores.scores(metric)  # an unknown name is told
        known = [place for place, row in enumerate(scores.rows) if not row["error"]]
        rows = [scores.rows[place] for place in known]
        groups = None if scores.groups is None else [scores.groups[place] for place in known]
        failed = len(scores.failures)
        pairs = [
            (float(row["scores"][metric]), str(row["feedback"][metric]).startswith(NO_RESPONSE))
            for row in rows
        ]
    else:
        each, groups = list(scores), None
        failed = sum(bool(score.get("failed", False)) for score in each)
        pairs = [
            (float(score), bool(score.get("abstained", False)))
            for score in each
            if not score.get("failed", False)
        ]
    if not pairs:
        raise ConfigError(
            "there are no scores to sum up" + (f": {failed} questions failed" if failed else "")
        )
    places = [place for place, (_, silent) in enumerate(pairs) if not silent]
    answered = [pairs[place][0] for place in places]
    of = (
        None if groups is None else [groups[place] for place in places]
    )  # questions of one document are not independent
    interval = mean_interval(answered, of, level=level) if answered else None
    return FactSummary(interval, len(answered), len(pairs), failed)


def _no_response(why: str) -> Score:
    return Score(score=0.0, feedback=f"{NO_RESPONSE}: {why}.", abstained=True, facts=0, supported=0)


def _feedback(facts: list[Fact], right: int, value: float, unread: int) -> str:
    wrong = [fact.text for fact in facts if not fact.supported]
    said = f"{right} of {len(facts)} facts are supported (FActScore {value:.2f})."
    if unread:
        said += f" The judge's verdict on {unread} more could not be read."
    return (
        f"{said} The source does not support {listed(wrong[:5])}: leave such statements out."
        if wrong
        else said
    )


def _topic(example: Any) -> str:
    for name in ("topic", "document", "question"):
        if value := field_of(example, name):
            return str(value)
    raise ConfigError("an example needs `topic`, `document` or `question`")


def _own_source(example: Any) -> Retriever:
    passages = field_of(example, "passages")
    if passages:
        return as_retriever(as_passages(passages))
    context = field_of(example, "context")
    if not context:
        raise ConfigError(
            "factscore needs a source to verify facts against: FactScore(knowledge=retriever), or examples with "
            "`passages` or `context`"
        )
    text = str(context)
    return as_retriever([text[start:end] for start, end in chunk(text, PASSAGE_WORDS)])


def _name(knowledge: Any) -> str:
    given = getattr(knowledge, "fingerprint", None) or getattr(knowledge, "name", None)
    return given if isinstance(given, str) else type(knowledge).__qualname__
