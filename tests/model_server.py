"""A language model behind a real port: an OpenAI-compatible server of this process, closed until it is opened.

lm = model_server.lm()        # a real dspy.LM; every call of it is refused by the closed port
model_server.open()           # the same port, and now it answers
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import dspy


class ModelServer:
    """Answers chat requests by `reply`, a function of the messages; `status` is what it answers with."""

    def __init__(self, reply: Callable[[list[dict[str, str]]], str]) -> None:
        self.reply, self.status, self.calls = reply, 200, 0
        self._thread: threading.Thread | None = None
        # Bound but not listening: the port is ours, and whoever calls it is refused.
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(), bind_and_activate=False)
        self._server.server_bind()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def lm(self, **options: Any) -> dspy.LM:
        """A `dspy.LM` that calls this port once, without retries and without a cache."""
        given = {"api_base": self.url, "api_key": "none", "num_retries": 0, "cache": False, **options}
        return dspy.LM("openai/scripted", **given)

    def open(self) -> None:
        self._server.server_activate()
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                """Quiet."""

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                served.calls += 1
                data = json.dumps(served._body(asked)).encode()
                self.send_response(served.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        return Handler

    def _body(self, asked: dict[str, Any]) -> dict[str, Any]:
        if self.status != 200:
            return {"error": {"message": "the server says no", "type": "scripted", "code": self.status}}
        message = {"role": "assistant", "content": self.reply(asked["messages"])}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
        }
