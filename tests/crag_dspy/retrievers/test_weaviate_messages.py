"""What is said when a Weaviate refuses: the cause, and the argument to change. The table is in docs/weaviate.md."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from crag_dspy.errors import ConfigError, CragError, RetrieverError
from crag_dspy.live.secret import Secret
from crag_dspy.passages import Passage
from crag_dspy.retrievers.weaviate import WeaviateRetriever
from crag_dspy.retrievers.weaviate_collection import create_collection
from crag_dspy.retrievers.weaviate_import import import_passages

Ask = Callable[..., list[Passage]]


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    def sync(retriever: WeaviateRetriever, query: str = "water") -> list[Passage]:
        return retriever(query, 3)

    def awaited(retriever: WeaviateRetriever, query: str = "water") -> list[Passage]:
        return asyncio.run(retriever.acall(query, 3))

    return sync if request.param == "sync" else awaited


@pytest.fixture
def store(weaviate_server: Any) -> Iterator[Callable[..., WeaviateRetriever]]:
    stores: list[WeaviateRetriever] = []

    def make(**options: Any) -> WeaviateRetriever:
        place = {"grpc_port": weaviate_server.grpc_port, "mode": "bm25", "backoff": 0.0, "timeout": 30.0}
        stores.append(WeaviateRetriever.from_url(weaviate_server.url, "Articles", **{**place, **options}))
        return stores[-1]

    filling = make()
    create_collection(filling)
    import_passages(filling, [Passage("Water boils.", id="water")])
    yield make
    for one in stores:
        one.close()


# Keys.


@pytest.mark.parametrize("key", ["line1\nline2", "null\0inside", "schlüssel-key", "tab\tinside"])
def test_a_key_that_no_header_carries_is_refused_unseen(
    store: Any, ask: Ask, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="copy it again") as caught:
        Secret(key, "WEAVIATE_API_KEY")
    assert key not in repr(caught.value.args)
    if "\0" not in key:  # no environment variable holds one
        monkeypatch.setenv("WEAVIATE_API_KEY", key)
        with pytest.raises(CragError, match="WEAVIATE_API_KEY") as caught:
            ask(store())
        assert "line2" not in repr(caught.value.args)
        assert key not in repr(caught.value.args)


# Hints.


def test_more_replicas_than_nodes(weaviate_server: Any, store: Any) -> None:
    weaviate_server.nodes = 1
    other = WeaviateRetriever.from_url(weaviate_server.url, "Other", grpc_port=weaviate_server.grpc_port)
    with pytest.raises(RetrieverError, match="fewer nodes than replicas=") as caught:
        create_collection(other, replicas=3)
    assert "text_property" not in str(caught.value)


def test_a_key_without_the_permission(weaviate_server: Any, store: Any, ask: Ask) -> None:
    said = (
        "rbac: authorization, forbidden action: user 'reader' has insufficient permissions to read_data "
        "[[Domain: data, Collection: Articles, Tenant: *, Object: *]]"
    )
    weaviate_server.fail("Search", grpc.StatusCode.PERMISSION_DENIED, said)
    with pytest.raises(RetrieverError, match="give it the permission") as caught:
        ask(store())
    assert "tenant=" not in str(caught.value)


def test_a_cold_tenant(weaviate_server: Any, store: Any, ask: Ask) -> None:
    acme = WeaviateRetriever.from_url(
        weaviate_server.url, "Tenants", grpc_port=weaviate_server.grpc_port, mode="bm25", tenant="acme"
    )
    create_collection(acme, tenants=True)
    import_passages(acme, [Passage("Water.", id="a")])
    weaviate_server.cold.add("acme")
    with pytest.raises(RetrieverError, match="activate it") as caught:
        ask(acme)
    assert "tenant's name" not in str(caught.value)
    acme.close()


def test_an_import_waits_for_a_server_that_knows_no_collection_yet(weaviate_server: Any, store: Any) -> None:
    weaviate_server.starting = True
    with pytest.raises(RetrieverError, match="is starting") as caught:
        import_passages(store(), [Passage("Water.", id="a")], patience=0.1)
    assert "make it" not in str(caught.value)
    asked = threading.Timer(0.3, setattr, (weaviate_server, "starting", False))
    asked.start()
    assert import_passages(store(), [Passage("Water.", id="a")]).written == 1


@pytest.mark.parametrize("listening", [False, True], ids=["nobody", "no gRPC"])
def test_a_wrong_grpc_port_is_named_within_the_timeout(
    weaviate_server: Any, ask: Ask, store: Any, listening: bool
) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if listening:
            taken.listen()
        wrong = store(grpc_port=taken.getsockname()[1], timeout=3.0)
        began = time.monotonic()
        with pytest.raises(RetrieverError, match="grpc_port"):
            ask(wrong)
        assert time.monotonic() - began < 10


def test_one_port_for_both_is_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match="grpc_port=8080 is the port of the url"):
        WeaviateRetriever.from_url("http://localhost:8080", "Articles", grpc_port=8080)
    WeaviateRetriever.from_url("http://localhost:8080", "Articles", grpc_port=8080, grpc_host="other")


@pytest.mark.parametrize("query", ["\ud83d", " \udc00 ", "water \ud83d"])
def test_half_an_emoji_in_a_query(store: Any, ask: Ask, query: str) -> None:
    assert [one.id for one in ask(store(), query)] == (["water"] if "water" in query else [])


# What holds.


def test_replicas_that_do_not_agree_are_told(
    weaviate_server: Any, store: Any, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    agreed = store(consistency="ALL")
    assert len(ask(agreed)) == 1
    assert "replicas" not in caplog.text
    weaviate_server.inconsistent = True
    with caplog.at_level(logging.WARNING):
        assert len(ask(agreed)) == 1
    assert "replicas do not agree" in caplog.text


def test_closing_while_others_search_shows_nowhere(store: Any) -> None:
    shared = store()
    done, errors = threading.Event(), []

    def search() -> None:
        for _ in range(25):
            try:
                assert len(shared("water", 1)) == 1
            except Exception as error:  # noqa: BLE001 - any is a failure of this test
                errors.append(repr(error))

    def close() -> None:
        while not done.is_set():
            shared.close()
            done.wait(0.02)

    threads = [threading.Thread(target=search) for _ in range(4)]
    closing = threading.Thread(target=close)
    for thread in [*threads, closing]:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    closing.join()
    assert errors == []
