"""`as_web_search`: whatever searches the web for a user today, as a `WebSearch`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import SearchResponseError
from crag_dspy.live.held import Held
from crag_dspy.live.notes import note
from crag_dspy.passages import TEXT_FIELDS, Passage, as_passages
from crag_dspy.retrievers.calling import CallShape, call_shape, finished, is_async
from crag_dspy.state.arguments import check_whole

if TYPE_CHECKING:
    from crag_dspy.contracts import WebSearch

ACCEPTED = (
    "None (no web search), a callable (query, max_results), an object with .search(query, max_results=...) "
    "such as a Tavily client, a LangChain search tool, or a LocalIndex"
)
LIMIT = "max_results"


def as_web_search(thing: Any) -> WebSearch | None:
    """Adapt `thing`. The result has `acall` where the thing can be awaited, and copies of it are the same
    object.

    Args:
        thing: None stays None. A web search of this library is itself. A `LocalIndex` plays the web
            (`IndexSearch`). A callable, an object with `.search`, or a LangChain tool with `.invoke` is
            called with the query, and with the number of results where its signature has a place for it.

    Results may be what Tavily returns, `{"results": [{"title", "url", "content", "raw_content"}]}`, or
    whatever `as_passages` reads; `raw_content`, the whole page, is preferred. Errors of the thing are its
    own.

    Raises:
        TypeError: naming the type, and what is accepted.
    """
    from crag_dspy.retrievers.local import LocalIndex
    from crag_dspy.websearch.index import IndexSearch

    if thing is None:
        return None
    if isinstance(thing, LocalIndex):
        return IndexSearch(thing)
    if isinstance(thing, Held) and callable(thing):
        return thing
    if not isinstance(thing, (str, bytes, type, list, tuple, Mapping)):
        if callable(thing):
            return _adapted(thing, thing)
        for name in ("search", "invoke"):
            if callable(getattr(thing, name, None)):
                return _adapted(thing, getattr(thing, name), invoked=name == "invoke")
    raise TypeError(f"cannot search the web with {type(thing).__name__}: expected {ACCEPTED}")


class AdaptedSearch(Held):
    """A search function with the shape of its calls. `source` is what the user gave."""

    def __init__(self, source: Any, search: Callable[..., Any], shape: CallShape) -> None:
        self.source = source
        self._search = search
        self._shape = shape

    def __call__(self, query: str, max_results: int) -> list[Passage]:
        check_whole(LIMIT, max_results)
        positional, keywords = self._shape.arguments(query, max_results)
        return read_results(finished(self._search(*positional, **keywords)))[:max_results]

    def __repr__(self) -> str:
        return f"as_web_search({self.source!r})"


class AdaptedAsyncSearch(AdaptedSearch):
    """The same for a search that can be awaited."""

    async def acall(self, query: str, max_results: int) -> list[Passage]:
        check_whole(LIMIT, max_results)
        positional, keywords = self._shape.arguments(query, max_results)
        return read_results(await self._search(*positional, **keywords))[:max_results]


def read_results(reply: Any) -> list[Passage]:
    """The pages of a search reply, in its order, without empty ones. Raises SearchResponseError."""
    items = reply.get("results") if isinstance(reply, Mapping) and "results" in reply else reply
    if items is None:
        return []
    if isinstance(items, Sequence) and not isinstance(items, str):
        items = [_page(item) if isinstance(item, Mapping) else item for item in items]
    try:
        return as_passages(items, note)
    except TypeError as error:
        raise SearchResponseError(f"the web search returned something else than pages: {error}") from error


def _page(item: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("raw_content", *TEXT_FIELDS, "snippet"):
        text = item.get(name)
        if isinstance(text, str) and text.strip():
            return {**item, "text": text}
    # A page without any text is no evidence, and no error either.
    return {**item, "text": ""} if {"url", "link", "href"} & set(item) else item


def _adapted(source: Any, search: Callable[..., Any], invoked: bool = False) -> AdaptedSearch:
    # A LangChain tool takes its query alone; `invoke`'s own keywords are the run's.
    shape = CallShape(query=None, limit="") if invoked else call_shape(search, LIMIT)
    return (AdaptedAsyncSearch if is_async(search) else AdaptedSearch)(source, search, shape)
