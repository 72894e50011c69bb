"""How to call a search function that somebody else wrote: read off its signature, never found out by trying.

Trying and catching TypeError would hide the function's own errors, and call it twice.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What "how many results" is called, in the order in which it is looked for.
LIMIT_NAMES = (
    "k",
    "top_k",
    "max_results",
    "limit",
    "n_results",
    "num_results",
    "similarity_top_k",
    "topk",
    "top_n",
    "n",
    "size",
    "count",
)
QUERY_NAMES = ("query", "question", "q", "text", "input", "search_query", "query_text")


@dataclass(frozen=True, slots=True)
class CallShape:
    """Where the query and the limit go: positional (None), by keyword, or nowhere ("", the limit only)."""

    query: str | None
    limit: str | None

    def arguments(self, query: str, limit: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and the keyword arguments of one call."""
        positional: list[Any] = [query] if self.query is None else []
        keywords: dict[str, Any] = {} if self.query is None else {self.query: query}
        if self.limit is None:
            positional.append(limit)
        elif self.limit:
            keywords[self.limit] = limit
        return tuple(positional), keywords


def call_shape(function: Callable[..., Any], limit: str = "k") -> CallShape:
    """How to call `function` with a query and a limit.

    The first parameter, or the keyword-only one named like a query, is the query. The limit is the parameter
    with a usual name (`LIMIT_NAMES`), or the only other one that has no default, or `limit` where any keyword
    is taken. A function without any is given the query alone.

    Raises:
        TypeError: the signature cannot be read, takes no query, or wants something else.
    """
    parameters = _parameters(function)
    positional = [
        p for p in parameters if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    keyword_only = [p for p in parameters if p.kind is Parameter.KEYWORD_ONLY]
    takes_args = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
    takes_kwargs = any(p.kind is Parameter.VAR_KEYWORD for p in parameters)

    query_keyword: str | None = None
    if positional:
        others = [*positional[1:], *keyword_only]
    elif takes_args:
        others = keyword_only
    else:
        named = next((p for p in keyword_only if p.name in QUERY_NAMES), None)
        if named is None:
            raise TypeError(f"{_named(function)} takes no query: its signature must begin with (query)")
        query_keyword = named.name
        others = [p for p in keyword_only if p is not named]

    required = [p for p in others if p.default is Parameter.empty]
    usual = {p.name: p for p in others if p.name in LIMIT_NAMES}
    chosen = next((usual[name] for name in LIMIT_NAMES if name in usual), None)
    if chosen is None and len(required) == 1:
        chosen = required[0]
    missing = [p.name for p in required if p is not chosen]
    if missing:
        raise TypeError(
            f"{_named(function)} wants {', '.join(missing)} besides a query: "
            f"wrap it, for example as lambda query, k: ...({', '.join(['query', *missing])})"
        )
    if chosen is None:
        return CallShape(query_keyword, _open_limit(positional, takes_args, takes_kwargs, limit))
    if chosen.kind is Parameter.POSITIONAL_ONLY:
        if positional.index(chosen) != 1:
            raise TypeError(f"{_named(function)}: {chosen.name} must be its second parameter, or have a name")
        return CallShape(query_keyword, None)
    return CallShape(query_keyword, chosen.name)


def is_async(function: Any) -> bool:
    """Whether calling `function` gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 (not whether it is callable, but how)
    )


def finished(result: Any) -> Any:
    """`result`, awaited when it can be, from synchronous code: also inside a running event loop."""
    if not inspect.isawaitable(result):
        return result

    async def wait() -> Any:
        return await result

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as thread:  # a loop cannot wait for itself
        return thread.submit(contextvars.copy_context().run, asyncio.run, wait()).result()


def _open_limit(positional: list[Parameter], takes_args: bool, takes_kwargs: bool, limit: str) -> str | None:
    if takes_kwargs:
        return limit
    return None if takes_args and len(positional) <= 1 else ""


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    parameters = _signature(function)
    anything = all(p.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) for p in parameters.values())
    # `dspy.Module` and `dspy.Retrieve` pass anything on to `forward`, which knows.
    if anything and has_forward(function):
        parameters = _signature(object.__getattribute__(function, "forward"))
    return list(parameters.values())


def has_forward(thing: Any) -> bool:
    """Whether `thing` is a module in the way of DSPy's; asked so that DSPy does not warn of a direct call."""
    return inspect.getattr_static(thing, "forward", None) is not None


def _signature(function: Callable[..., Any]) -> Mapping[str, Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError as error:
        raise TypeError(
            f"the signature of {_named(function)} cannot be read: wrap it, for example in lambda query: ..."
        ) from error


def _named(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
