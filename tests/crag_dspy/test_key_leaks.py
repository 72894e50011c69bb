"""Keys through everything: a provider that repeats what it was sent, a key with a line break, all that is written."""

from __future__ import annotations

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import dspy
import pytest

from crag_dspy import CRAG
from crag_dspy.commands import cli
from crag_dspy.live.keys import PIECE
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.report.page import write_report
from crag_dspy.optimize.runs.evaluation import evaluate
from crag_dspy.retrievers import LocalIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "sk-proj-aB3dE6gH9jK2mN5pQ8rS1"
MASKED = f"{KEY[:9]}{'*' * 12}{KEY[-4:]}"


class Echo(BaseHTTPRequestHandler):
    """Refuses every key, and says which: whole, masked, and the way it came."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        told = f"Incorrect API key provided: {KEY} ({MASKED}); you sent {self.headers['authorization']}"
        body = json.dumps(
            {"error": {"message": told, "type": "invalid_request_error"}, "detail": {"error": told}}
        )
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Nothing: pytest's output is for its own."""


@pytest.fixture
def provider() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def leaked(text: str) -> set[str]:
    """Pieces of the key in a text, as they are and as JSON and HTML write them."""
    return {KEY[i : i + PIECE] for i in range(len(KEY) - PIECE + 1)} & {
        text[i : i + PIECE] for i in range(len(text) - PIECE + 1)
    } | ({KEY[-4:]} if KEY[-4:] in text else set())


# How the key comes: from the variable, with what an editor or `echo` leaves behind it, or as an argument.
WAYS = ["variable", "line break after it", "line break within it", "argument"]


@pytest.fixture(params=WAYS)
def access(request: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    given = {"line break after it": f"{KEY}\n", "line break within it": f"{KEY[:15]}\n{KEY[15:]}"}
    monkeypatch.setattr("crag_dspy.live.keys._given", set())
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if request.param == "argument":
        return {"api_key": KEY}
    monkeypatch.setenv("OPENAI_API_KEY", given.get(request.param, KEY))
    return {}


def test_a_run_holds_no_key(
    access: dict[str, str],
    provider: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    record_property: Any,
) -> None:
    """The report: it stood in results.jsonl, metrics.json and report.html."""
    caplog.set_level(logging.DEBUG, "crag_dspy")
    lm = dspy.LM("openai/gpt-x", api_base=provider, num_retries=0, cache=False, **access)
    crag = CRAG(lambda query, k: ["Paris."], lambda question, texts: [0.9] * len(texts))  # type: ignore[arg-type]
    devset = [dspy.Example(question="Where?", answers=["Paris"]).with_inputs("question")]
    with dspy.context(lm=lm):
        prediction = crag(question="Where?")
        found = evaluate(crag, devset, contains_word, run=tmp_path / "run", threads=1, progress=False)
        crag.save(tmp_path / "crag.json")
    write_report(tmp_path / "run")
    written = {path.name: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"results.jsonl", "metrics.json", "report.html", "crag.json"} <= set(written)
    written["warnings"] = json.dumps([prediction.warnings, prediction.trace.to_json(), prediction.failed])
    written["evaluation"] = json.dumps(found.to_json()) + str(found)
    written["log"] = caplog.text
    found_in = {name: pieces for name, text in written.items() if (pieces := leaked(text))}
    record_property("attack", "leaked" if found_in else "survived")
    assert found_in == {}


def test_ask_tells_no_key(
    provider: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    record_property: Any,
) -> None:
    LocalIndex.build(tmp_path / "index", ["Paris is in France."], embedder=None)
    (tmp_path / "crag.toml").write_text(
        f"[retriever]\npath = 'index'\n[search]\nkind = 'tavily'\nbase_url = '{provider}'\nretries = 0\n"
        f"[lm]\nmodel = 'openai/gpt-x'\napi_base = '{provider}'\nkey_env = 'MINE'\nnum_retries = 0\ncache = false\n"
    )
    monkeypatch.setenv("MINE", f"{KEY}\n")  # a name that tells nothing
    monkeypatch.setenv("TAVILY_API_KEY", f"{KEY}\n")
    for arguments in (["--json"], [], ["--debug"]):
        cli.main(
            [
                "ask",
                "Where is Paris?",
                "--config",
                str(tmp_path / "crag.toml"),
                "--action",
                "ambiguous",
                *arguments,
            ]
        )
        shown = capfd.readouterr()
        assert "[key]" in shown.out + shown.err
        pieces = leaked(shown.out + shown.err)
        record_property("attack", "leaked" if pieces else "survived")
        assert pieces == set()
