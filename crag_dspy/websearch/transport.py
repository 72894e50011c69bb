"""What every reply of a search service passes before anything parses it.

A redirect is refused, because the query and its key are meant for the configured address only; the body is
bounded in bytes and in time; and a status becomes a typed error. The same rules guard a `requests` session
(`guard_session`) and an `httpx` client (`reply_guard`), which is what search libraries are built on.
"""

from __future__ import annotations

import io
import json
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import (
    SearchAuthError,
    SearchError,
    SearchQuotaError,
    SearchRequestError,
    SearchResponseError,
    SearchServerError,
    SearchTimeoutError,
)

if TYPE_CHECKING:
    import httpx
    import requests

# Twenty long pages are about 2 MB; a reply of five times that is a fault or an attack.
MAX_BYTES = 10_000_000
# Enough of an error's body to say what the service complains about.
ERROR_BYTES = 20_000
DETAIL_CHARS = 300
# What is asked for; one library of the two would also take encodings of which some expand without bound.
ENCODING = "gzip"
# As many as threads that may search at once.
KEPT_CONNECTIONS = 32


def guard_session(session: requests.Session, max_bytes: int = MAX_BYTES) -> requests.Session:
    """Make every reply of `session` keep the rules above; returns the session.

    Its requests then raise `SearchError`s, and their `timeout` bounds the whole reply rather than each step.
    """
    from requests.adapters import HTTPAdapter
    from urllib3 import Timeout

    class Bounded(HTTPAdapter):
        def send(
            self,
            request: Any,
            stream: bool = False,
            timeout: Any = None,
            verify: Any = True,
            cert: Any = None,
            proxies: Any = None,
        ) -> Any:
            if isinstance(timeout, (int, float)):
                timeout = Timeout(total=timeout)
            return super().send(request, stream, timeout, verify, cert, proxies)

    def check(response: requests.Response, **sent: Any) -> requests.Response:
        timeout = sent.get("timeout")
        left = timeout - response.elapsed.total_seconds() if isinstance(timeout, (int, float)) else None
        try:
            limit = _limit(response.status_code, max_bytes)
            decoded = Decoding(response.headers.get("content-encoding"), limit)
            body = _joined(map(decoded.of, _chunks(response.raw, left)), limit) + decoded.end()
        finally:
            response.raw.close()  # a reply that was read whole has given its connection back already
        _raise_for(response.status_code, response.headers, body)
        response.headers.pop("content-encoding", None)
        response.raw = io.BytesIO(body)
        return response

    session.headers["Accept-Encoding"] = ENCODING
    session.hooks["response"].append(check)
    for scheme in ("http://", "https://"):
        session.mount(scheme, Bounded(pool_maxsize=KEPT_CONNECTIONS))
    return session


def reply_guard(max_bytes: int = MAX_BYTES) -> Callable[[httpx.Response], Awaitable[None]]:
    """A response hook for `httpx.AsyncClient(event_hooks={"response": [...]})` that keeps the rules above.

    The time is bounded by whoever awaits the request (`asyncio.timeout`), which can cancel it at any point.
    """

    async def check(response: httpx.Response) -> None:
        import httpx

        limit, body = _limit(response.status_code, max_bytes), bytearray()
        decoded = Decoding(response.headers.get("content-encoding"), limit)
        stream: Any = response.stream  # as it came: httpx would decode a piece of it to whatever size it has
        try:
            async for chunk in stream:
                body += decoded.of(chunk)
                _check_size(body, limit)
        except httpx.RemoteProtocolError:
            raise SearchResponseError(_ENDED_EARLY) from None
        finally:
            await stream.aclose()
        body += decoded.end()
        _raise_for(response.status_code, response.headers, bytes(body))
        response.headers.pop("content-encoding", None)
        response.stream = httpx.ByteStream(bytes(body))

    return check


_ENDED_EARLY = "The search service's reply ended before its announced length."
_UNDECODABLE = "The search service's reply could not be decompressed."


def _chunks(raw: Any, left: float | None) -> Iterable[bytes]:
    from urllib3.exceptions import ProtocolError, ReadTimeoutError

    deadline = None if left is None else time.monotonic() + left
    # One read a call (`read1`), or a service that drips a byte a second would never meet the deadline.
    read = getattr(raw, "read1", raw.read)
    try:
        while chunk := read(65_536, decode_content=False):
            yield chunk
            if deadline is not None and time.monotonic() > deadline:
                raise SearchTimeoutError("The search service's reply did not end within the timeout.")
    except ReadTimeoutError:
        raise SearchTimeoutError("The search service stopped in the middle of its reply.") from None
    except ProtocolError:
        raise SearchResponseError(_ENDED_EARLY) from None


class Decoding:
    """A body decoded piece by piece, never to more than a limit: a few hundred bytes may stand for gigabytes.

    Args:
        encoding: the reply's Content-Encoding: none, or gzip or deflate once. Others were not asked for.
        limit: bytes after which what follows is not decoded.

    Raises:
        SearchResponseError: another encoding, or several on top of each other.
    """

    def __init__(self, encoding: str | None, limit: int) -> None:
        name = (encoding or "identity").strip().lower()
        if name not in ("identity", "gzip", "x-gzip", "deflate"):
            raise SearchResponseError(
                f"The search service's reply is encoded as {name[:40]!r}, not as {ENCODING}."
            )
        self._limit = limit
        self._begun = False
        # 32 more than the largest window: zlib tells gzip from zlib's own format by itself.
        self._zlib = None if name == "identity" else zlib.decompressobj(zlib.MAX_WBITS | 32)

    def of(self, chunk: bytes) -> bytes:
        """What a piece stands for, one byte more than the limit at most."""
        if self._zlib is None:
            return chunk
        self._begun = True
        if self._zlib.eof:  # what follows the end is nobody's
            return b""
        try:
            return self._zlib.decompress(chunk, self._limit + 1)
        except zlib.error:
            raise SearchResponseError(_UNDECODABLE) from None

    def end(self) -> bytes:
        """Nothing, when the body was whole."""
        if self._zlib is not None and self._begun and not self._zlib.eof:
            raise SearchResponseError(_UNDECODABLE)
        return b""


def _joined(chunks: Iterable[bytes], limit: int) -> bytes:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        _check_size(body, limit)
    return bytes(body)


def _limit(status: int, max_bytes: int) -> int:
    return max_bytes if status == 200 else min(max_bytes, ERROR_BYTES)


def _check_size(body: bytearray, limit: int) -> None:
    if len(body) > limit:
        raise SearchResponseError(
            f"The search service's reply is larger than {limit} bytes and was not read."
        )


def _raise_for(status: int, headers: Mapping[str, str], body: bytes) -> None:
    if status == 200:
        return
    if status < 300:
        raise SearchResponseError(f"The search service answered HTTP {status} instead of 200 and results.")
    if status < 400:
        raise SearchResponseError(
            f"The search service redirects (HTTP {status}) and was not followed: set base_url to its address."
        )
    said = _detail(body)
    wait = parse_retry_after(headers.get("retry-after"))
    if status in (401, 403):
        raise SearchAuthError(
            f"The search service refused the key (HTTP {status}): check TAVILY_API_KEY.{said}"
        )
    if status in (429, 432, 433):
        asked = "" if wait is None else f" It asks to wait {wait:g} s."
        raise SearchQuotaError(
            f"Rate limit or quota of the search service (HTTP {status}).{asked}{said}", wait
        )
    if status >= 500:
        raise SearchServerError(f"The search service failed (HTTP {status}).{said}", wait)
    raise SearchRequestError(f"The search service refused the request (HTTP {status}).{said}")


def _detail(body: bytes) -> str:
    """What the service says, on one line: Tavily nests it in `detail.error`, others in `message`."""
    try:
        said: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    for _ in range(3):
        if isinstance(said, Mapping):
            said = next((said[name] for name in ("detail", "error", "message") if name in said), "")
    text = " ".join(said.split()) if isinstance(said, str) else ""
    return f" It says: {text[:DETAIL_CHARS]}" if text else ""


def parse_retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header: a number or a date (RFC 9110, section 10.2.3); None if neither."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        seconds = (date - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if seconds == seconds and seconds != float("inf") else None


def as_search_error(error: BaseException, timeout: float) -> SearchError:
    """The typed error for what an HTTP library raised, without its request, which holds the key."""
    import httpx
    import requests

    if isinstance(error, (TimeoutError, requests.exceptions.Timeout, httpx.TimeoutException)):
        return SearchTimeoutError(
            f"The search service did not answer within {timeout:g} s: raise timeout=, or check it."
        )
    if isinstance(error, (ValueError, AttributeError, TypeError, RecursionError)):
        return SearchResponseError("The search service's reply is not the JSON that it documents.")
    return SearchServerError(f"The search service could not be reached ({type(error).__name__}).")
