"""Nothing lost: servers that are killed, restarted, read-only or full, and passages that no message can carry."""

from __future__ import annotations

import re
import types
import uuid
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from typing import Any

import grpc
import numpy as np
import pytest

from crag_dspy.passages import Passage
from crag_dspy.retrievers.weaviate import WeaviateRetriever
from crag_dspy.retrievers.weaviate_collection import create_collection
from crag_dspy.retrievers.weaviate_import import ImportInterruptedError, import_passages
from crag_dspy.retrievers.weaviate_objects import object_id
from crag_dspy.retrievers.weaviate_verify import verify_passages

MANY = [Passage(f"Fact number{number} of many.", id=f"fact-{number}") for number in range(30)]


def vector_of(number: int) -> list[float]:
    return [1.0, number / 10, (number % 7) / 5, (number % 3) / 2]


def pairs(passages: list[Passage] = MANY) -> list[tuple[Passage, list[float]]]:
    return [(passage, vector_of(number)) for number, passage in enumerate(passages)]


@pytest.fixture
def made(weaviate_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., WeaviateRetriever]]:
    """A collection on the protocol server; the client's own pauses cost nothing."""
    monkeypatch.setattr("weaviate.retry.time", types.SimpleNamespace(sleep=lambda seconds: None))
    stores: list[WeaviateRetriever] = []

    def make(properties: dict[str, str] | None = None, **options: Any) -> WeaviateRetriever:
        place = {"grpc_port": weaviate_server.grpc_port, "mode": "bm25", "backoff": 0.0, "timeout": 60.0}
        stores.append(WeaviateRetriever.from_url(weaviate_server.url, "Facts", **{**place, **options}))
        create_collection(stores[-1], properties=properties or {})
        return stores[-1]

    yield make
    for store in stores:
        store.close()


# Killed and restarted.


def test_a_batch_that_was_not_acknowledged_is_deleted_before_it_is_written_again(
    made: Any, weaviate_server: Any
) -> None:
    store = made()
    weaviate_server.lost = 1  # the client itself sends it again, and is told that all is well
    report = import_passages(store, pairs(), batch=10)
    assert (report.written, report.failed) == (30, [])
    assert verify_passages(store, MANY).ok


def test_a_resumed_import_mends_the_batch_that_the_last_one_died_in(made: Any, weaviate_server: Any) -> None:
    store = made()
    import_passages(store, pairs()[:20], batch=10)
    for passage in MANY[10:20]:  # killed after the batch was stored, and before it was indexed
        weaviate_server.collections["Facts"].of("")[str(object_id(passage))].indexed = False
    assert len(verify_passages(store, MANY[:20]).not_found) == 10
    report = import_passages(store, pairs(), batch=10)
    assert (report.written, report.unchanged, report.rewritten) == (10, 20, 10)
    assert verify_passages(store, MANY).ok


def test_a_mended_batch_keeps_the_vectors_that_are_not_given_again(made: Any, weaviate_server: Any) -> None:
    store = made()
    import_passages(store, pairs()[:10], batch=10)
    for one in weaviate_server.collections["Facts"].of("").values():
        one.indexed = False
    assert import_passages(store, MANY, batch=10).rewritten == 10
    assert verify_passages(store, MANY[:10]).ok


def test_a_finished_import_rewrites_nothing(made: Any, weaviate_server: Any) -> None:
    store = made()
    import_passages(store, pairs(), batch=10)
    weaviate_server.asked.clear()
    assert import_passages(store, pairs(), batch=10).rewritten == 0
    assert {one.method for one in weaviate_server.asked} == {"Search"}


def test_verify_names_what_is_missing_lost_or_without_a_vector(made: Any, weaviate_server: Any) -> None:
    store = made()
    report = import_passages(store, pairs(), verify=True)
    assert report.verified is not None
    assert report.verified.ok
    assert report.verified.checked == 30
    objects = weaviate_server.collections["Facts"].of("")
    lost, bare, gone = (str(object_id(MANY[number])) for number in (3, 4, 5))
    objects[lost].indexed = False
    objects[bare].vectors = {}
    del objects[gone]
    found = verify_passages(store, MANY)
    assert (found.not_found, found.without_vector, found.missing) == ([lost], [bare], [gone])
    assert not found.ok


@pytest.mark.parametrize("times", [1, 12], ids=["once", "for long"])
@pytest.mark.parametrize(
    ("code", "said"),
    [
        (grpc.StatusCode.UNAVAILABLE, "connect failed"),
        (grpc.StatusCode.UNKNOWN, "no read replica found"),
        (grpc.StatusCode.UNKNOWN, "dial tcp 127.0.0.1:7101: connect: connection refused"),
    ],
)
def test_a_restart_does_not_end_an_import(
    made: Any, weaviate_server: Any, code: Any, said: str, times: int
) -> None:
    store = made()
    weaviate_server.fail("Search", code, said, times=times)
    weaviate_server.fail("BatchObjects", code, said, times=times)
    assert import_passages(store, pairs()).written == 30


def test_a_server_that_is_still_starting_is_waited_for(made: Any, weaviate_server: Any) -> None:
    store = made()
    store.close()
    weaviate_server.rest_faults.extend([503] * 5)
    assert import_passages(store, pairs()).written == 30


def test_patience_has_an_end(made: Any, weaviate_server: Any) -> None:
    store = made()
    weaviate_server.fail("BatchObjects", grpc.StatusCode.UNKNOWN, "no read replica found", times=100_000)
    with pytest.raises(ImportInterruptedError, match="no read replica"):
        import_passages(store, pairs(), patience=0.2)


def test_the_pause_before_a_reconnection_is_bounded(made: Any) -> None:
    """By itself gRPC waits up to two minutes between tries, and answers nothing meanwhile."""
    options = dict(made().connection._arguments()["additional_config"].grpc_config.channel_options)
    assert options["grpc.max_reconnect_backoff_ms"] <= 2_000


# One bad passage.


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", date(2024, 2, 29)),
        ("date", datetime(2024, 2, 29, 12, 30)),
        ("date", datetime(2024, 2, 29, 12, 30, tzinfo=timezone(timedelta(hours=2)))),
        ("date", "2024-02-29T12:30:00Z"),
        ("date", "2024-02-29T12:30:00.250Z"),
        ("date", np.datetime64("2024-02-29T12:30:00")),
        ("int", np.int64(7)),
        ("number", np.float32(0.5)),
        ("boolean", np.True_),
        ("text", "half an emoji \ud83d"),
        ("text", date(2024, 2, 29)),
        ("text[]", {"b", "a"}),
        ("text[]", ("a", "b")),
        ("text[]", np.array(["a", "b"])),
        ("int[]", np.arange(3)),
        ("uuid", uuid.UUID(int=5)),
        ("uuid", uuid.UUID(int=5).hex),
        ("int", 2**53 + 1),
    ],
)
def test_a_value_is_stored_once_and_left_alone_after(made: Any, kind: str, value: Any) -> None:
    store = made({"value": kind})
    passage = [Passage("A fact.", id="a", metadata={"value": value})]
    first = import_passages(store, passage)
    assert (first.written, first.failed) == (1, [])
    again = import_passages(store, passage)
    assert (again.written, again.unchanged) == (0, 1)


def test_a_whole_number_that_would_be_rounded_comes_back_exact(made: Any) -> None:
    store = made({"number": "int"})
    import_passages(store, [Passage("A fact.", id="a", metadata={"number": 2**53 + 1})])
    assert store("fact", 1)[0].metadata == {"number": 2**53 + 1}


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("text", b"bytes", "bytes"),
        ("text[]", ["a", 1], "mixed"),
        ("number", float("nan"), "nan"),
        ("text", object(), "object"),
        ("int", "soon", "int"),
    ],
)
def test_a_value_that_cannot_be_stored_costs_one_passage(made: Any, kind: str, value: Any, said: str) -> None:
    store = made({"value": kind})
    bad = Passage("A bad fact.", id="bad", metadata={"value": value})
    report = import_passages(store, [MANY[0], bad, *MANY[1:5]])
    assert report.written == 5
    assert [failed.id for failed in report.failed] == ["bad"]
    assert said in report.failed[0].error


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        ([], "non-empty"),
        ([1.0, float("nan"), 0.0, 0.0], "NaN"),
        ([1.0, float("inf"), 0.0, 0.0], "infinity"),
        ([1.0, 2.0], "2 dimensions.*have 4"),
    ],
)
def test_a_bad_vector_is_never_sent(made: Any, weaviate_server: Any, vector: list[float], said: str) -> None:
    store = made()
    bad = (Passage("A bad fact.", id="bad"), vector)
    report = import_passages(store, [bad, *pairs()])  # the first of a new collection's first batch
    assert report.written == 30
    assert [failed.id for failed in report.failed] == ["bad"]
    assert re.search(said, report.failed[0].error)
    assert len(weaviate_server.collections["Facts"].of("")) == 30
    later = import_passages(store, [(Passage("Another.", id="other"), [1.0, 2.0])])
    assert "have 4" in later.failed[0].error, "the collection knows its dimension"


@pytest.mark.parametrize("where", ["text", "metadata"])
def test_a_batch_above_the_message_limit_is_halved(made: Any, weaviate_server: Any, where: str) -> None:
    store = made()
    weaviate_server.largest = 20_000
    big = "word " * 300
    many = [
        Passage(big, id=f"big-{number}")
        if where == "text"
        else Passage("x", id=f"big-{number}", metadata={"m": big})
        for number in range(40)
    ]
    huge = Passage("word " * 10_000, id="huge")
    report = import_passages(store, [*many[:20], huge, *many[20:]])
    assert report.written == 40
    assert [failed.id for failed in report.failed] == ["huge"]
    assert "too large" in report.failed[0].error


# Servers that take nothing.


def test_a_server_that_may_only_be_read_ends_the_import_at_once(made: Any, weaviate_server: Any) -> None:
    store = made()
    weaviate_server.refuses["BatchObjects"] = "store is read-only due to: disk usage too high"
    with pytest.raises(ImportInterruptedError, match=r"10 passages of a batch.*read-only") as caught:
        import_passages(store, pairs(), batch=10)
    assert len(caught.value.report.failed) == 10
    assert sum(one.method == "BatchObjects" for one in weaviate_server.asked) == 1


def test_a_batch_that_is_refused_for_several_reasons_tells_each(
    made: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = made({"year": "int", "sure": "boolean"})
    bad = [
        Passage("One.", id="one", metadata={"year": "soon"}),
        Passage("Two.", id="two", metadata={"sure": "yes"}),
        Passage("Three.", id="three", metadata={"year": "late"}),
    ]
    report = import_passages(store, bad)
    said = {failed.id: failed.error for failed in report.failed}
    assert "year" in said["one"] and "year" in said["three"]  # noqa: PT018
    assert "sure" in said["two"] and "year" not in said["two"]  # noqa: PT018


def test_refused_passages_do_not_fill_the_log(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    store = made({"year": "int"})
    long = Passage("planted words " * 50, id="bad", metadata={"year": "soon"})
    assert len(import_passages(store, [*MANY, long]).failed) == 1
    assert "planted words" not in caplog.text
