"""`SearchCache`: what is kept, for how long, and what happens to a damaged file."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.passages import Passage
from crag_dspy.websearch.cache import SearchCache

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = {"query": "水的沸点", "max_results": 3, "include_domains": ("a.com",)}
FOUND = [
    Passage(
        "水在 100 度沸腾", id="1", title="水", url="https://a.com", score=0.5, metadata={"published": "2026"}
    ),
    Passage("no score", url="https://b.com"),
]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_what_was_kept_comes_back_equal(tmp_path: Path) -> None:
    SearchCache(tmp_path / "made" / "when-needed").put(REQUEST, FOUND)
    assert (
        SearchCache(tmp_path / "made" / "when-needed").get({**REQUEST, "include_domains": ["a.com"]}) == FOUND
    )


def test_nothing_found_is_kept_too(tmp_path: Path) -> None:
    cache = SearchCache(tmp_path)
    assert cache.get(REQUEST) is None
    cache.put(REQUEST, [])
    assert cache.get(REQUEST) == []


@pytest.mark.parametrize(("age", "fresh"), [(0.0, True), (59.9, True), (60.0, False), (-1.0, False)])
def test_a_reply_lives_for_its_lifetime(tmp_path: Path, age: float, fresh: bool) -> None:
    """A reply from the future (a clock that was set back) would otherwise live for ever."""
    clock = Clock()
    cache = SearchCache(tmp_path, lifetime=60, clock=clock)
    cache.put(REQUEST, FOUND)
    clock.now += age
    assert (cache.get(REQUEST) == FOUND) is fresh


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'"text"', b"\xff\xfe", b'{"saved": 1000}', b'{"saved": "x"}', b"[" * 99_999],
)
def test_a_damaged_file_is_a_miss_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    cache = SearchCache(tmp_path)
    cache.put(REQUEST, FOUND)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    assert cache.get(REQUEST) is None
    cache.put(REQUEST, FOUND)
    assert cache.get(REQUEST) == FOUND


def test_a_file_of_another_request_is_a_miss(tmp_path: Path) -> None:
    cache = SearchCache(tmp_path)
    cache.put(REQUEST, FOUND)
    (one,) = tmp_path.iterdir()
    cache.put({"query": "other"}, [])
    (other,) = set(tmp_path.iterdir()) - {one}
    one.replace(other)
    assert cache.get({"query": "other"}) is None


def test_a_folder_that_cannot_be_written_costs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = SearchCache(tmp_path / "file")
    cache.put(REQUEST, FOUND)
    assert "not cached" in caplog.text
    assert cache.get(REQUEST) is None


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = SearchCache(tmp_path)
    cache.put(REQUEST, FOUND)

    def crash(*paths: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        cache.put(REQUEST, [])
    assert cache.get(REQUEST) == FOUND
    assert len(list(tmp_path.iterdir())) == 1


def test_threads_share_a_folder(tmp_path: Path) -> None:
    """A reader meets a whole file or none, whoever writes."""
    cache, stop, torn = SearchCache(tmp_path), threading.Event(), []

    def write() -> None:
        while not stop.is_set():
            cache.put(REQUEST, FOUND)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for _ in range(300):
        found = cache.get(REQUEST)
        if found not in (None, FOUND):
            torn.append(found)
    stop.set()
    for writer in writers:
        writer.join(10)
    assert torn == []


@pytest.mark.parametrize("lifetime", [0, -1, float("nan"), True, "1h", None])
def test_a_lifetime_is_seconds_above_zero(tmp_path: Path, lifetime: Any) -> None:
    with pytest.raises(ConfigError, match="lifetime"):
        SearchCache(tmp_path, lifetime=lifetime)
