"""An OpenAI-compatible server on this machine: it answers by field, and keeps requests as they came over the socket."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import dspy

HEADER = re.compile(r"\[\[ ## (\w+) ## \]\]")


class ChatServer:
    """`bodies` are the requests, in order; `answers` what is replied, by output field."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.answers = dict(answers)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.bodies.append(body)
                reply = json.dumps(server.reply(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: Any) -> None:
                """Nothing on stderr."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def reply(self, body: Mapping[str, Any]) -> dict[str, Any]:
        last = text_of(body["messages"][-1])
        asked = [name for name in self.answers if re.search(rf"\b{name}\b", last, re.I)] or ["answer"]
        # The field asked for is named last, whatever the adapter.
        name = max(asked, key=lambda field: last.lower().rfind(field))
        if "JSON object" in last:
            text = json.dumps({name: self.answers[name]})
        elif HEADER.search(last):
            text = f"[[ ## {name} ## ]]\n{self.answers[name]}\n\n[[ ## completed ## ]]"
        else:
            text = self.answers[name]
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }

    def lm(self, **options: Any) -> dspy.LM:
        return dspy.LM(
            "openai/local", api_base=self.url, api_key="none", cache=False, num_retries=0, **options
        )


@contextmanager
def chat_server(answers: Mapping[str, str]) -> Iterator[ChatServer]:
    server = ChatServer(answers)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()


def parts_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The content parts of a message; a text alone is one."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def text_of(message: Mapping[str, Any]) -> str:
    return "".join(part.get("text", "") for part in parts_of(message))
