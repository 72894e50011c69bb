"""`WeaviateRetriever` when something fails: typed errors in bounded time, no key in any of them, forks."""

from __future__ import annotations

import asyncio
import logging
import pickle
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from crag_dspy.errors import RetrieverError
from crag_dspy.passages import Passage
from crag_dspy.retrievers.weaviate import WeaviateRetriever
from crag_dspy.retrievers.weaviate_collection import create_collection
from crag_dspy.retrievers.weaviate_import import import_passages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = "wv-planted-1a2b3c4d"

Ask = Any  # (retriever, query) -> passages


@pytest.fixture(params=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    def sync(retriever: WeaviateRetriever, query: str = "water") -> list[Passage]:
        return retriever(query, 3)

    def awaited(retriever: WeaviateRetriever, query: str = "water") -> list[Passage]:
        return asyncio.run(retriever.acall(query, 3))

    return sync if request.param == "sync" else awaited


@pytest.fixture
def store(weaviate_server: Any) -> Callable[..., WeaviateRetriever]:
    """A retriever on a collection with one passage."""

    def make(**options: Any) -> WeaviateRetriever:
        given = {
            "grpc_port": weaviate_server.grpc_port,
            "mode": "bm25",
            "backoff": 0.0,
            "timeout": 60.0,
            **options,
        }
        return WeaviateRetriever.from_url(weaviate_server.url, "Articles", **given)

    filling = make()
    create_collection(filling)
    import_passages(filling, [Passage("Water boils.", id="water")])
    filling.close()
    weaviate_server.asked.clear()
    return make


# Faults of the service.


def test_a_node_that_is_changing_is_asked_again(store: Any, ask: Ask, weaviate_server: Any) -> None:
    weaviate_server.fail("Search", grpc.StatusCode.ABORTED)
    weaviate_server.fail("Search", grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert len(ask(store())) == 1
    assert len(weaviate_server.asked) == 3


def test_a_connection_that_is_refused_is_tried_again(store: Any, ask: Ask, weaviate_server: Any) -> None:
    weaviate_server.rest_faults.extend([503, 502])
    assert len(ask(store())) == 1


def test_a_lasting_fault_ends_after_the_retries(store: Any, ask: Ask, weaviate_server: Any) -> None:
    weaviate_server.fail("Search", grpc.StatusCode.RESOURCE_EXHAUSTED, "out of memory", times=9)
    with pytest.raises(RetrieverError, match=r"collection 'Articles'.*out of memory"):
        ask(store(retries=2))
    assert len(weaviate_server.asked) == 3


def test_what_would_be_refused_again_is_asked_once(store: Any, ask: Ask, weaviate_server: Any) -> None:
    weaviate_server.fail("Search", grpc.StatusCode.UNKNOWN, "no such thing", times=9)
    with pytest.raises(RetrieverError, match="no such thing"):
        ask(store())
    assert len(weaviate_server.asked) == 1


def test_a_missing_collection_is_named(ask: Ask, weaviate_server: Any) -> None:
    other = WeaviateRetriever.from_url(
        weaviate_server.url, "Books", grpc_port=weaviate_server.grpc_port, mode="bm25"
    )
    with pytest.raises(RetrieverError, match=r"'Books'.*check the collection's name"):
        ask(other)


def test_hybrid_without_any_vectorizer_says_what_is_missing(store: Any, ask: Ask) -> None:
    with pytest.raises(RetrieverError, match="pass embedder="):
        ask(store(mode="hybrid"))


@pytest.mark.parametrize("status", [None, grpc.StatusCode.UNAVAILABLE], ids=["silent", "unavailable"])
def test_a_service_that_does_not_answer_costs_the_timeout(
    store: Any, ask: Ask, weaviate_server: Any, status: Any
) -> None:
    """The client alone tries an unavailable node for a minute."""
    weaviate_server.fail("Search", status, times=20)
    began = time.monotonic()
    with pytest.raises(RetrieverError, match=r"no answer within 0\.4 s"):
        ask(store(timeout=0.4))
    assert time.monotonic() - began < 20


def test_nobody_listening_is_an_error_with_the_address(ask: Ask, weaviate_server: Any) -> None:
    weaviate_server.stop()
    gone = WeaviateRetriever.from_url(
        weaviate_server.url, "Articles", grpc_port=weaviate_server.grpc_port, backoff=0.0, mode="bm25"
    )
    with pytest.raises(RetrieverError, match=f"{weaviate_server.url}.*check that it is up"):
        ask(gone)


def test_a_search_works_after_one_that_failed(store: Any, ask: Ask, weaviate_server: Any) -> None:
    retriever = store()
    weaviate_server.fail("Search", grpc.StatusCode.INTERNAL)
    with pytest.raises(RetrieverError):
        ask(retriever)
    assert len(ask(retriever)) == 1


def test_a_cancelled_search_is_cancelled(store: Any, weaviate_server: Any) -> None:
    retriever = store(timeout=60.0)

    async def cancelled() -> None:
        await retriever.acall("water", 1)
        weaviate_server.asked.clear()
        weaviate_server.fail("Search", None)
        task = asyncio.create_task(retriever.acall("water", 1))
        while not weaviate_server.asked:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        weaviate_server.let_go.set()
        assert len(await retriever.acall("water", 1)) == 1, "others keep the connection"

    asyncio.run(cancelled())


# Keys.


def test_the_key_is_sent_to_both_interfaces(store: Any, ask: Ask, weaviate_server: Any) -> None:
    weaviate_server.key = KEY
    assert len(ask(store(key=KEY))) == 1
    assert weaviate_server.asked[-1].metadata["authorization"] == f"Bearer {KEY}"


def test_the_key_comes_from_the_environment(
    store: Any, ask: Ask, weaviate_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaviate_server.key = KEY
    retriever = store()
    monkeypatch.setenv("WEAVIATE_API_KEY", KEY)
    assert len(ask(retriever)) == 1


def test_no_key_where_one_is_needed_says_so(store: Any, ask: Ask, weaviate_server: Any) -> None:
    weaviate_server.key = KEY
    with pytest.raises(RetrieverError, match="set WEAVIATE_API_KEY or pass key="):
        ask(store())


def test_the_key_is_nowhere_but_in_the_request(
    store: Any, ask: Ask, weaviate_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    retriever = store(key=KEY)
    assert len(ask(retriever)) == 1
    weaviate_server.key = "another"  # the server repeats the key it was sent
    with pytest.raises(RetrieverError, match=r"\[key\]") as caught:
        ask(retriever)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None, "the client's error would lead to the request, and so to the key"
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("crag_dspy")]
    said = [
        repr(retriever),
        repr(vars(retriever)),
        repr(vars(retriever.connection)),
        str(error),
        repr(error),
        *ours,
    ]
    pickled = [str(pickle.dumps(retriever)), str(pickle.dumps(error))]
    assert [text for text in said + pickled if KEY in text] == []


def test_keys_of_vectorizers_are_named_and_read_when_needed(
    store: Any, ask: Ask, weaviate_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever = store(headers={"X-OpenAI-Api-Key": "OPENAI_API_KEY"})
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(RetrieverError, match="OPENAI_API_KEY, which is not set"):
        ask(retriever)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    assert len(ask(retriever)) == 1
    assert weaviate_server.asked[-1].metadata["x-openai-api-key"] == "sk-planted"
    assert b"sk-planted" not in pickle.dumps(retriever)


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A proxy that everything would go through which is not meant for the configured address."""
    met: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            met.append(self.path)
            self.send_error(502)

        do_CONNECT = do_GET = do_POST = do  # noqa: N815

        def log_message(self, *args: Any) -> None:
            """Tests read `met`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    # In capitals: gRPC reads the others.
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
    yield met
    server.shutdown()
    server.server_close()


def test_no_other_address_is_asked(store: Any, ask: Ask, witness: list[str]) -> None:
    """The client by itself asks a package registry for a newer one, whenever it connects."""
    assert len(ask(store())) == 1
    assert witness == []


def test_the_witness_would_see_it(protocol_place: Any, witness: list[str]) -> None:
    import weaviate

    host, port = protocol_place.url.removeprefix("http://").split(":")
    with pytest.raises(Exception, match="gRPC"):  # its first check: this server has no health service
        weaviate.connect_to_local(host, int(port), protocol_place.grpc_port)
    client = protocol_place.client()
    client._connection._check_package_version("sync")
    client.close()
    assert len(witness) == 1


# Processes.

FORK = """
import asyncio, os, sys
from crag_dspy.errors import RetrieverError
from crag_dspy.retrievers.weaviate import WeaviateRetriever

url, grpc_port, how = sys.argv[1:]
retriever = WeaviateRetriever.from_url(url, "Articles", grpc_port=int(grpc_port), mode="bm25", timeout=60.0)

def search():
    return [passage.id for passage in retriever("water", 1)]

if how == "before":
    pass
elif how == "sync":
    assert search() == ["water"]
else:
    assert asyncio.run(retriever.acall("water", 1))
children = []
for number in range(2):
    if (child := os.fork()) == 0:
        try:
            found = search()
        except RetrieverError as error:
            found = str(error)
        print(f"child {found}\\n", end="", flush=True)
        os._exit(0)
    children.append(child)
print("exits", [os.waitpid(child, 0)[1] for child in children], "parent", search(), flush=True)
os._exit(0)
"""


def forked(server: Any, how: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, server.url, str(server.grpc_port), how],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("how", ["before", "sync"])
def test_forked_children_connect_for_themselves(store: Any, weaviate_server: Any, how: str) -> None:
    """Field case 17: a server loaded before it forks (gunicorn with preload), having searched already or not."""
    assert forked(weaviate_server, how) == ["child ['water']"] * 2 + ["exits [0, 0] parent ['water']"]
    assert len({asked.peer for asked in weaviate_server.asked}) == 3


def test_a_fork_after_an_async_search_is_an_error_and_no_hang(store: Any, weaviate_server: Any) -> None:
    *children, parent = forked(weaviate_server, "async")
    assert parent == "exits [0, 0] parent ['water']"
    assert [("start with 'spawn'" in child) for child in children] == [True, True]


def test_a_client_of_the_caller_is_not_used_after_a_fork(store: Any, weaviate_server: Any) -> None:
    script = """
import os, sys, weaviate
from crag_dspy.errors import RetrieverError
from crag_dspy.retrievers.weaviate import WeaviateRetriever
host, port = sys.argv[1].removeprefix("http://").split(":")
client = weaviate.connect_to_local(host, int(port), int(sys.argv[2]), skip_init_checks=True)
retriever = WeaviateRetriever.from_client(client, "Articles", mode="bm25")
assert retriever("water", 1)
if (child := os.fork()) == 0:
    try:
        retriever("water", 1)
    except RetrieverError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
os._exit(0)
"""
    arguments = [weaviate_server.url, str(weaviate_server.grpc_port)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "Make the retriever from a url" in done.stdout


# Places that cannot be had in a test: what the client is asked to do.


def test_the_cloud_is_asked_with_the_key_and_nothing_else(
    store: Any, weaviate_server: Any, protocol_place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import weaviate

    asked: list[dict[str, Any]] = []

    def connect(**arguments: Any) -> Any:
        asked.append(arguments)
        return protocol_place.client()

    monkeypatch.setattr(weaviate, "connect_to_weaviate_cloud", connect)
    cloud = WeaviateRetriever.cloud("my.weaviate.cloud", "Articles", key=KEY, mode="bm25", timeout=7.0)
    assert len(cloud("water", 1)) == 1
    (arguments,) = asked
    assert arguments["cluster_url"] == "my.weaviate.cloud"
    assert arguments["auth_credentials"].api_key == KEY
    assert arguments["additional_config"].timeout.query == 7.0
    assert arguments["skip_init_checks"] is True
    cloud.close()


def test_an_embedded_server_is_started_once_a_machine(
    store: Any, ask: Ask, weaviate_server: Any, protocol_place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process finds the ports taken, and uses the server that runs."""
    import weaviate

    asked: list[tuple[str, dict[str, Any]]] = []

    def start(**arguments: Any) -> Any:
        asked.append(("start", arguments))
        raise weaviate.exceptions.WeaviateStartUpError("processes are already listening on ports")

    def connect(host: str, **arguments: Any) -> Any:
        asked.append((host, arguments))
        return protocol_place.client()

    monkeypatch.setattr(weaviate, "connect_to_embedded", start)
    monkeypatch.setattr(weaviate, "connect_to_local", connect)
    monkeypatch.setattr(type(protocol_place), "client", lambda self: _direct(protocol_place))
    embedded = WeaviateRetriever.embedded("Articles", path="data", mode="bm25")
    assert len(ask(embedded)) == 1
    assert asked == [
        ("start", {"persistence_data_path": "data", "port": 8079, "grpc_port": 50050}),
        ("127.0.0.1", {"port": 8079, "grpc_port": 50050, "skip_init_checks": True}),
    ]
    embedded.close()


def _direct(place: Any) -> Any:
    import weaviate

    host, port = place.url.removeprefix("http://").split(":")
    return weaviate.connect_to_custom(
        host, int(port), False, host, place.grpc_port, False, skip_init_checks=True
    )
