"""`TavilySearch`, sync and async, with the real tavily clients over real sockets."""

from __future__ import annotations

import asyncio
import copy
import gzip
import inspect
import logging
import pickle
import re
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy
import pytest

from crag_dspy.contracts import WebSearch
from crag_dspy.errors import (
    ConfigError,
    SearchAuthError,
    SearchError,
    SearchQuotaError,
    SearchRequestError,
    SearchResponseError,
    SearchServerError,
    SearchTimeoutError,
)
from crag_dspy.websearch import tavily
from crag_dspy.websearch.cache import SearchCache
from crag_dspy.websearch.tavily import TavilySearch

if TYPE_CHECKING:
    from collections.abc import Callable

    from crag_dspy.passages import Passage

KEY = "tvly-planted-9f8e7d6c"

Ask = Any  # (search, query, max_results=None) -> passages


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    def sync(search: TavilySearch, query: str, max_results: int | None = None) -> list[Passage]:
        return search(query, max_results)

    def awaited(search: TavilySearch, query: str, max_results: int | None = None) -> list[Passage]:
        return asyncio.run(search.acall(query, max_results))

    return sync if request.param == "sync" else awaited


@pytest.fixture
def search(tavily_server: Any) -> Callable[..., TavilySearch]:
    def make(**options: Any) -> TavilySearch:
        return TavilySearch(
            **{"key": KEY, "base_url": tavily_server.url, "backoff": 0.0, "timeout": 60.0, **options}
        )

    return make


# The request.


def test_it_is_a_web_search(search: Any) -> None:
    assert isinstance(search(), WebSearch)


def test_the_documented_request_is_sent(search: Any, ask: Ask, tavily_server: Any) -> None:
    ask(
        search(
            search_depth="advanced",
            topic="news",
            time_range="month",
            include_domains=["bbc.co.uk"],
            exclude_domains=["example.com"],
        ),
        " water boiling point ",
        3,
    )
    (received,) = tavily_server.received
    assert received.path == "/search"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.asked == {
        "query": "water boiling point",
        "max_results": 3,
        "search_depth": "advanced",
        "topic": "news",
        "time_range": "month",
        "include_domains": ["bbc.co.uk"],
        "exclude_domains": ["example.com"],
        "include_raw_content": "markdown",
    }


def test_domains_are_preferred_in_the_request_and_in_the_order(
    search: Any, ask: Ask, tavily_server: Any, results_of: Any
) -> None:
    page = {"content": "water"}
    urls = ["https://a.com/1", "https://notwikipedia.org/2", "https://zh.wikipedia.org/3", "https://b.com/4"]
    tavily_server.replies.append(results_of(*({**page, "url": url} for url in urls)))
    passages = ask(search(prefer_domains=["Wikipedia.org"]), "water")
    assert [passage.url[-1] for passage in passages] == ["3", "1", "2", "4"]
    asked = tavily_server.received[0].asked
    assert (asked["include_domains"], asked["include_domains_mode"]) == (["Wikipedia.org"], "prefer")


def test_a_query_over_400_characters_is_cut_before_it_is_sent(
    search: Any, ask: Ask, tavily_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ask(search(), "boiling " * 100)
    assert tavily_server.received[0].asked["query"] == " ".join(["boiling"] * 50)
    assert "cut from 799 to 399" in caplog.text


def test_an_empty_query_is_not_sent(search: Any, ask: Ask, tavily_server: Any) -> None:
    with pytest.raises(SearchRequestError, match="empty"):
        ask(search(), "  ")
    assert not tavily_server.received


def test_more_results_than_the_service_gives_are_asked_as_its_most(
    search: Any, ask: Ask, tavily_server: Any
) -> None:
    ask(search(), "water", 50)
    assert tavily_server.received[0].asked["max_results"] == 20


# The reply.


def test_a_page_becomes_a_passage(search: Any, ask: Ask, tavily_server: Any, results_of: Any) -> None:
    page = {
        "title": "Water",
        "url": "https://en.wikipedia.org/wiki/Water",
        "content": "Boils at 100 C.",
        "raw_content": "# Water\n\nBoils at 100 C.",
        "score": 0.9,
        "published_date": "Mon, 02 Mar 2026 10:00:00 GMT",
    }
    tavily_server.replies.append(results_of(page))
    (passage,) = ask(search(), "water")
    assert passage.to_json() == {
        "id": page["url"],
        "title": "Water",
        "url": page["url"],
        "score": 0.9,
        "text": "# Water\n\nBoils at 100 C.",
        "metadata": {"published": page["published_date"]},
    }


def test_the_snippet_stands_in_for_a_missing_page_and_a_missing_score_is_none(
    search: Any, ask: Ask, tavily_server: Any, results_of: Any
) -> None:
    page = {"url": "https://a.com", "content": "Boils at 100 C.", "raw_content": None}
    tavily_server.replies.append(results_of(page))
    (passage,) = ask(search(), "water")
    assert (passage.text, passage.score, passage.title) == ("Boils at 100 C.", None, "")


def test_results_that_cannot_be_cited_or_read_are_left_out(
    search: Any, ask: Ask, tavily_server: Any, results_of: Any
) -> None:
    tavily_server.replies.append(
        results_of(
            {"url": "javascript:alert(1)", "content": "x"},
            {"url": "", "content": "x"},
            {"url": "https://[broken", "content": "x"},
            {"url": "https://a.com", "content": " "},
            {"url": "https://b.com", "content": "kept"},
        )
    )
    assert [passage.url for passage in ask(search(), "water")] == ["https://b.com"]


def test_a_long_page_is_cut_at_a_word_and_keeps_what_matched(
    search: Any, ask: Ask, tavily_server: Any, results_of: Any
) -> None:
    long = "word " * 1000 + "Water boils at 100 C."
    page = {"url": "https://a.com", "content": "Water boils at 100 C.", "raw_content": long}
    tavily_server.replies.append(results_of(page))
    (passage,) = ask(search(page_chars=200), "water")
    assert passage.text.startswith("Water boils at 100 C.\n\nword word")
    assert passage.text.endswith("word")
    assert len(passage.text) <= 200
    assert passage.metadata["cut_from"] == len(long)


def test_all_pages_together_stay_within_their_limit(
    search: Any, ask: Ask, tavily_server: Any, results_of: Any
) -> None:
    pages = [{"url": f"https://a.com/{number}", "content": "word " * 20} for number in range(5)]
    tavily_server.replies.append(results_of(*pages))
    passages = ask(search(total_chars=250), "water")
    assert [len(passage.text) for passage in passages] == [99, 99, 49]


def test_no_more_passages_than_asked_for(search: Any, ask: Ask, tavily_server: Any, results_of: Any) -> None:
    pages = [{"url": f"https://a.com/{number}", "content": "x"} for number in range(9)]
    tavily_server.replies.append(results_of(*pages))
    assert len(ask(search(), "water", 2)) == 2


def test_nothing_found_is_an_empty_list(search: Any, ask: Ask, tavily_server: Any, reply_with: Any) -> None:
    tavily_server.replies.append(reply_with(body={"results": []}))
    assert ask(search(), "water") == []


def test_a_compressed_reply_is_read(search: Any, ask: Ask, tavily_server: Any, results_of: Any) -> None:
    reply = results_of()
    reply.gzipped = True
    tavily_server.replies.append(reply)
    assert len(ask(search(), "water")) == 1


# Failures: each is typed, says what to do, and is tried again only when that can help.


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, SearchRequestError),
        (401, SearchAuthError),
        (403, SearchAuthError),
        (404, SearchRequestError),
        (422, SearchRequestError),
        (432, SearchQuotaError),
        (204, SearchResponseError),
    ],
)
def test_a_refusal_is_typed_and_says_what_the_service_said(
    search: Any, ask: Ask, tavily_server: Any, refuse: Any, status: int, error: type[SearchError]
) -> None:
    tavily_server.replies.extend([refuse(status, "That was wrong")] * 3)
    with pytest.raises(error, match=f"HTTP {status}"):
        ask(search(retries=0), "water")
    assert len(tavily_server.received) == 1


def test_the_services_own_words_reach_the_user(
    search: Any, ask: Ask, tavily_server: Any, refuse: Any
) -> None:
    tavily_server.replies.append(refuse(400, "Query is too\nlong"))
    with pytest.raises(SearchRequestError, match="It says: Query is too long"):
        ask(search(), "water")
    assert len(tavily_server.received) == 1, "a refused request is refused again: one try"


def test_a_passing_fault_is_tried_again(search: Any, ask: Ask, tavily_server: Any, refuse: Any) -> None:
    tavily_server.replies.extend([refuse(500), refuse(429)])
    assert len(ask(search(), "water")) == 1
    assert len(tavily_server.received) == 3


def test_a_lasting_fault_ends_after_the_retries(
    search: Any, ask: Ask, tavily_server: Any, refuse: Any
) -> None:
    tavily_server.replies.extend([refuse(503, "Overloaded")] * 9)
    with pytest.raises(SearchServerError, match=r"HTTP 503.*Overloaded"):
        ask(search(retries=2), "water")
    assert len(tavily_server.received) == 3


def test_retry_after_is_waited(search: Any, ask: Ask, tavily_server: Any, refuse: Any) -> None:
    tavily_server.replies.append(refuse(429, retry_after="0.2"))
    began = time.monotonic()
    assert len(ask(search(backoff=30.0, timeout=60.0), "water")) == 1
    assert 0.2 <= time.monotonic() - began < 20


def test_a_retry_after_beyond_the_timeout_is_not_waited(
    search: Any, ask: Ask, tavily_server: Any, refuse: Any
) -> None:
    tavily_server.replies.append(refuse(429, "Slow down", retry_after="3600"))
    with pytest.raises(SearchQuotaError, match=r"wait 3600 s.*Slow down") as caught:
        ask(search(), "water")
    assert caught.value.retry_after == 3600
    assert len(tavily_server.received) == 1


def test_silence_is_a_timeout(search: Any, ask: Ask, tavily_server: Any, reply_with: Any) -> None:
    tavily_server.replies.append(reply_with(silent=True))
    with pytest.raises(SearchTimeoutError, match=r"within 0\.3 s"):
        ask(search(timeout=0.3), "water")
    assert issubclass(SearchTimeoutError, TimeoutError)


def test_a_reply_that_drips_is_a_timeout(search: Any, ask: Ask, tavily_server: Any, results_of: Any) -> None:
    reply = results_of()
    reply.drips = True
    tavily_server.replies.append(reply)
    with pytest.raises(SearchTimeoutError):
        ask(search(timeout=0.3), "water")


def test_nobody_listening_is_a_server_error(ask: Ask, tavily_server: Any) -> None:
    tavily_server.stop()
    gone = TavilySearch(KEY, base_url=tavily_server.url, backoff=0.0)
    with pytest.raises(SearchServerError, match="could not be reached"):
        ask(gone, "water")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"results": [{"url": "https://a.c', id="truncated"),
        pytest.param(b"<html>login</html>", id="html"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"\xff\xfe", id="not utf-8"),
        pytest.param(b"[" * 100_000, id="nested"),
    ],
)
def test_malformed_json_is_a_response_error(
    search: Any, ask: Ask, tavily_server: Any, reply_with: Any, body: bytes
) -> None:
    tavily_server.replies.append(reply_with(body=body))
    with pytest.raises(SearchResponseError):
        ask(search(), "water")
    assert len(tavily_server.received) == 1


@pytest.mark.parametrize("results", [None, "text", {"a": 1}, ["text"], [None]])
def test_results_of_another_shape_are_a_response_error(
    search: Any, ask: Ask, tavily_server: Any, reply_with: Any, results: Any
) -> None:
    tavily_server.replies.append(reply_with(body={"results": results}))
    with pytest.raises(SearchResponseError, match="result"):
        ask(search(), "water")


def test_a_reply_that_ends_early_is_a_response_error(
    search: Any, ask: Ask, tavily_server: Any, reply_with: Any
) -> None:
    tavily_server.replies.append(reply_with(body=b'{"results": []}', length=1000))
    with pytest.raises(SearchResponseError, match="ended before"):
        ask(search(), "water")


@pytest.mark.parametrize("gzipped", [False, True], ids=["plain", "compressed"])
def test_a_body_of_50_mb_is_given_up_early(
    search: Any, ask: Ask, tavily_server: Any, reply_with: Any, gzipped: bool
) -> None:
    """A bomb of 50 kB that unpacks to 50 MB counts as what it unpacks to."""
    body, headers = b" " * 50_000_000, {}
    if gzipped:
        body, headers = gzip.compress(body, 1), {"content-encoding": "gzip"}
    tavily_server.replies.append(reply_with(body=body, headers=headers))
    with pytest.raises(SearchResponseError, match="larger than 10000000 bytes"):
        ask(search(), "water")


@pytest.mark.parametrize(
    "encoding", ["gzip, gzip", "gzip, gzip, gzip", "br", "zstd", "deflate, gzip", "x" * 5000]
)
def test_what_was_not_asked_for_is_not_decoded(
    search: Any, ask: Ask, tavily_server: Any, reply_with: Any, encoding: str
) -> None:
    """The report: 658 bytes, compressed several times, became 700 MB and 33 s of a blocked event loop."""
    body = b" " * 100_000_000
    for _ in range(encoding.count("gzip")):
        body = gzip.compress(body, 1)
    tavily_server.replies.append(reply_with(body=body, headers={"content-encoding": encoding}))
    before = time.process_time()
    with pytest.raises(SearchResponseError, match="is encoded as"):
        ask(search(retries=0), "water")
    assert time.process_time() - before < 0.25
    assert {received.headers["accept-encoding"] for received in tavily_server.received} == {"gzip"}


def test_a_compressed_reply_that_ends_early_is_a_response_error(
    search: Any, ask: Ask, tavily_server: Any, reply_with: Any
) -> None:
    body = gzip.compress(b'{"results": []}')[:-4]
    tavily_server.replies.append(reply_with(body=body, headers={"content-encoding": "gzip"}))
    with pytest.raises(SearchResponseError, match="decompressed"):
        ask(search(retries=0), "water")


def test_a_redirect_is_refused(search: Any, ask: Ask, tavily_server: Any, reply_with: Any) -> None:
    """Neither the query nor the key goes to an address that nobody configured."""
    elsewhere = {"location": f"{tavily_server.url}/elsewhere"}
    tavily_server.replies.append(reply_with(307, {}, elsewhere))
    with pytest.raises(SearchResponseError, match="redirects"):
        ask(search(), "water")
    assert [received.path for received in tavily_server.received] == ["/search"]


def test_a_search_works_after_one_that_failed(
    search: Any, ask: Ask, tavily_server: Any, reply_with: Any, refuse: Any
) -> None:
    one = search(retries=0)
    tavily_server.replies.extend([refuse(500), reply_with(body=b" " * 20_000_000)])
    for _ in range(2):
        with pytest.raises(SearchError):
            ask(one, "water")
    assert len(ask(one, "water")) == 1


# The key.


def test_no_key_means_no_request(ask: Ask, tavily_server: Any) -> None:
    """tavily-python alone would enter its keyless mode and send the query."""
    with pytest.raises(SearchAuthError, match="TAVILY_API_KEY"):
        ask(TavilySearch(base_url=tavily_server.url), "water")
    assert not tavily_server.received


def test_the_key_comes_from_the_environment_when_it_is_needed(
    ask: Ask, tavily_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_before = TavilySearch(base_url=tavily_server.url)
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    ask(made_before, "water")
    assert tavily_server.received[0].headers["authorization"] == f"Bearer {KEY}"


def test_keyless_search_is_asked_for(ask: Ask, tavily_server: Any) -> None:
    ask(TavilySearch(keyless=True, base_url=tavily_server.url), "water")
    headers = tavily_server.received[0].headers
    assert headers["x-tavily-access-mode"] == "keyless"
    assert "authorization" not in headers


@pytest.mark.parametrize("source", ["argument", "environment"])
def test_the_key_is_nowhere_but_in_the_request(
    ask: Ask,
    tavily_server: Any,
    refuse: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    source: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    if source == "environment":
        monkeypatch.setenv("TAVILY_API_KEY", KEY)
    given = KEY if source == "argument" else None
    search = TavilySearch(given, base_url=tavily_server.url, backoff=0.0, cache=tmp_path)
    ask(search, "water")
    tavily_server.replies.extend([refuse(500), refuse(401, f"Bad key {KEY} in header")])
    with pytest.raises(SearchAuthError) as caught:
        ask(search, "another")
    error = caught.value
    assert f"Bearer {KEY}" == tavily_server.received[0].headers["authorization"]
    assert error.__cause__ is None
    assert error.__context__ is None, "the library's error would lead to the request, and so to the key"
    program = dspy.Module()
    program.search = search
    program.save(tmp_path / "program.json")
    said = [
        repr(search),
        str(search),
        repr(vars(search)),
        str(error),
        repr(error),
        caplog.text,
        str(pickle.dumps(search)),
        str(pickle.dumps(error)),
        *(path.read_text() for path in tmp_path.iterdir()),
    ]
    assert [text for text in said if KEY in text] == []


@pytest.mark.parametrize("key", ["", "  ", 5])
def test_a_key_that_is_none_is_refused(key: Any) -> None:
    with pytest.raises(ConfigError, match="TAVILY_API_KEY"):
        TavilySearch(key)


# One object for all copies, processes, threads and loops.


def test_copies_are_the_same_object(search: Any) -> None:
    one = search()
    assert copy.copy(one) is one
    assert copy.deepcopy({"search": one})["search"] is one


def test_a_pickle_keeps_the_options_and_reads_the_loaders_key(
    search: Any, tavily_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = pickle.loads(pickle.dumps(search(topic="news", max_results=2)))  # noqa: S301
    with pytest.raises(SearchAuthError):
        loaded("water")
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-loaders-own")
    loaded("water")
    (received,) = tavily_server.received
    assert received.headers["authorization"] == "Bearer tvly-loaders-own"
    assert (received.asked["topic"], received.asked["max_results"]) == ("news", 2)


def test_searches_in_a_row_share_a_connection(search: Any, tavily_server: Any) -> None:
    one = search()
    for _ in range(3):
        one("water")
    assert len({received.connection for received in tavily_server.received}) == 1


def test_threads_search_at_once(search: Any, tavily_server: Any) -> None:
    one, found, start = search(), [], threading.Barrier(16)

    def work(number: int) -> None:
        start.wait(10)
        found.append((number, len(one(f"question {number}"))))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == [(number, 1) for number in range(16)]
    asked = {received.asked["query"] for received in tavily_server.received}
    assert asked == {f"question {number}" for number in range(16)}


def test_one_object_serves_many_event_loops(search: Any) -> None:
    one = search()
    for _ in range(3):
        assert len(asyncio.run(one.acall("water"))) == 1


def test_a_cancelled_search_is_cancelled(search: Any, tavily_server: Any, reply_with: Any) -> None:
    tavily_server.replies.append(reply_with(silent=True))

    async def cancelled() -> None:
        task = asyncio.create_task(search(timeout=60.0).acall("water"))
        while not tavily_server.received:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


# The cache.


def test_a_repeated_search_needs_neither_network_nor_key(
    search: Any, ask: Ask, tavily_server: Any, tmp_path: Path
) -> None:
    first = ask(search(cache=tmp_path), "water")
    offline = TavilySearch(base_url=tavily_server.url, cache=tmp_path)
    assert ask(offline, "water") == first
    assert len(tavily_server.received) == 1


def test_another_request_is_not_answered_from_the_cache(
    search: Any, ask: Ask, tavily_server: Any, tmp_path: Path
) -> None:
    for options in ({}, {"topic": "news"}, {"page_chars": 5}, {"prefer_domains": ["a.com"]}):
        ask(search(cache=tmp_path, **options), "water")
    ask(search(cache=tmp_path), "water", 2)
    ask(search(cache=tmp_path), "steam")
    assert len(tavily_server.received) == 6


def test_a_failure_is_not_cached(
    search: Any, ask: Ask, tavily_server: Any, refuse: Any, tmp_path: Path
) -> None:
    one = search(cache=SearchCache(tmp_path, lifetime=60), retries=0)
    tavily_server.replies.append(refuse(500))
    with pytest.raises(SearchServerError):
        ask(one, "water")
    assert len(ask(one, "water")) == 1


# Arguments.


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_results": 0}, "max_results"),
        ({"max_results": 21}, "max_results"),
        ({"max_results": True}, "max_results"),
        ({"search_depth": "deep"}, "search_depth"),
        ({"topic": "sports"}, "topic"),
        ({"time_range": "decade"}, "time_range"),
        ({"raw_content": True}, "raw_content"),
        ({"page_chars": -1}, "page_chars"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"backoff": -0.5}, "backoff"),
        ({"base_url": "api.tavily.com"}, "base_url"),
        ({"base_url": "https://ada:pw@api.tavily.com"}, "no password"),
        ({"include_domains": "wikipedia.org"}, "include_domains"),
        ({"prefer_domains": [""]}, "prefer_domains"),
        ({"include_domains": ["a.com"], "prefer_domains": ["b.com"]}, "prefer_domains"),
    ],
)
def test_a_bad_argument_is_named_before_any_work(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        TavilySearch(KEY, **options)


def test_a_bad_number_of_results_is_named(search: Any, ask: Ask) -> None:
    with pytest.raises(ConfigError, match="max_results"):
        ask(search(), "water", 0)


# The documented example of another engine.


def documented_engines() -> list[str]:
    """The class as the module's documentation shows it, and as a README does."""
    example = re.search(r"(?ms)^    import os, requests.*\Z", inspect.getdoc(tavily) or "")
    assert example is not None
    page = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    return [textwrap.dedent(example[0]), *(block for block in blocks if "class Serper" in block)]


@pytest.mark.parametrize("example", documented_engines())
def test_the_documented_serper_class_works(
    tavily_server: Any, reply_with: Any, refuse: Any, monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102
    assert len(example.strip().splitlines()) <= 16
    monkeypatch.setenv("SERPER_API_KEY", "serper-key")
    serper = names["Serper"](f"{tavily_server.url}/search")
    hit = {"title": "Water", "link": "https://a.com", "snippet": "Boils at 100 C."}
    tavily_server.replies.extend([reply_with(body={"organic": [hit, hit]}), refuse(429, retry_after="7")])
    assert isinstance(serper, WebSearch)
    (passage,) = serper("water", 1)
    assert (passage.text, passage.title, passage.url) == ("Boils at 100 C.", "Water", "https://a.com")
    assert tavily_server.received[0].headers["x-api-key"] == "serper-key"
    with pytest.raises(SearchQuotaError) as caught:
        serper("water", 1)
    assert caught.value.retry_after == 7


# Processes.

FORK = """
import os, sys
from crag_dspy.websearch.tavily import TavilySearch

search = TavilySearch("tvly-key", base_url=sys.argv[1])
search("parent")
if (child := os.fork()) == 0:
    os._exit(0 if search("child") else 1)
assert os.waitpid(child, 0)[1] == 0
search("parent again")
"""


def test_a_forked_server_does_not_share_the_connection(tavily_server: Any) -> None:
    subprocess.run([sys.executable, "-c", FORK, tavily_server.url], timeout=60, check=True)
    by_query = {received.asked["query"]: received.connection for received in tavily_server.received}
    assert by_query["parent"] == by_query["parent again"] != by_query["child"]
