"""The web, by Tavily's search API: pages as Markdown, which refinement cuts into strips.

Another engine is one small class: anything that takes a query and a number and returns passages with a
`url` is a `WebSearch`. Serper, with the same typed errors, bounded replies and refused redirects:

    import os, requests
    from crag_dspy.passages import Passage
    from crag_dspy.websearch.transport import guard_session

    class Serper:
        def __init__(self, url="https://google.serper.dev/search"):
            self.url, self.session = url, guard_session(requests.Session())

        def __call__(self, query, max_results):
            key = {"X-API-KEY": os.environ["SERPER_API_KEY"]}
            asked = {"q": query, "num": max_results}
            hits = self.session.post(self.url, json=asked, headers=key, timeout=10).json()["organic"]
            found = [(hit.get("snippet", ""), hit["title"], hit["link"]) for hit in hits[:max_results]]
            return [Passage(text, title=title, url=url) for text, title, url in found]
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import urlsplit

from crag_dspy.errors import (
    ConfigError,
    SearchAuthError,
    SearchError,
    SearchQuotaError,
    SearchRequestError,
    SearchResponseError,
    SearchServerError,
)
from crag_dspy.live.held import Held
from crag_dspy.live.per_process import PerProcess
from crag_dspy.live.retry import Retry
from crag_dspy.live.secret import Secret
from crag_dspy.state.arguments import check_choice, check_whole
from crag_dspy.websearch.cache import SearchCache, as_cache
from crag_dspy.websearch.pages import PAGE_CHARS, TOTAL_CHARS, passages_from
from crag_dspy.websearch.query import QUERY_LIMIT, cut_at_word
from crag_dspy.websearch.transport import ENCODING, MAX_BYTES, as_search_error, guard_session, reply_guard

if TYPE_CHECKING:
    import ssl

    from tavily import TavilyClient

    from crag_dspy.passages import Passage

SearchDepth = Literal["basic", "advanced", "fast", "ultra-fast"]
Topic = Literal["general", "news", "finance"]
TimeRange = Literal["day", "week", "month", "year"]
RawContent = Literal["markdown", "text"]

BASE_URL = "https://api.tavily.com"
KEY_VARIABLE = "TAVILY_API_KEY"
MOST_RESULTS = 20  # the service's own limit

# What tavily-python sends by itself when it has neither a key nor an HTTP client of ours.
_KEYLESS_HEADERS = {"X-Tavily-Access-Mode": "keyless", "X-Client-Source": "tavily-python-keyless"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False, eq=False)
class TavilySearch(Held):
    """Web search by Tavily. A `WebSearch`; `acall` is the same for `asyncio`.

    The key comes from `key`, or from TAVILY_API_KEY when a search needs it, and from nowhere else: it is in
    no repr, log, error, saved state or pickle (a pickle reads the environment of whoever loads it). Without a
    key nothing is sent, unless `keyless=True` asks for Tavily's small free allowance.

    Args:
        key: Tavily's API key; None reads TAVILY_API_KEY.
        max_results: pages a search, 1 to 20, when the caller names no number.
        search_depth: "basic", "advanced" (better and dearer), "fast" or "ultra-fast".
        topic: "general", "news" (adds the date) or "finance".
        time_range: only pages of the last "day", "week", "month" or "year".
        include_domains: only these domains.
        exclude_domains: none of these.
        prefer_domains: these first, others after; the paper prefers Wikipedia (`["wikipedia.org"]`). Not
            together with `include_domains`, which the service cannot combine.
        raw_content: whole pages as "markdown" or "text"; None takes the service's snippets.
        page_chars: most characters of a page.
        total_chars: most characters of a search.
        timeout: seconds for a search, its tries and pauses together.
        retries: further tries after a rate limit or a server fault; a Retry-After within `timeout` is waited.
        backoff: seconds before the second try when the service names none.
        keyless: search without a key, on purpose.
        cache: a folder, or a `SearchCache` with its lifetime; what it holds needs neither key nor network.
        base_url: the service, or a proxy of it. No other address is ever asked.
        max_bytes: largest reply that is read.

    Raises:
        ConfigError: an argument out of range, when the object is made.
        SearchError: a search that failed; `crag_dspy.errors` lists the kinds.
    """

    key: InitVar[str | None] = None
    _: KW_ONLY
    max_results: int = 5
    search_depth: SearchDepth = "basic"
    topic: Topic = "general"
    time_range: TimeRange | None = None
    include_domains: Sequence[str] = ()
    exclude_domains: Sequence[str] = ()
    prefer_domains: Sequence[str] = ()
    raw_content: RawContent | None = "markdown"
    page_chars: int = PAGE_CHARS
    total_chars: int = TOTAL_CHARS
    timeout: float = 10.0
    retries: int = 2
    backoff: float = 0.5
    keyless: bool = False
    cache: SearchCache | str | os.PathLike[str] | None = None
    base_url: str = BASE_URL
    max_bytes: int = MAX_BYTES
    _key: Secret = field(init=False)
    _retry: Retry = field(init=False)
    _cache: SearchCache | None = field(init=False)
    _client: PerProcess[TavilyClient] = field(init=False)
    _tls: PerProcess[ssl.SSLContext] = field(init=False)

    def __post_init__(self, key: str | None) -> None:
        check_choice("search_depth", self.search_depth, get_args(SearchDepth))
        check_choice("topic", self.topic, get_args(Topic))
        check_choice("time_range", self.time_range, (None, *get_args(TimeRange)))
        check_choice("raw_content", self.raw_content, (None, *get_args(RawContent)))
        check_whole("max_results", self.max_results, most=MOST_RESULTS)
        for name in ("page_chars", "total_chars", "max_bytes"):
            check_whole(name, getattr(self, name))
        for name in ("include_domains", "exclude_domains", "prefer_domains"):
            _check_domains(name, getattr(self, name))
        if self.include_domains and self.prefer_domains:
            raise ConfigError("give include_domains (only these) or prefer_domains (these first), not both")
        address = urlsplit(self.base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ConfigError(f"base_url must be an http(s) address, got {self.base_url!r}")
        if address.username is not None or address.password is not None:
            raise ConfigError("base_url must hold no user and no password, which messages would show")
        live = {
            "_key": Secret(key, KEY_VARIABLE),
            "_retry": Retry(self.timeout, self.retries, self.backoff),
            "_cache": as_cache(self.cache),
            "_client": PerProcess(self._connect),
            "_tls": PerProcess(_tls_context),
        }
        for name, part in live.items():
            object.__setattr__(self, name, part)

    def __repr__(self) -> str:
        access = "with a key" if self._key.value() else "keyless" if self.keyless else "without a key"
        return f"TavilySearch({self.base_url}, max_results={self.max_results}, {access})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuilt, ({given.name: getattr(self, given.name) for given in fields(self) if given.init},))

    def __call__(self, query: str, max_results: int | None = None) -> list[Passage]:
        """At most `max_results` pages for `query`, best first, preferred domains before others."""
        request = self._request(query, max_results)
        if (known := self._known(request)) is not None:
            return known
        self._check_access()
        _import_libraries()
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            left = max(0.001, self.timeout - (time.monotonic() - began))
            try:
                return self._kept(request, self._send(request, left))
            except SearchError as error:
                if (wait := self._pause(error, tries, time.monotonic() - began)) is None:
                    raise
            time.sleep(wait)

    async def acall(self, query: str, max_results: int | None = None) -> list[Passage]:
        """`__call__` for `asyncio`: the same request, errors, limits, cache and retries."""
        request = self._request(query, max_results)
        if (known := self._known(request)) is not None:
            return known
        self._check_access()
        await asyncio.to_thread(_import_libraries)
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            left = max(0.001, self.timeout - (time.monotonic() - began))
            try:
                return self._kept(request, await self._asend(request, left))
            except SearchError as error:
                if (wait := self._pause(error, tries, time.monotonic() - began)) is None:
                    raise
            await asyncio.sleep(wait)

    # One request, however it is sent.

    def _request(self, query: str, max_results: int | None) -> dict[str, Any]:
        count = self.max_results if max_results is None else max_results
        check_whole("max_results", count)
        if not isinstance(query, str):
            raise TypeError(f"query must be a str, got {type(query).__name__}")
        sent = cut_at_word(query.strip(), QUERY_LIMIT)
        if not sent:
            raise SearchRequestError("The search query is empty: nothing was sent.")
        if sent != query.strip():
            _log.warning("The search query was cut from %d to %d characters.", len(query.strip()), len(sent))
        asked = {
            "search_depth": self.search_depth,
            "topic": self.topic,
            "time_range": self.time_range,
            "include_domains": [*self.include_domains, *self.prefer_domains],
            "include_domains_mode": "prefer" if self.prefer_domains else None,
            "exclude_domains": list(self.exclude_domains),
            "include_raw_content": self.raw_content,
        }
        options = {name: value for name, value in asked.items() if value}
        return {"query": sent, "max_results": min(count, MOST_RESULTS), **options}

    def _cache_key(self, request: Mapping[str, Any]) -> dict[str, Any]:
        sizes = {"page_chars": self.page_chars, "total_chars": self.total_chars}
        return {"engine": "tavily", "base_url": self.base_url, **sizes, **request}

    def _known(self, request: Mapping[str, Any]) -> list[Passage] | None:
        return None if self._cache is None else self._cache.get(self._cache_key(request))

    def _kept(self, request: Mapping[str, Any], reply: Any) -> list[Passage]:
        if not isinstance(reply, Mapping) or not isinstance(reply.get("results"), list):
            raise SearchResponseError("The search service's reply has no list of results.")
        pages = passages_from(
            reply["results"],
            page_chars=self.page_chars,
            total_chars=self.total_chars,
            prefer=self.prefer_domains,
        )
        passages = pages[: request["max_results"]]
        if self._cache is not None:
            self._cache.put(self._cache_key(request), passages)
        return passages

    def _pause(self, error: SearchError, tries: int, elapsed: float) -> float | None:
        """A rate limit and a server fault pass; what was refused or malformed would only be so again."""
        if not isinstance(error, (SearchQuotaError, SearchServerError)):
            return None
        wait = self._retry.pause(tries, elapsed, error.retry_after)
        if wait is not None:
            _log.info("Search try %d failed (%s); again in %.2f s", tries, type(error).__name__, wait)
        return wait

    # Access.

    def _check_access(self) -> None:
        if not self.keyless and self._key.value() is None:
            raise SearchAuthError(
                f"No Tavily key: set {KEY_VARIABLE}, pass key=, or ask for keyless=True. Nothing was sent."
            )

    def _send(self, request: Mapping[str, Any], left: float) -> Any:
        try:
            return self._client.get().search(**request, timeout=left)
        except _failures() as error:
            failure = self._failure(error)
        # Outside of the handler: the library's error refers to the request, and the request holds the key.
        raise failure

    async def _asend(self, request: Mapping[str, Any], left: float) -> Any:
        import httpx
        from tavily import AsyncTavilyClient

        key = self._key.value()
        access = {} if key else _KEYLESS_HEADERS
        try:
            # A client a search: an httpx client belongs to the event loop that first used it, and programs
            # that call asyncio.run() have many. A handshake is short beside a search.
            async with (
                asyncio.timeout(left),
                httpx.AsyncClient(
                    base_url=self.base_url,
                    headers={**access, "Accept-Encoding": ENCODING},
                    verify=self._tls.get(),
                    mounts={
                        scheme: httpx.AsyncHTTPTransport(proxy=proxy) for scheme, proxy in _proxies().items()
                    },
                    event_hooks={"response": [reply_guard(self.max_bytes)]},
                ) as http,
            ):
                return await AsyncTavilyClient(api_key=key, client=http).search(**request, timeout=left)
        except _failures() as error:
            failure = self._failure(error)
        raise failure

    def _connect(self) -> TavilyClient:
        from tavily import TavilyClient

        client = TavilyClient(api_key=self._key.value(), api_base_url=self.base_url)
        guard_session(client.session, self.max_bytes)
        return client

    def _failure(self, error: BaseException) -> SearchError:
        from tavily.errors import TimeoutError as TavilyTimeoutError

        if isinstance(error, TavilyTimeoutError):
            error = TimeoutError()
        typed = error if isinstance(error, SearchError) else as_search_error(error, self.timeout)
        return type(typed)(self._key.removed_from(str(typed)), typed.retry_after)


def _import_libraries() -> None:
    """Once, and before the clock starts: it takes a second, which is not the service's."""
    import tavily  # noqa: F401 - with httpx and requests


def _rebuilt(spec: dict[str, Any]) -> TavilySearch:
    return TavilySearch(**spec)


def _failures() -> tuple[type[BaseException], ...]:
    """What a search can raise: the guards' errors, the HTTP libraries', and what a malformed reply causes.

    An OSError is any of requests' errors. Tavily's own errors cannot occur, but for its time-out: the guards
    come before them.
    """
    import httpx
    from tavily.errors import TimeoutError as TavilyTimeoutError

    malformed = (ValueError, AttributeError, TypeError, RecursionError)
    return (SearchError, OSError, httpx.HTTPError, TavilyTimeoutError, *malformed)


def _tls_context() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()


def _proxies() -> dict[str, str]:
    """Tavily's own proxy variables, which its client reads unless it is given an HTTP client."""
    found = {f"{scheme}://": os.environ.get(f"TAVILY_{scheme.upper()}_PROXY") for scheme in ("http", "https")}
    return {scheme: proxy for scheme, proxy in found.items() if proxy}


def _check_domains(name: str, value: Any) -> None:
    if isinstance(value, str) or not all(isinstance(item, str) and item.strip() for item in value):
        raise ConfigError(f'{name} must be a list of domains such as ["wikipedia.org"], got {value!r}')
