import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from crag_dspy.retrievers.calling import call_shape, finished, is_async


def record(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


def only_query(query):  # type: ignore[no-untyped-def]
    return record(query)


def with_default(query, k=3):  # type: ignore[no-untyped-def]
    return record(query, k=k)


def keyword_only(question, *, top_k):  # type: ignore[no-untyped-def]
    return record(question, top_k=top_k)


def all_keyword(*, query, limit=5):  # type: ignore[no-untyped-def]
    return record(query=query, limit=limit)


def positional_only(query, k, /):  # type: ignore[no-untyped-def]
    return record(query, k)


def unusual_name(query, how_many):  # type: ignore[no-untyped-def]
    return record(query, how_many=how_many)


def with_filter(query, filters=None, n_results=10):  # type: ignore[no-untyped-def]
    return record(query, filters=filters, n_results=n_results)


def any_keyword(query, **kwargs):  # type: ignore[no-untyped-def]
    return record(query, **kwargs)


def any_argument(*args):  # type: ignore[no-untyped-def]
    return record(*args)


@pytest.mark.parametrize(
    ("function", "received"),
    [
        (only_query, (("q",), {})),
        (with_default, (("q",), {"k": 7})),
        (keyword_only, (("q",), {"top_k": 7})),
        (all_keyword, ((), {"query": "q", "limit": 7})),
        (positional_only, (("q", 7), {})),
        (unusual_name, (("q",), {"how_many": 7})),
        (with_filter, (("q",), {"filters": None, "n_results": 7})),
        (any_keyword, (("q",), {"k": 7})),
        (any_argument, (("q", 7), {})),
        (record, (("q",), {"k": 7})),
        (
            functools.partial(with_filter, filters={"lang": "zh"}),
            (("q",), {"filters": {"lang": "zh"}, "n_results": 7}),
        ),
        (functools.wraps(with_default)(lambda *args, **kwargs: record(*args, **kwargs)), (("q",), {"k": 7})),
    ],
)
def test_the_limit_goes_where_the_signature_has_a_place_for_it(
    function: Callable[..., Any], received: tuple[tuple[Any, ...], dict[str, Any]]
) -> None:
    positional, keywords = call_shape(function).arguments("q", 7)
    assert function(*positional, **keywords) == received


def test_the_limit_of_a_function_that_takes_any_keyword_can_be_named() -> None:
    assert call_shape(any_keyword, "max_results").arguments("q", 7) == (("q",), {"max_results": 7})


def no_query():  # type: ignore[no-untyped-def]
    return []


def needs_more(query, tenant, region):  # type: ignore[no-untyped-def]
    return []


def needs_more_and_k(query, k, tenant):  # type: ignore[no-untyped-def]
    return []


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_query, "no_query takes no query"),
        (needs_more, "tenant, region"),
        (needs_more_and_k, "wants tenant"),
    ],
)
def test_a_function_that_wants_something_else_is_refused_by_name(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        call_shape(function)


def test_the_error_of_a_function_is_its_own_and_it_is_called_once() -> None:
    calls = []

    def broken(query, k):  # type: ignore[no-untyped-def]
        calls.append(query)
        raise TypeError("inside")

    positional, keywords = call_shape(broken).arguments("q", 7)
    with pytest.raises(TypeError, match="inside"):
        broken(*positional, **keywords)
    assert calls == ["q"]


class AsyncCall:
    async def __call__(self, query: str) -> str:
        return query


async def coroutine(query: str) -> str:
    await asyncio.sleep(0)
    return query


def test_async_is_seen_on_functions_partials_and_callable_objects() -> None:
    assert is_async(coroutine)
    assert is_async(functools.partial(coroutine, "q"))
    assert is_async(AsyncCall())
    assert not is_async(only_query)


def test_a_coroutine_is_finished_with_and_without_a_running_loop() -> None:
    assert finished("plain") == "plain"
    assert finished(coroutine("outside")) == "outside"

    async def inside() -> Any:
        return finished(coroutine("inside"))

    assert asyncio.run(inside()) == "inside"
