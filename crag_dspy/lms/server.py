"""One loaded model: llama.cpp's own server, in this process (PyPI `xllamacpp`)."""

from __future__ import annotations

import atexit
import ctypes
import http.client
import json
import secrets
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from crag_dspy.errors import ArtefactError
from crag_dspy.live.held import Held
from crag_dspy.live.per_process import PerProcess
from crag_dspy.lms.bundled import require

# Prefixes of earlier prompts, so that queries and answers in turn do not compute each other's examples anew: a
# third of the time. llama.cpp's own default is 8 GiB.
_PREFIX_MIB = 256
_SILENT, _CHATTY = 0, 3  # llama.cpp's verbosity; its own default writes every request to stderr

_loaded: dict[tuple[str, int, int, bool], LlamaServer] = {}
_loading = threading.Lock()


def llama_server(path: str | Path, context: int, threads: int, verbose: bool = False) -> LlamaServer:
    """The server of this file and these options: one a process, whoever asks."""
    key = (str(Path(path).resolve()), context, threads, verbose)
    with _loading:
        if key not in _loaded:
            if not _loaded:
                atexit.register(_close_all)
            _loaded[key] = LlamaServer(*key)
        return _loaded[key]


def _close_all() -> None:
    for server in _loaded.values():
        server.close()


class LlamaServer(Held):
    """A GGUF file that loads when it is first asked, is shared by copies and threads, and unloads at exit.

    Calls of several threads are queued by llama.cpp itself, which computes without the interpreter's lock. A
    forked child loads its own. Where the parent had loaded before it forked, a child must end as those of
    `multiprocessing` do (`os._exit`): the C++ library's own clean-up would wait for threads that it does not have.
    """

    def __init__(self, path: str, context: int, threads: int, verbose: bool) -> None:
        self.path = path
        self.context = context
        self.threads = threads
        self.verbose = verbose
        # Its port on the loopback address is only for counting tokens: nobody else on the machine may use it.
        self._key = secrets.token_urlsafe(24)
        self._native: PerProcess[Any] = PerProcess(self._start)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return llama_server, (self.path, self.context, self.threads, self.verbose)

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """A reply to `/v1/completions`, or an object with `error`: llama.cpp returns errors, not raises them."""
        return dict(self._native.get().handle_completions(body))

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """A reply to `/v1/chat/completions`, rendered with the chat template in the file."""
        return dict(self._native.get().handle_chat_completions(body))

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` by the model's own tokenizer, without the one that starts a prompt."""
        url = urlsplit(self._native.get().listening_address)
        # Not urllib: it would send a loopback request through the proxy of the environment.
        connection = http.client.HTTPConnection(url.hostname or "127.0.0.1", url.port, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            connection.request("POST", "/tokenize", json.dumps({"content": text}), headers)
            return len(json.loads(connection.getresponse().read())["tokens"])
        finally:
            connection.close()

    def close(self) -> None:
        """Free the model's memory. The next call loads it again."""
        native = self._native.take()
        if native is not None:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(native))

    def _start(self) -> Any:
        require("xllamacpp", "xllamacpp", "a local language model")
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = self.path
        params.n_ctx = self.context
        params.n_parallel = 1  # one slot has the whole context
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self.threads
        params.n_threads_http = 1
        params.api_keys = [self._key]
        params.swa_full = True  # or models with window attention would recompute that prefix every time
        params.cache_ram_mib = _PREFIX_MIB
        params.warmup = False
        params.verbosity = _CHATTY if self.verbose else _SILENT
        try:
            native = xllamacpp.Server(params)
        except RuntimeError as error:
            raise ArtefactError(
                f"llama.cpp could not load {self.path} with a context of {self.context} tokens: it may be damaged, "
                "of an unknown architecture, or too large for the memory; verbose=True says more"
            ) from error
        # Its destructor waits for its threads. A forked child has the object but not the threads, and would wait
        # for ever at its own exit: only close() lets go of this reference.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))
        return native
