"""Replies of language models kept in a folder, and given again: a run is repeated and shown without paying twice.

    with recording("replies"):
        compare(systems, devset, metric)
    with replaying("replies"):        # anywhere, without a key
        compare(systems, devset, metric)

A reply is found by the whole request: the model, its arguments, every message. Keys, addresses and headers are no part
of it, and are not written. Whoever asks the same thing again gets the second reply, and after the last one that again.
Costs are repeated too: what was paid for counts as paid, so that a limit stops a repeated run where it stopped the
first.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from dspy.clients.backend_selection import CLIENT_KEYS
from dspy.clients.call_result import CallResult

from crag_dspy.errors import ConfigError, ReplayError
from crag_dspy.live.held import Held
from crag_dspy.optimize.runs.fingerprints import digest
from crag_dspy.optimize.runs.folder import RESULTS, Run, read_rows
from crag_dspy.optimize.runs.lm_calls import LMCall, through

_KIND = "replies"
_NOT_PART = {*CLIENT_KEYS, "_fn_identifier"}


class _Recording(Held):
    def __init__(self, run: Run) -> None:
        self.run = run
        self._last = {row["key"]: row for row in run.rows}
        self._lock = threading.Lock()

    def known(self, call: LMCall) -> None:
        """The model is asked."""

    @contextmanager
    def around(self, call: LMCall) -> Iterator[None]:
        yield
        if call.result is None:
            return
        request = _request(call)
        paid = not call.result.cache_hit
        row = {"key": digest(request), "paid": paid, "request": request, "reply": call.result.dump()}
        with self._lock:
            # The same thing again, out of DSPy's cache, says nothing new after the first time.
            if not paid and row == self._last.get(row["key"]):
                return
            self._last[row["key"]] = row
            self.run.append(row)


class _Replaying(Held):
    def __init__(self, folder: Path, rows: list[dict[str, Any]]) -> None:
        self.folder = folder
        self._replies: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            self._replies.setdefault(row["key"], []).append(row)
        self._given: dict[str, int] = {}
        self._lock = threading.Lock()

    def known(self, call: LMCall) -> CallResult:
        request = _request(call)
        key = digest(request)
        with self._lock:
            replies = self._replies.get(key)
            if replies is None:
                shown = json.dumps(request.get("messages", request), ensure_ascii=False)
                raise ReplayError(
                    f"{self.folder} has no reply of {call.lm.model} to this request: record it with --record, or "
                    f"change nothing that a prompt depends on. It ends: {shown[-200:]}"
                )
            number = self._given.get(key, 0)
            self._given[key] = number + 1
            row = replies[min(number, len(replies) - 1)]
        result = CallResult.load(row["reply"])
        if row["paid"]:
            result.cache_hit, result.usage = False, dict(row["reply"]["usage"])
        return result

    def around(self, call: LMCall) -> Any:
        return nullcontext()


@contextmanager
def recording(folder: str | Path) -> Iterator[None]:
    """Within, every reply is written to a folder; one that has replies keeps them.

    Raises:
        ConfigError: the folder holds something else, or another process is writing to it.
    """
    with Run.open(folder, _KIND, {}) as run, through(_Recording(run)):
        yield


@contextmanager
def replaying(folder: str | Path) -> Iterator[None]:
    """Within, no model is called: every reply is one of the folder's.

    Raises:
        ConfigError: there are no replies.
        ReplayError: where a model is called for which there is no reply.
    """
    path = Path(folder).expanduser()
    rows = read_rows(path / RESULTS) if (path / RESULTS).exists() else []
    if not rows or "reply" not in rows[0]:
        raise ConfigError(
            f"{path} has no recorded replies: make them with --record, or recording({str(folder)!r})"
        )
    with through(_Replaying(path, rows)):
        yield


def _request(call: LMCall) -> dict[str, Any]:
    """As plain data, without what says who asks or where."""
    found: dict[str, Any] = json.loads(json.dumps(_plain(call.request)))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items() if key not in _NOT_PART}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    schema = getattr(value, "model_json_schema", None)  # a pydantic class as the format of the reply
    return schema() if schema is not None and isinstance(value, type) else type(value).__qualname__
