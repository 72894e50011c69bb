"""`as_retriever`: whatever finds passages for a user today, as a `Retriever`."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import RetrieverError
from crag_dspy.live.held import Held
from crag_dspy.live.notes import note
from crag_dspy.passages import Passage, as_passages
from crag_dspy.retrievers.calling import CallShape, call_shape, finished, has_forward, is_async
from crag_dspy.state.arguments import check_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crag_dspy.contracts import Retriever

ACCEPTED = (
    "None (dspy.settings.rm), a callable (query) or (query, k), a dspy.Retrieve, rm or Embeddings, "
    "a LangChain retriever or vector store, a LlamaIndex retriever, an object with .search, or a list of "
    "passages"
)


def as_retriever(thing: Any = None) -> Retriever:
    """Adapt `thing`. The result has `acall` where the thing can be awaited, and copies of it are the same
    object.

    Args:
        thing:
            - None: `dspy.settings.rm`, looked up at each call, as `dspy.Retrieve` does.
            - a retriever of this library: itself.
            - a callable (a function, an rm, `dspy.Retrieve`, `dspy.Embeddings`, a `dspy.Module`, sync or
              async): called with the query, and with k where its signature has a place for it (`call_shape`).
              A module is held, not owned: its predictors are not part of the program that retrieves with it.
            - a LangChain vector store (with scores where it has them) or retriever; a LlamaIndex retriever;
              an object with `.search(query, k)`.
            - a list or tuple of str, dicts, Passages or documents: a small corpus in memory, ranked by BM25
              on every call; passages without a word of the query are not found. Build a `LocalIndex` for
              thousands.

    Results are read by `as_passages` and cut to k; errors of the thing are its own.

    Raises:
        TypeError: naming the type, and what is accepted.
    """
    if thing is None:
        return ConfiguredRetriever()
    if isinstance(thing, Held) and callable(thing):
        return thing
    if isinstance(thing, (list, tuple)):
        return ListRetriever(thing)
    if isinstance(thing, (str, bytes, type)):
        shown = (
            f"the class {thing.__name__}"
            if isinstance(thing, type)
            else f"the {type(thing).__name__} {thing!r}"
        )
        raise TypeError(
            f"cannot retrieve with {shown}: expected {ACCEPTED} (an index on disk: LocalIndex.open(path))"
        )
    if callable(thing):
        return _callable(thing)
    if callable(getattr(thing, "similarity_search", None)):
        return _vector_store(thing)
    if callable(getattr(thing, "invoke", None)):
        return _runnable(thing)
    if callable(getattr(thing, "retrieve", None)):
        return _llama_index(thing)
    if callable(getattr(thing, "search", None)):
        return _adapted(thing, thing.search, getattr(thing, "asearch", None))
    raise TypeError(f"cannot retrieve with {type(thing).__name__}: expected {ACCEPTED}")


class Adapted(Held):
    """A search function with the shape of its calls. `source` is what the user gave."""

    def __init__(self, source: Any, search: Callable[..., Any], shape: CallShape) -> None:
        self.source = source
        self._search = search
        self._shape = shape

    def __call__(self, query: str, k: int) -> list[Passage]:
        check_whole("k", k)
        positional, keywords = self._shape.arguments(query, k)
        return as_passages(finished(self._search(*positional, **keywords)), note)[:k]

    def __repr__(self) -> str:
        return f"as_retriever({self.source!r})"


class AdaptedAsync(Adapted):
    """The same for a thing that can be awaited."""

    def __init__(
        self,
        source: Any,
        search: Callable[..., Any],
        shape: CallShape,
        asearch: Callable[..., Any],
        ashape: CallShape,
    ) -> None:
        super().__init__(source, search, shape)
        self._asearch = asearch
        self._ashape = ashape

    async def acall(self, query: str, k: int) -> list[Passage]:
        check_whole("k", k)
        positional, keywords = self._ashape.arguments(query, k)
        return as_passages(await self._asearch(*positional, **keywords), note)[:k]


class ListRetriever(Held):
    """A small corpus in memory, ranked by BM25. Passages keep everything but their score, which is BM25's."""

    def __init__(self, passages: Sequence[Any]) -> None:
        self.passages = as_passages(list(passages))
        from crag_dspy.retrievers.bm25 import BM25  # numpy is loaded by who needs it

        self._ranking = BM25([f"{passage.title}\n{passage.text}" for passage in self.passages])

    def __call__(self, query: str, k: int) -> list[Passage]:
        check_whole("k", k)
        found = ((self.passages[number], score) for number, score in self._ranking.top(query, k))
        return [Passage(p.text, p.id, p.title, p.url, score, p.metadata) for p, score in found]

    def __repr__(self) -> str:
        return f"ListRetriever({len(self.passages)} passages)"


# The rms that are being asked: an rm which itself retrieves with `dspy.settings.rm` would ask for ever.
_asking: contextvars.ContextVar[tuple[int, ...]] = contextvars.ContextVar("crag_dspy_asking_rm", default=())


class ConfiguredRetriever(Held):
    """`dspy.settings.rm`, whatever it is when a question is asked."""

    def __call__(self, query: str, k: int) -> list[Passage]:
        check_whole("k", k)
        rm = _configured()
        token = _asking.set((*_asking.get(), id(rm)))
        try:
            return as_retriever(rm)(query, k)
        finally:
            _asking.reset(token)

    async def acall(self, query: str, k: int) -> list[Passage]:
        check_whole("k", k)
        rm = _configured()
        retriever = as_retriever(rm)
        token = _asking.set((*_asking.get(), id(rm)))
        try:
            if hasattr(retriever, "acall"):
                found: list[Passage] = await retriever.acall(query, k)
                return found
            return await asyncio.to_thread(retriever, query, k)
        finally:
            _asking.reset(token)

    def __repr__(self) -> str:
        return "as_retriever(None)"


def _configured() -> Any:
    import dspy

    rm = dspy.settings.rm
    if rm is None:
        raise RetrieverError("no retriever: pass retrieve=..., or set one with dspy.configure(rm=...)")
    if id(rm) in _asking.get():
        raise RetrieverError(
            f"dspy.settings.rm ({type(rm).__name__}) retrieves with dspy.settings.rm, which is itself: "
            f"pass it a retriever with retrieve=..."
        )
    return rm


def _adapted(source: Any, search: Callable[..., Any], asearch: Callable[..., Any] | None = None) -> Adapted:
    shape = call_shape(search)
    if asearch is None:
        return Adapted(source, search, shape)
    return AdaptedAsync(source, search, shape, asearch, call_shape(asearch))


def _callable(thing: Any) -> Adapted:
    if is_async(thing):
        return _adapted(thing, thing, thing)
    acall: Any = getattr(thing, "acall", None)
    if not is_async(acall):
        return _adapted(thing, thing)
    if not has_forward(thing):
        return _adapted(thing, thing, acall)
    # Every dspy.Module has an `acall`, which works where there is an `aforward`.
    if not hasattr(thing, "aforward"):
        return _adapted(thing, thing)
    return AdaptedAsync(thing, thing, call_shape(thing), acall, call_shape(thing.aforward))


def _vector_store(store: Any) -> Adapted:
    scored = "similarity_search_with_score"
    # LangChain's base class has it too, and raises NotImplementedError.
    if callable(getattr(store, scored, None)) and not _is_from(
        store, scored, "langchain_core.vectorstores.base"
    ):
        name = scored
    else:
        name = "similarity_search"
    return _adapted(store, getattr(store, name), getattr(store, f"a{name}", None))


def _runnable(runnable: Any) -> Adapted:
    """LangChain's `invoke` hands k on to a retriever that wants it; in a chain, k would reach every step."""
    inner = getattr(runnable, "_get_relevant_documents", None)
    takes_k = inner is not None and any(
        p.kind is p.VAR_KEYWORD or p.name == "k" for p in inspect.signature(inner).parameters.values()
    )
    shape = CallShape(query=None, limit="k" if takes_k else "")
    ainvoke = getattr(runnable, "ainvoke", None)
    if ainvoke is None:
        return Adapted(runnable, runnable.invoke, shape)
    return AdaptedAsync(runnable, runnable.invoke, shape, ainvoke, shape)


def _llama_index(retriever: Any) -> Adapted:
    # Where nobody wrote `_aretrieve`, LlamaIndex runs the synchronous one inside the event loop.
    blocking = _is_from(retriever, "_aretrieve", "llama_index.core.base.base_retriever")
    aretrieve = None if blocking else getattr(retriever, "aretrieve", None)
    return _adapted(retriever, retriever.retrieve, aretrieve)


def _is_from(thing: Any, name: str, module: str) -> bool:
    """Whether the method `name` of `thing` is the one that a class of `module` defines."""
    owner = next((owner for owner in type(thing).__mro__ if name in vars(owner)), None)
    return owner is not None and owner.__module__ == module
