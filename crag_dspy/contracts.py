"""The four parts a program is made of. Anything that fits is accepted; nothing needs to inherit.

Each contract states what it promises when things go wrong, because that is where RAG systems differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from crag_dspy.passages import Passage


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

    `name` and `fingerprint` identify it: thresholds mean something on the scale of one grader only.
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
