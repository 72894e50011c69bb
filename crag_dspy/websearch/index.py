"""`IndexSearch`: an index that plays the web, for offline work, tests and repeatable evaluations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from crag_dspy.live.held import Held
from crag_dspy.state.arguments import check_whole

if TYPE_CHECKING:
    from crag_dspy.passages import Passage


class IndexSearch(Held):
    """A web search over passages that are at hand.

    Args:
        index: a `LocalIndex`, the folder of one, or anything that `as_retriever` takes.

    Each result has a url: the passage's own, or `index:` and its id, so that a citation names the same thing
    every time. `score` is the retriever's.
    """

    def __init__(self, index: Any) -> None:
        from crag_dspy.retrievers import LocalIndex, as_retriever

        self.index = LocalIndex.open(index) if isinstance(index, (str, Path)) else as_retriever(index)

    def __call__(self, query: str, max_results: int) -> list[Passage]:
        check_whole("max_results", max_results)
        return [_with_url(passage) for passage in self.index(query, max_results)]

    def __repr__(self) -> str:
        return f"IndexSearch({self.index!r})"


def _with_url(passage: Passage) -> Passage:
    if passage.url:
        return passage
    name = passage.id or passage.title or passage.text[:40]
    return replace(passage, url=f"index:{quote(name, safe='')}")
