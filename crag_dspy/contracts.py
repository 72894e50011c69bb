"""The four parts a program is made of. Anything that fits is accepted; nothing needs to inherit.

Each contract states what it promises when things go wrong, because that is where RAG systems differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_dspy.actions import Thresholds
    from crag_dspy.passages import Passage
    from crag_dspy.read_once.asking import Judged, ToJudge
    from crag_dspy.read_once.vectors import PassageVectors


@runtime_checkable
class Retriever(Protocol):
    """Finds passages. May raise: inside a question that is a warning and no passage.

    `as_retriever` adapts what users already have: callables, `dspy.Retrieve`, LangChain retrievers, vector stores.
    """

    def __call__(self, query: str, k: int) -> list[Passage]:
        """The best `k` passages for `query`, best first; fewer, or none, when there are no more."""
        ...


@runtime_checkable
class Grader(Protocol):
    """Scores how relevant texts are to a question.

    `name` and `fingerprint` identify it: thresholds mean something on the scale of one grader only. `as_grader` makes
    one of an object with `score` alone, and of a function. What a grader may also have: `TunedGrader`, `PairsGrader`,
    `CutGrader`, `ReadingGrader`.
    """

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        """One score a text, same length and order, each in [-1, 1], never NaN.

        None means that this text could not be judged (unknown script, unreadable verdict). Raises `GraderError`
        only when nothing can be judged; inside a question that is a warning and the action AMBIGUOUS.
        """
        ...


@runtime_checkable
class TunedGrader(Protocol):
    """A grader that comes with thresholds of its own: the defaults of programs that use it."""

    @property
    def thresholds(self) -> Thresholds | None: ...


@runtime_checkable
class PairsGrader(Protocol):
    """A grader that scores pairs of many questions together: faster where many are graded, as in benchmarks."""

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """One score a (question, text), as `Grader.score` gives."""
        ...


@runtime_checkable
class CutGrader(Protocol):
    """A grader with a cut of its own between relevant and not, where another than 0 is meant: for benchmarks."""

    @property
    def cut(self) -> float: ...


@runtime_checkable
class ReadingGrader(Protocol):
    """A grader that encodes a passage once, and grades it and its strips from that (see `read_once`)."""

    @property
    def reads_once(self) -> bool:
        """Whether it does: one class may hold models that can and models that cannot."""
        ...

    @property
    def evidence_threshold(self) -> float | None:
        """Suggested for `Settings.evidence_threshold`, on the scale of `judge`; None suggests nothing."""
        ...

    def read(self, passages: Sequence[tuple[str, str]]) -> list[PassageVectors]:
        """(title, text) of each passage to its vectors, in order, each with `maker`, this grader's fingerprint."""
        ...

    def judge(self, question: str, passages: Sequence[ToJudge]) -> list[Judged]:
        """A score for each passage and for each of its strips, as `Grader.score` gives."""
        ...


@runtime_checkable
class WebSearch(Protocol):
    """Searches the web. Raises `SearchError`; inside a question that is a warning and no web evidence.

    Objects with `.search(query, max_results=...)` are adapted by `as_web_search`.
    """

    def __call__(self, query: str, max_results: int) -> list[Passage]:
        """At most `max_results` pages, each with a `url`."""
        ...


@runtime_checkable
class Generator(Protocol):
    """Any `dspy.Module` that takes `context=` and `question=` and returns a prediction with `answer`."""

    def __call__(self, *, context: str, question: str) -> Any: ...
