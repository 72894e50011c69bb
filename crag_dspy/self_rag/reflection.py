"""What Self-RAG judges of a continuation, and how the judgements weigh (arXiv 2310.11511, section 3.3). Pure.

A continuation is what the language model answers when it reads one paragraph. It is judged for the paragraph's
relevance, for how far the paragraph supports it, and for its usefulness. A judgement is a number: from probabilities
where the model gives reflection tokens, from a verdict in words where it does not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

from crag_dspy.state.tunable import A_DAY, TIME_LIMIT, Rule, Tunable, flag, number, one_of
from crag_dspy.text.matching import normalize
from crag_dspy.text.replies import is_abstention

Retrieval = Literal["on_demand", "always", "never"]
Combine = Literal["best", "sum"]
Unsupported = Literal["abstain", "answer"]


@dataclasses.dataclass
class ReflectionSettings(Tunable):
    """How Self-RAG decides.

    Attributes:
        retrieval: "on_demand" lets the language model say whether a question needs retrieval; "always"; "never".
        retrieval_threshold: with reflection tokens, retrieve when the share of [Retrieval] against [No Retrieval] is
            above it, in [0, 1]; 0.2 is that of the official evaluation.
        w_relevance, w_support, w_usefulness: weights of the judgements, in [0, 10]; the paper's are 1, 1 and 0.5.
        w_sequence: weight of the continuation's own probability, the mean of its tokens'. Where there are no token
            probabilities it weighs nothing.
        combine: "best": the continuation of the highest weight wins. "sum": the weights of continuations that say the
            same add up, as in the official code for claims and choices.
        unsupported: "abstain": what no paragraph supports is not answered (the hard constraint of section 3.3);
            "answer": it is, and marked as not grounded.
        exhaustive: judge every passage in full and at the same time. False judges one after the other, and leaves out
            what could no longer win: the same answer for fewer calls. With "sum" it makes no difference.
        time_limit: seconds that a call of the language model may take before it counts as failed; 0: no limit.
    """

    RULES: ClassVar[Mapping[str, Rule]] = {
        "retrieval": one_of(*get_args(Retrieval)),
        "retrieval_threshold": number(0, 1),
        "w_relevance": number(0, 10),
        "w_support": number(0, 10),
        "w_usefulness": number(0, 10),
        "w_sequence": number(0, 10),
        "combine": one_of(*get_args(Combine)),
        "unsupported": one_of(*get_args(Unsupported)),
        "exhaustive": flag,
        "time_limit": number(0, A_DAY),
    }

    retrieval: Retrieval = "on_demand"
    retrieval_threshold: float = 0.2
    w_relevance: float = 1.0
    w_support: float = 1.0
    w_usefulness: float = 0.5
    w_sequence: float = 1.0
    combine: Combine = "best"
    unsupported: Unsupported = "abstain"
    exhaustive: bool = False
    time_limit: float = TIME_LIMIT


@dataclasses.dataclass(frozen=True, slots=True)
class Reflection:
    """One continuation and its judgements; None is a judgement that could not be had, which weighs nothing.

    Attributes:
        paragraph: which of the paragraphs was read, counted from 0.
        answer: the continuation, without tokens.
        relevance: in [0, 1]. support: in [0, 1], 1 fully, 0.5 partially. usefulness: in [-1, 1].
        supported: whether the paragraph supports it at all; None when unknown, which counts as no.
        sequence: the mean probability of its tokens, in [0, 1].
    """

    paragraph: int
    answer: str
    relevance: float | None = None
    support: float | None = None
    usefulness: float | None = None
    supported: bool | None = None
    sequence: float | None = None

    def score(self, settings: ReflectionSettings) -> float:
        """The weighted sum of section 3.3."""
        return (
            settings.w_relevance * (self.relevance or 0.0)
            + settings.w_support * (self.support or 0.0)
            + settings.w_usefulness * (self.usefulness or 0.0)
            + settings.w_sequence * (self.sequence or 0.0)
        )

    def bound(self, settings: ReflectionSettings) -> float:
        """The highest weight that it can still reach when the judgements that are None are made, all in words."""
        return (
            settings.w_relevance * (1.0 if self.relevance is None else self.relevance)
            + settings.w_support * (1.0 if self.support is None else self.support)
            + settings.w_usefulness * (1.0 if self.usefulness is None else self.usefulness)
        )

    def stands(self, settings: ReflectionSettings) -> bool:
        """Whether it may win: it says something, and is supported where that is asked for."""
        if not self.answer.strip() or is_abstention(self.answer):
            return False
        return settings.unsupported == "answer" or self.supported is True

    def to_json(self, settings: ReflectionSettings) -> dict[str, Any]:
        """Plain data, with the weight it got."""
        plain: dict[str, Any] = {"paragraph": self.paragraph, "answer": self.answer}
        for name in ("relevance", "support", "usefulness", "sequence"):
            value = getattr(self, name)
            plain[name] = None if value is None else round(value, 6)
        return {**plain, "supported": self.supported, "score": round(self.score(settings), 6)}


def winner(reflections: Sequence[Reflection], settings: ReflectionSettings) -> Reflection | None:
    """The continuation that is answered: the highest weight, the earlier of equals; None when none may win."""
    standing = [reflection for reflection in reflections if reflection.stands(settings)]
    if settings.combine == "sum":
        together: dict[str, float] = {}
        for each in standing:
            together[_same(each)] = together.get(_same(each), 0.0) + each.score(settings)
        highest = max(together.values(), default=0.0)
        said = next((text for text, weight in together.items() if weight == highest), None)
        standing = [each for each in standing if _same(each) == said]
    return max(standing, key=lambda each: each.score(settings), default=None)


def _same(reflection: Reflection) -> str:
    return normalize(reflection.answer) or reflection.answer.strip()
