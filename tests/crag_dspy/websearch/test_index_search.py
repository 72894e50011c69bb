"""`IndexSearch`, and `as_web_search` over the shapes that people have."""

import asyncio
import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crag_dspy.errors import ConfigError, SearchResponseError
from crag_dspy.passages import Passage
from crag_dspy.retrievers import LocalIndex
from crag_dspy.websearch.adapt import as_web_search
from crag_dspy.websearch.index import IndexSearch

PAGES = [
    {
        "id": "forth",
        "title": "Forth Bridge",
        "text": "It opened in 1890.",
        "url": "https://example.org/forth",
    },
    {"id": "长江/大桥", "text": "武汉长江大桥于1957年建成通车。"},
]


@pytest.fixture
def index(tmp_path: Path) -> LocalIndex:
    return LocalIndex.build(tmp_path / "web", PAGES, embedder=None)


def search_with(thing: Any) -> Any:
    search = as_web_search(thing)
    assert search is not None
    return search


def test_every_result_has_a_url_that_stays_the_same(index: LocalIndex) -> None:
    search = IndexSearch(index)
    assert search("Forth opened", 3)[0].url == "https://example.org/forth"
    (page,) = search("长江大桥", 3)
    assert page.url == "index:%E9%95%BF%E6%B1%9F%2F%E5%A4%A7%E6%A1%A5"
    assert IndexSearch(index.path)("长江大桥", 3) == [page]


def test_anything_that_retrieves_can_play_the_web() -> None:
    search = IndexSearch(["A page about lighthouses.", {"text": "Tea.", "title": "Drinks"}])
    assert search("lighthouses", 3)[0].url == "index:A%20page%20about%20lighthouses."
    assert search("tea", 3)[0].url == "index:Drinks"


def test_at_most_max_results_and_none_for_nothing(index: LocalIndex) -> None:
    search = IndexSearch(index)
    assert len(search("1890 1957", 1)) == 1
    assert search("?!", 3) == []
    with pytest.raises(ConfigError, match="max_results"):
        search("bridge", 0)


def test_copies_are_the_same_object(index: LocalIndex) -> None:
    search = IndexSearch(index)
    assert copy.deepcopy(search) is search
    assert as_web_search(search) is search


# as_web_search


def test_no_search_is_none_and_a_local_index_plays_the_web(index: LocalIndex) -> None:
    assert as_web_search(None) is None
    assert search_with(index)("Forth", 1)[0].url == "https://example.org/forth"
    assert search_with(index)("长江", 1)[0].url.startswith("index:")


TAVILY = {
    "query": "q",
    "images": [],
    "results": [
        {
            "title": "A",
            "url": "https://a.org",
            "content": "Snippet a.",
            "raw_content": "# A\n\nAll of a.",
            "score": 0.9,
        },
        {"title": "B", "url": "https://b.org", "content": "Snippet b.", "raw_content": None, "score": 0.8},
        {"title": "C", "url": "https://c.org", "content": "", "raw_content": None, "score": 0.1},
    ],
}


class Tavily:
    def __init__(self, reply: Any = TAVILY) -> None:
        self.reply = reply
        self.asked: list[dict[str, Any]] = []

    def search(
        self, query: str, search_depth: str | None = None, max_results: int | None = None, **kwargs: Any
    ) -> Any:
        self.asked.append({"query": query, "search_depth": search_depth, "max_results": max_results})
        return self.reply


class AsyncTavily:
    async def search(self, query: str, max_results: int = 5) -> Any:
        return TAVILY


def test_a_tavily_client_is_asked_for_max_results_and_whole_pages_are_preferred() -> None:
    client = Tavily()
    found = search_with(client)("q", 3)
    assert client.asked == [{"query": "q", "search_depth": None, "max_results": 3}]
    assert found == [
        Passage("# A\n\nAll of a.", title="A", url="https://a.org", score=0.9),
        Passage("Snippet b.", title="B", url="https://b.org", score=0.8),
    ]


def test_an_async_client_can_be_awaited_and_called() -> None:
    search = search_with(AsyncTavily())
    assert asyncio.run(search.acall("q", 1))[0].url == search("q", 1)[0].url == "https://a.org"
    assert not hasattr(search_with(Tavily()), "acall")


@pytest.mark.parametrize(
    "reply",
    [
        [{"title": "A", "link": "https://a.org", "snippet": "Text."}],
        [{"title": "A", "href": "https://a.org", "body": "Text."}],
        {"results": [{"title": "A", "url": "https://a.org", "content": "Text."}]},
        [SimpleNamespace(page_content="Text.", metadata={"source": "https://a.org", "title": "A"})],
        [Passage("Text.", title="A", url="https://a.org")],
    ],
)
def test_results_of_other_engines_are_read(reply: Any) -> None:
    (page,) = search_with(lambda query: reply)("q", 5)
    assert (page.text, page.title, page.url) == ("Text.", "A", "https://a.org")


def test_a_langchain_tool_is_invoked_with_the_query_alone() -> None:
    tool = SimpleNamespace(
        invoke=lambda input, config=None, **kwargs: {"results": TAVILY["results"], "given": input}
    )
    assert search_with(tool)("q", 1)[0].title == "A"


@pytest.mark.parametrize("reply", [None, [], {"results": []}, {"results": None}])
def test_nothing_found_is_no_page(reply: Any) -> None:
    assert search_with(lambda query: reply)("q", 5) == []


@pytest.mark.parametrize(
    "reply", [{"error": "quota"}, [3], 3, {"results": [{"headline": "A"}]}, {"results": 3}]
)
def test_a_reply_of_another_shape_is_a_typed_error(reply: Any) -> None:
    with pytest.raises(SearchResponseError, match="something else than pages"):
        search_with(lambda query: reply)("q", 5)


@pytest.mark.parametrize("thing", ["https://a.org", 3, Tavily, ["page"], {"a": "b"}, object()])
def test_what_cannot_search_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="cannot search the web with"):
        as_web_search(thing)
