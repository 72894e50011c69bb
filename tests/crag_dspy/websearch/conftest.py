"""A server that speaks Tavily's HTTP search protocol on 127.0.0.1, for the real Tavily clients.

What it covers: the address, the method, the headers, the JSON of the request, the documented shape of a
reply, its statuses and error bodies, and what goes wrong on a wire: silence, dripping, a cut or huge body, a
redirect. What it does not: searching. It replies with what a test queued, so nothing here says how good the
results are, whether the service accepts an option, or how it charges.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = {
    "title": "Water",
    "url": "https://en.wikipedia.org/wiki/Water",
    "content": "Water boils at 100 C at sea level.",
    "raw_content": "# Water\n\nWater boils at 100 C at sea level.\n\nIt freezes at 0 C.",
    "score": 0.93,
}


@dataclass
class Reply:
    """One reply. `body` is sent as it is, or as JSON when it is no bytes; `length` lies about its length."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    silent: bool = False  # send nothing until the test lets go
    drips: bool = False  # send a byte, then nothing until the test lets go
    gzipped: bool = False


def results(*pages: dict[str, Any]) -> Reply:
    """A reply as the service documents it."""
    found = list(pages or [PAGE])
    return Reply(body={"query": "", "results": found, "response_time": 0.5, "images": [], "answer": None})


def refusal(status: int, said: str = "", **headers: str) -> Reply:
    """An error as the service sends it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"detail": {"error": said}}, named)


@dataclass(frozen=True)
class Received:
    """One request as the server read it."""

    path: str
    headers: dict[str, str]
    asked: dict[str, Any]
    connection: tuple[str, int]


class TavilyServer:
    """Replies with `replies` in order, and with one good page when they run out."""

    def __init__(self) -> None:
        self.replies: deque[Reply] = deque()
        self.received: list[Received] = []
        self.let_go = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65_536  # one packet: headers and body apart wait for each other's acknowledgement

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                server.received.append(Received(self.path, headers, json.loads(body), self.client_address))
                server.answer(self)

            def log_message(self, *args: Any) -> None:
                """Tests read `received`."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        reply = self.replies.popleft() if self.replies else results()
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        headers = {"content-type": "application/json", **reply.headers}
        if reply.gzipped:
            body, headers = gzip.compress(body), {**headers, "content-encoding": "gzip"}
        headers["content-length"] = str(len(body) if reply.length is None else reply.length)
        if reply.silent:
            self.let_go.wait(10)
        try:
            to.send_response(reply.status)
            for name, value in headers.items():
                to.send_header(name, value)
            to.end_headers()
            if reply.drips:
                to.wfile.write(body[:1])
                to.wfile.flush()
                self.let_go.wait(10)
            to.wfile.write(body)
        except OSError:
            to.close_connection = True  # the client gave up, which is what the test is about
        if reply.length is not None:
            to.close_connection = True

    def stop(self) -> None:
        self.let_go.set()
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def tavily_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TavilyServer]:
    """A fresh server, in an environment without a key or a proxy."""
    for name in ("TAVILY_API_KEY", "TAVILY_HTTP_PROXY", "TAVILY_HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = TavilyServer()
    yield server
    server.stop()


@pytest.fixture
def reply_with() -> type[Reply]:
    return Reply


@pytest.fixture
def results_of() -> Any:
    return results


@pytest.fixture
def refuse() -> Any:
    return refusal
