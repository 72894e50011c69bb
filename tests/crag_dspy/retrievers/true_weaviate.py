"""The cases of the Weaviate tests on a true server, as a table. Not collected by pytest.

    python tests/crag_dspy/retrievers/true_weaviate.py http://localhost:8080 --grpc-port 50051 \\
        --kill "docker kill -s KILL weaviate" --start "docker start weaviate"

It makes collections named CragTrue..., and removes them. Without --kill and --start those cases are skipped.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from crag_dspy import Passage, WeaviateRetriever, create_collection, import_passages
from crag_dspy.errors import CragError
from crag_dspy.retrievers.weaviate_describe import describe
from crag_dspy.retrievers.weaviate_verify import verify_passages

DIMENSION = 64
ROWS = 20_000


def embed(texts: list[str]) -> Any:
    """Texts that share words are near: no model, and the same everywhere."""
    rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().split():
            row += np.random.default_rng(list(word.encode())).standard_normal(DIMENSION)
    return rows


class SkippedError(Exception):
    """A case that needs what was not given."""


@dataclass
class Server:
    url: str
    grpc_port: int
    kill_command: str | None
    start_command: str | None

    @contextmanager
    def store(self, **options: Any) -> Iterator[WeaviateRetriever]:
        """A retriever on a collection that is not there yet, and is removed at the end."""
        given = {"grpc_port": self.grpc_port, "mode": "bm25", **options}
        store = WeaviateRetriever.from_url(self.url, f"CragTrue{uuid.uuid4().hex[:10]}", **given)
        try:
            yield store
        finally:
            store.connection.client().collections.delete(store.collection)
            store.close()

    def restart(self, away: float) -> None:
        """Kill the server and start it `away` seconds later."""
        if not self.kill_command or not self.start_command:
            raise SkippedError("needs --kill and --start")
        subprocess.run(shlex.split(self.kill_command), check=True, capture_output=True)
        time.sleep(away)
        subprocess.run(shlex.split(self.start_command), check=True, capture_output=True)


def passages(count: int) -> list[Passage]:
    return [
        Passage(f"Fact number{number} of many, word{number % 97}.", id=f"fact-{number}")
        for number in range(count)
    ]


def refused(call: Callable[[], Any], said: str) -> str:
    """The message of the error that `call` raises, which must hold `said`."""
    try:
        call()
    except CragError as error:
        if said in str(error):
            return str(error)[:90]
        raise AssertionError(f"said {str(error)[:200]!r}, and not {said!r}") from None
    raise AssertionError("raised nothing")


# The cases, by the sections of what a true server showed.


def killed_during_an_import(server: Server) -> str:
    """Section 1: killed three times, every row is there, once, and found by its own vector."""
    many = passages(ROWS)
    if not server.kill_command:
        raise SkippedError("needs --kill and --start")
    with server.store(embedder=embed) as store:
        create_collection(store)
        timers = [threading.Timer(seconds, server.restart, (7,)) for seconds in (3, 25, 50)]
        for timer in timers:
            timer.start()
        report = import_passages(store, many, patience=300)
        for timer in timers:
            timer.join()
        again = import_passages(store, many, patience=300)
        found = verify_passages(store, many)
        assert found.ok, f"missing {len(found.missing)}, not found by vectors {len(found.not_found)}"
        return (
            f"{report.written} written, {again.unchanged} unchanged, {again.rewritten} rewritten, all found"
        )


def answers_after_an_outage(server: Server) -> str:
    """Section 1: seconds from a ready server to the first answer, after two minutes of questions in vain."""
    with server.store(timeout=5.0) as store:
        create_collection(store)
        import_passages(store, passages(50))
        store("fact", 1)
        restarting = threading.Thread(target=server.restart, args=(120,))
        if not server.kill_command:
            raise SkippedError("needs --kill and --start")
        restarting.start()
        ready: float | None = None
        while True:
            if not restarting.is_alive() and ready is None and store.connection.client().is_ready():
                ready = time.monotonic()
            try:
                if store("fact", 1) and ready is not None:
                    break
            except CragError:
                time.sleep(0.5)
        waited = time.monotonic() - ready
        assert waited < 15, f"{waited:.0f} s"
        return f"{waited:.1f} s after the server was ready"


def values_are_left_alone(server: Server) -> str:
    """Section 1: dates, UUIDs and numbers are not written again at the next run."""
    values = {
        "day": date(2024, 2, 29),
        "at": "2024-02-29T12:30:00.250Z",
        "key": uuid.UUID(int=5).hex,
        "small": np.int64(7),
        "large": 2**53 + 1,
        "tags": {"b", "a"},
    }
    kinds = {"day": "date", "at": "date", "key": "uuid", "small": "int", "large": "int", "tags": "text[]"}
    with server.store() as store:
        create_collection(store, properties=kinds)
        rows = [Passage("A fact \ud83d.", id="a", metadata=values)]
        first, again = import_passages(store, rows), import_passages(store, rows)
        assert (first.written, first.failed, again.unchanged) == (1, [], 1), (first, again)
        assert store("fact", 1)[0].metadata["large"] == 2**53 + 1
        return "1 written, 1 unchanged"


def bad_passages_cost_themselves(server: Server) -> str:
    """Section 1: bytes, mixed lists, bad vectors and a text above the message limit are in `report.failed`."""
    with server.store() as store:
        create_collection(store, properties={"value": "text", "many": "text[]"})
        good = [1.0] * DIMENSION
        bad: list[Any] = [
            (Passage("One.", id="bytes", metadata={"value": b"x"}), good),
            (Passage("Two.", id="mixed", metadata={"many": ["a", 1]}), good),
            (Passage("Three.", id="short"), [1.0, 2.0]),
            (Passage("Four.", id="empty"), []),
            (Passage("Five.", id="nan"), [float("nan")] * DIMENSION),
            (Passage("word " * 25_000_000, id="huge"), good),
        ]
        rows = [(passage, good) for passage in passages(30)]
        report = import_passages(store, [*bad, *rows])
        failed = {one.id for one in report.failed}
        assert (report.written, failed) == (30, {"bytes", "mixed", "short", "empty", "nan", "huge"}), report
        return f"30 written, {len(failed)} failed"


def both_scripts(server: Server) -> str:
    """Section 2: words are found in English and in Chinese."""
    with server.store() as store:
        create_collection(store)
        import_passages(
            store, [Passage("水在一百度沸腾。", id="zh"), Passage("Lead melts at low heat.", id="en")]
        )
        assert [one.id for one in store("一百度沸腾", 5)] == ["zh"]
        assert [one.id for one in store("what melts", 5)] == ["en"]
        remembered = store.connection.client().collections.get(store.collection).config.get().description
        return str(remembered)[-20:]


def embedder_is_remembered(server: Server) -> str:
    """Section 3: without the embedder, and with another, the message names embedder=."""
    with server.store(mode="hybrid", embedder=embed) as store:
        create_collection(store)
        import_passages(store, passages(10))
        assert store("number3", 1)
        given = {"grpc_port": server.grpc_port}
        bare = WeaviateRetriever.from_url(server.url, store.collection, **given)
        said = refused(lambda: bare("fact", 1), "embedder=")
        another = WeaviateRetriever.from_url(
            server.url, store.collection, embedder=lambda texts: -embed(texts), **given
        )
        refused(lambda: another("fact", 1), "embedder=")
        about = describe(store)
        assert (about["objects"], about["tokenization"]) == (10, "both"), about
        return said


def filters_are_exact(server: Server) -> str:
    """Section 4: "red" is not "not red", "C" not "C++", and "the" is a value."""
    with server.store() as store:
        create_collection(store, properties={"team": "text", "on": "date"})
        teams = {"a": "red", "b": "not red", "c": "C", "d": "C++", "e": "the"}
        rows = [
            Passage("Water.", id=name, metadata={"team": team, "on": date(2024, 1, 2)})
            for name, team in teams.items()
        ]
        import_passages(store, rows)
        for name, team in teams.items():
            found = [one.id for one in store.with_filters({"team": team})("water", 9)]
            assert found == [name], (team, found)
        assert len(store.with_filters({"on": "2024-01-02"})("water", 9)) == 5
        return "5 of 5"


def wrong_names_are_named(server: Server) -> str:
    """Section 4: a wrong property names its argument, in an empty collection too."""
    with server.store() as store:
        create_collection(store)
        place = {"grpc_port": server.grpc_port, "mode": "bm25"}
        for argument, value in (
            ("text_property", "body"),
            ("metadata", ["pages"]),
            ("query_properties", ["pages"]),
        ):
            wrong = WeaviateRetriever.from_url(server.url, store.collection, **place, **{argument: value})
            said = refused(lambda wrong=wrong: wrong("water", 1), f"{argument}=")
        return said


def hints(server: Server) -> str:
    """Section 5: a wrong gRPC port within the timeout, more replicas than nodes, a missing collection."""
    began = time.monotonic()
    wrong = WeaviateRetriever.from_url(server.url, "CragTrueNone", grpc_port=1, mode="bm25", timeout=5.0)
    refused(lambda: wrong("water", 1), "grpc_port")
    assert time.monotonic() - began < 8
    with server.store() as store:
        refused(lambda: store("water", 1), "collection's name")
        refused(lambda: create_collection(store, replicas=99), "replicas=")
        said = refused(
            lambda: WeaviateRetriever.from_url(server.url, "Docs", key="line1\nline2"), "copy it again"
        )
        assert "line1" not in said
    return "4 messages"


def closing_while_searching(server: Server) -> str:
    """Section 5: 400 searches while another thread closes the connection."""
    with server.store(timeout=30.0) as store:
        create_collection(store)
        import_passages(store, passages(20))
        errors: list[str] = []
        done = threading.Event()

        def search() -> None:
            for _ in range(100):
                try:
                    store("fact", 1)
                except Exception as error:  # noqa: BLE001 - any is a failure of this case
                    errors.append(repr(error))

        def close() -> None:
            while not done.wait(0.02):
                store.close()

        threads = [threading.Thread(target=search) for _ in range(4)]
        closing = threading.Thread(target=close)
        for thread in (*threads, closing):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        closing.join()
        assert not errors, f"{len(errors)} errors: {errors[0]}"
        return "400 searches"


CASES = [
    values_are_left_alone,
    bad_passages_cost_themselves,
    killed_during_an_import,
    answers_after_an_outage,
    both_scripts,
    embedder_is_remembered,
    filters_are_exact,
    wrong_names_are_named,
    hints,
    closing_while_searching,
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("url", help="such as http://localhost:8080")
    parser.add_argument("--grpc-port", type=int, default=50051)
    parser.add_argument("--kill", metavar="COMMAND", help="kills the server, as kill -9 does")
    parser.add_argument("--start", metavar="COMMAND", help="starts it again, and returns")
    args = parser.parse_args()
    server = Server(args.url, args.grpc_port, args.kill, args.start)
    bad = 0
    for case in CASES:
        began = time.monotonic()
        try:
            state, said = "ok", case(server)
        except SkippedError as why:
            state, said = "skipped", str(why)
        except Exception as error:  # noqa: BLE001 - one case that fails does not end the others
            state, said, bad = "FAILED", f"{type(error).__name__}: {error}"[:160], bad + 1
        sys.stdout.write(f"{state:8} {case.__name__:30} {time.monotonic() - began:6.1f} s  {said}\n")
        sys.stdout.flush()
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
