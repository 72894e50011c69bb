"""What was decided for one question, and why: plain data for a machine, a tree for a person."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from crag_dspy.actions import Action, Thresholds
from crag_dspy.live.notes import Fault
from crag_dspy.passages import Passage, Strip
from crag_dspy.state.plain import Plain

if TYPE_CHECKING:
    from rich.tree import Tree

# Parts, as `Trace.faults` names them.
RETRIEVER, GRADER, SEARCH, MODEL = "retriever", "grader", "web search", "language model"
CHECK = "answer check"


@dataclass
class Trace(Plain):
    """The record of one question.

    Attributes:
        scores: one a passage, in [-1, 1]; None where the grader could not judge (or was down).
        forced: the action was given by the caller, not decided.
        kept, dropped: strips in evidence order, and the ones that refinement left out.
        evidence_score: of the best strip that refinement chose, in [-1, 1]; None where there is none, or none was
            judged.
        declined: the strips that would be kept, were that score not below the evidence threshold.
        confidence: how likely the evidence supports the answer, in [0, 1]; None where that was not judged.
        check: what it was judged by, and `why_not` where it was not.
        unsupported: the answer that was held back because the evidence does not support it; None where none was.
        reflections: of Self-RAG, what was answered from each passage and how it was judged.
        faults: the parts that did not work, each with the cause, such as {"web search": "SearchQuotaError: ..."}.
        failed: the same in one line where no answer could be given because of them; None where one was, or where
            everything worked and the evidence is not there.
        seconds: wall time by step; the two sides of an ambiguous question overlap.
        lm_calls, lm_tokens: language model calls that reached the model, and tokens by kind.
        before_answer: (calls, tokens) of these before there was evidence; a question that is declined takes no more.
    """

    SHOWN: ClassVar[str] = (
        "question answer action forced policy thresholds grader passages scores queries web_passages "
        "kept dropped evidence_score declined reflections cited confidence check unsupported warnings faults failed "
        "seconds lm_calls lm_tokens"
    )

    question: str
    thresholds: Thresholds
    policy: str
    grader: str = ""
    passages: list[Passage] = field(default_factory=list)
    scores: list[float | None] = field(default_factory=list)
    action: Action | None = None
    forced: bool = False
    queries: list[str] = field(default_factory=list)
    web_passages: list[Passage] = field(default_factory=list)
    kept: list[Strip] = field(default_factory=list)
    dropped: list[Strip] = field(default_factory=list)
    evidence_score: float | None = None
    declined: list[Strip] = field(default_factory=list)
    reflections: list[dict[str, Any]] = field(default_factory=list)
    answer: str | None = None
    cited: list[int] = field(default_factory=list)
    confidence: float | None = None
    check: dict[str, Any] = field(default_factory=dict)
    unsupported: str | None = None
    warnings: list[str] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)
    failed: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    lm_calls: int = 0
    lm_tokens: dict[str, int] = field(default_factory=dict)
    before_answer: tuple[int, int] = (0, 0)

    def warn(self, message: str) -> None:
        """Record a warning, once."""
        if message not in self.warnings:
            self.warnings.append(message)

    def fault(self, part: str, cause: str, consequence: str) -> None:
        """Record that a part did not work: the first cause of each, and a warning with what follows from it."""
        self.faults.setdefault(part, cause)
        self.warn(f"{consequence}: {cause}")

    def told(self, part: str) -> Callable[[str], None]:
        """What takes the notes of a part: each is a warning, and one that something failed is a fault too."""

        def take(message: str) -> None:
            self.warn(str(message))
            if isinstance(message, Fault):
                self.faults.setdefault(part, str(message))

        return take

    def learn(self, warnings: Iterable[str], faults: Mapping[str, str]) -> None:
        """Take over what a part of the work on this question recorded by itself."""
        for warning in warnings:
            self.warn(warning)
        self.faults = {**faults, **self.faults}

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time spent inside to the step's."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - start

    def add_usage(self, usage: Mapping[str, list[Mapping[str, Any]]]) -> None:
        """Add what `dspy.utils.usage_tracker` recorded: a list of entries a language model."""
        for entries in usage.values():
            self.lm_calls += len(entries)
            for entry in entries:
                for kind in ("prompt_tokens", "completion_tokens"):
                    if isinstance(entry.get(kind), (int, float)):
                        self.lm_tokens[kind] = self.lm_tokens.get(kind, 0) + int(entry[kind])

    def to_json(self) -> dict[str, Any]:
        """Plain data. Seconds are rounded to a tenth of a millisecond, scores to six digits."""
        shown = super().to_json()
        shown["scores"] = [None if score is None else round(score, 6) for score in self.scores]
        shown["seconds"] = {step: round(seconds, 4) for step, seconds in self.seconds.items()}
        if not self.reflections:
            del shown["reflections"]
        return shown

    toDict = to_json  # noqa: N815 - what `dspy.Prediction.toDict` asks of what it holds

    def tree(self, dropped: int = 5) -> Tree:
        """A rich tree: `rich.print(trace.tree())`. Shows at most `dropped` of the strips left out."""
        from crag_dspy.trace_tree import as_tree

        return as_tree(self.to_json(), dropped)
