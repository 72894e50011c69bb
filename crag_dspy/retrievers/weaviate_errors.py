"""What can go wrong between a retriever and Weaviate, in words that say what to change."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from crag_dspy.errors import RetrieverError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crag_dspy.live.secret import Secret

T = TypeVar("T")

SAID_CHARS = 500
# What a cluster says, under an error of no telling kind, while a node restarts.
PASSING = ("no read replica found", "connection refused", "leader not found", "channel closed")

_log = logging.getLogger(__name__)


class StartingError(RetrieverError):
    """The server, or its gRPC interface, does not answer yet, or is elsewhere: another try may find it."""


def explained(error: BaseException, place: str, key: Secret, has_tenant: bool) -> RetrieverError:
    """The typed error for what the client raised, without the key that the request held.

    Args:
        place: the Weaviate and the collection that were asked.
        has_tenant: whether they were asked for one tenant.
    """
    if isinstance(error, RetrieverError):
        return error
    said = " ".join(key.removed_from(str(error)).split())
    # Without the traceback, whose messages hold the key when the server repeats it.
    _log.debug("%s failed: %s: %s", place, type(error).__name__, said)
    return RetrieverError(f"{place} failed: {said[:SAID_CHARS]}{_hint(said, has_tenant)}")


def failures() -> tuple[type[BaseException], ...]:
    """What a request can raise: the client's own errors, and those of the libraries below it."""
    import grpc
    import httpx
    import weaviate

    own = weaviate.exceptions.WeaviateBaseError
    return (RetrieverError, own, grpc.RpcError, httpx.HTTPError, OSError)


def is_passing(error: BaseException) -> bool:
    """A failure that another try may not meet: no connection, or a node that is overloaded or changing."""
    import httpx
    import weaviate.exceptions as exceptions

    if is_too_large(error):
        return False
    gone = (
        exceptions.WeaviateConnectionError,
        exceptions.WeaviateStartUpError,
        StartingError,
        exceptions.WeaviateRetryError,  # the client's own tries, for a node that is away
        exceptions.WeaviateClosedClientError,  # closed by another thread: the next try connects again
    )
    if isinstance(error, gone) or any(words in str(error).lower() for words in PASSING):
        return True
    if isinstance(error, exceptions.UnexpectedStatusCodeError):
        return error.status_code in (429, 500, 502, 503, 504)
    codes = ("ABORTED", "RESOURCE_EXHAUSTED", "UNAVAILABLE")
    return isinstance(error, httpx.TransportError) or grpc_code(error) in codes


def is_too_large(error: BaseException) -> bool:
    """A message above what the client sends, the server takes, or the client reads: the same again cannot help."""
    said = str(error).lower()
    return "message larger than max" in said or "received message exceeds" in said


def grpc_code(error: BaseException | None) -> str:
    """The gRPC status under the client's error, which keeps only its text; "" when there is none."""
    while error is not None:
        code = getattr(error, "code", None)
        if callable(code):
            return str(getattr(code(), "name", ""))
        error = error.__cause__ or error.__context__
    return ""


def too_late(seconds: float) -> str:
    return (
        f"Weaviate gave no answer within {seconds:g} s: check that it is up and that grpc_port is its gRPC port, or "
        f"raise timeout="
    )


def _hint(said: str, has_tenant: bool) -> str:
    lower = said.lower()
    if "forbidden" in lower or "permission" in lower:
        return " (the key may not do this: give it the permission, or use another key)"
    if "replica" in lower and ("nodes for replication" in lower or "not enough" in lower):
        return " (there are fewer nodes than replicas=: ask for fewer)"
    if "tenant not active" in lower or "tenant is not active" in lower or "not hot" in lower:
        return " (the tenant is there and not active: activate it, tenants.activate([...]) of the collection)"
    if "multi-tenancy" in lower or "tenant" in lower:
        return " (check the tenant's name)" if has_tenant else " (this collection has tenants: pass tenant=)"
    missing = any(words in lower for words in ("not find", "not found", "no such", "does not exist"))
    if missing and ("no such prop" in lower or "property" in lower):
        return " (name its properties: text_property=, title_property=, url_property=, metadata=)"
    if missing and ("class" in lower or "collection" in lower):
        return (
            " (check the collection's name, and that the server has started; create_collection makes one, "
            "import_passages fills it)"
        )
    if "vectoriz" in lower:
        return " (the server has no vectorizer for this collection: pass embedder=)"
    if "tokeniz" in lower:
        return " (start the server with the variable that it names, or give another tokenization)"
    if "code: 401" in lower or "unauthenticated" in lower or "anonymous access not enabled" in lower:
        return " (set WEAVIATE_API_KEY or pass key=)"
    if "connect to weaviate" in lower or "connection to weaviate failed" in lower:
        return " (check that it is up, and its url and grpc_port)"
    return ""


def in_a_thread(call: Callable[[], T]) -> Future[T]:
    """Run `call` in a thread of its own, which can be given up.

    The client retries an unreachable node by itself, for a minute and without a setting: a question must not
    wait for that, and neither must the program's end. The thread ends with the client's last try.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # it cannot be cancelled, only left alone

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is waited for
            outcome.set_exception(error)

    Thread(target=run, name="weaviate-search", daemon=True).start()
    return outcome
