"""The llama.cpp engine of a `dspy.LM`: one canonical request in, one response out.

DSPy's own layer keeps the cache, the history, the usage and the retries (`dspy.clients.engines.base`).
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from dspy import lm15
from dspy.clients.engines.base import validate_request

from crag_dspy.errors import ConfigError
from crag_dspy.live.held import Held
from crag_dspy.lms.bundled import bundled_model, require
from crag_dspy.lms.gguf import GGUFHeader, read_gguf
from crag_dspy.lms.server import LlamaServer, llama_server
from crag_dspy.state.arguments import check_choice, check_whole

Template = Literal["base", "chat"]
TEMPLATES: tuple[Template, ...] = get_args(Template)

# None of these can be honoured, and dropping them without a word would change what the caller gets.
_UNSUPPORTED = ("tool_choice", "reasoning", "logprobs", "probabilities", "cache", "service_tier", "store")
_SAMPLING = ("top_p", "top_k", "frequency_penalty", "presence_penalty")
_FINISH: dict[str, Literal["stop", "length"]] = {"stop": "stop", "length": "length"}
_TOKEN_LIKE = re.compile(r"[<\[][^<>\[\]\n]{1,48}[>\]]")


@dataclass
class _Draws:
    """The generations of one LM call: its rollout, and a number for each."""

    rollout_id: Any
    numbers: Iterator[int] = field(default_factory=itertools.count)


_draws: ContextVar[_Draws | None] = ContextVar("crag_dspy_draws", default=None)


@contextmanager
def rollout(rollout_id: Any) -> Iterator[None]:
    """Around one LM call: its `rollout_id`, which DSPy does not hand to engines, chooses the seeds inside."""
    token = _draws.set(_Draws(rollout_id))
    try:
        yield
    finally:
        _draws.reset(token)


def _seed(base: int) -> int:
    """`base` for an ordinary call; another one for each rollout, and for each further of n candidates."""
    draws = _draws.get()
    number = 0 if draws is None else next(draws.numbers)
    rollout_id = None if draws is None else draws.rollout_id
    if rollout_id is None and number == 0:
        return base
    digest = hashlib.blake2b(f"{base}/{rollout_id}/{number}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) & 0x7FFFFFFF


class LlamaEngine(Held):
    """Completes requests on a `LlamaServer`.

    Args:
        server: the loaded model; engines of one file and context share it.
        template: "base" joins the messages as plain text, "chat" renders the file's own chat template.
        header: what the file says about itself; its control tokens are taken out of prompts.
        state: how `local_lm` was asked for this engine, for `dump_state`.
    """

    supports_response_schema = True
    supported_params = frozenset(
        {"temperature", "max_tokens", "stop", "seed", "response_format", *_SAMPLING},
    )

    def __init__(
        self, server: LlamaServer, template: Template, header: GGUFHeader, state: dict[str, Any]
    ) -> None:
        self.server = server
        self.template = template
        self.header = header
        self._state = state

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return load_engine, (self._state,)

    def dump_state(self) -> dict[str, Any]:
        """The arguments of `local_lm` that choose this engine; no weights."""
        return dict(self._state)

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> LlamaEngine:
        """The engine of a saved program. A path must exist here too; the bundled model is found anywhere."""
        return load_engine(state)

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` by this model's tokenizer."""
        return self.server.count_tokens(self._plain(text))

    def complete(self, request: lm15.Request) -> lm15.Response:
        """Generate one reply.

        Raises:
            ContextLengthError: the prompt does not fit the context.
            UnsupportedFeatureError: tools, images, log probabilities and other things it cannot honour.
            InvalidRequestError, ServerError: llama.cpp refused the request, or failed.
        """
        validate_request(request)
        body = self._options(request)
        messages = [(role, self._plain(text)) for role, text in _texts(request)]
        if self.template == "chat":
            reply = self.server.chat({**body, "messages": [{"role": r, "content": t} for r, t in messages]})
        else:
            reply = self.server.complete({**body, "prompt": as_plain_prompt(messages)})
        if "error" in reply:
            raise self._error(reply["error"])
        choice, usage = reply["choices"][0], reply["usage"]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        return lm15.Response(
            id=reply.get("id"),
            model=request.model,
            message=lm15.Message.assistant(text or ""),
            finish_reason=_FINISH.get(choice["finish_reason"], "stop"),
            usage=lm15.Usage(
                input_tokens=usage["prompt_tokens"],
                output_tokens=usage["completion_tokens"],
                cache_read_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
            ),
        )

    def stream(self, request: lm15.Request) -> Iterator[Any]:
        """The whole reply as events, once it is there."""
        yield from lm15.response_to_events(self.complete(request))

    def close(self) -> None:
        """Free the model's memory, for every engine of this file; the next request loads it again."""
        self.server.close()

    def _options(self, request: lm15.Request) -> dict[str, Any]:
        config = request.config
        if request.tools:
            raise lm15.UnsupportedFeatureError("a local language model takes no tools", feature="tools")
        for name in _UNSUPPORTED:
            if getattr(config, name) is not None:
                raise lm15.UnsupportedFeatureError(f"a local language model takes no {name}", feature=name)
        body: dict[str, Any] = dict(config.extensions or {})  # llama.cpp's own options, e.g. min_p
        body |= {name: getattr(config, name) for name in _SAMPLING if getattr(config, name) is not None}
        body["temperature"] = 0.0 if config.temperature is None else config.temperature
        body["seed"] = _seed(config.seed or 0)
        body["stop"] = list(config.stop)
        if config.max_tokens is not None:
            body["max_tokens"] = config.max_tokens
        if config.response_format is not None:
            body["json_schema"] = _schema(config.response_format)
        return body

    def _plain(self, text: str) -> str:
        """`text` without what the tokenizer would read as a control token: a web page cannot end its turn."""
        control = self.header.control_tokens
        return _TOKEN_LIKE.sub(lambda m: f"{m[0][0]} {m[0][1:]}" if m[0] in control else m[0], text)

    def _error(self, error: dict[str, Any]) -> lm15.LM15Error:
        message, status = str(error.get("message", error)), error.get("code")
        if error.get("type") == "exceed_context_size_error":
            return lm15.ContextLengthError(
                f"the prompt has {error.get('n_prompt_tokens')} tokens and the context holds "
                f"{self.server.context}: use local_lm(context=...) or fewer passages",
                status=status,
            )
        kind = lm15.InvalidRequestError if status in (400, 404) else lm15.ServerError
        return kind(f"llama.cpp: {message}", status=status)


class AsyncLlamaEngine(Held):
    """The same engine, awaited: llama.cpp computes in a thread, so the event loop stays free."""

    def __init__(self, engine: LlamaEngine) -> None:
        self.engine = engine

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return AsyncLlamaEngine, (self.engine,)

    def dump_state(self) -> dict[str, Any]:
        """See `LlamaEngine.dump_state`."""
        return self.engine.dump_state()

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> AsyncLlamaEngine:
        """See `LlamaEngine.load_state`."""
        return cls(load_engine(state))

    async def complete(self, request: lm15.Request) -> lm15.Response:
        """See `LlamaEngine.complete`."""
        return await asyncio.to_thread(self.engine.complete, request)

    async def stream(self, request: lm15.Request) -> AsyncIterator[Any]:
        """See `LlamaEngine.stream`."""
        for event in lm15.response_to_events(await self.complete(request)):
            yield event

    async def aclose(self) -> None:
        """See `LlamaEngine.close`."""
        await asyncio.to_thread(self.engine.close)


def open_engine(
    model: str | Path | None = None,
    *,
    template: Template | None = None,
    context: int = 4096,
    threads: int = 1,
    verbose: bool = False,
) -> LlamaEngine:
    """The engine alone, checked but not loaded. See `local_lm` for the arguments and errors."""
    if template is not None:
        check_choice("template", template, TEMPLATES)
    check_whole("context", context, 128)
    check_whole("threads", threads)
    require("xllamacpp", "xllamacpp", "a local language model")
    path = bundled_model() if model is None else Path(model).expanduser()
    if not path.is_file():
        raise ConfigError(f"model must be the path of a GGUF file, got {str(model)!r}, which is not a file")
    header = read_gguf(path)
    if header.context_length and context > header.context_length:
        raise ConfigError(
            f"context must be at most the {header.context_length} tokens that {path.name} was trained for, "
            f"got {context}"
        )
    if template == "chat" and not header.chat_template:
        raise ConfigError(
            f"template 'chat' needs a chat template in the file, and {path.name} has none: use 'base'"
        )
    chosen: Template = template or ("chat" if header.chat_template else "base")
    state = {
        "model": None if model is None else str(path),
        "template": chosen,
        "context": context,
        "threads": threads,
        "verbose": verbose,
    }
    return LlamaEngine(llama_server(path, context, threads, verbose), chosen, header, state)


def load_engine(state: dict[str, Any]) -> LlamaEngine:
    """The engine that `state` describes: the arguments of `open_engine`."""
    return open_engine(**state)


def as_plain_prompt(messages: list[tuple[str, str]]) -> str:
    """Messages as the text that a base model continues: no roles, examples parted by blank lines.

    A reply follows on the line of the message before it when that ends with a label ("Answer:"), as the model's
    own continuation will.
    """
    prompt = ""
    for role, text in messages:
        if not prompt:
            prompt = text
        elif role == "assistant":
            prompt += (" " if prompt.endswith(":") else "\n") + text
        else:
            prompt += "\n\n" + text
    return prompt.rstrip()


def _texts(request: lm15.Request) -> list[tuple[str, str]]:
    texts = []
    if request.system is not None:
        system = request.system
        texts.append(("system", system if isinstance(system, str) else _joined(system)))
    for message in request.messages:
        role = "system" if message.role == "developer" else message.role
        texts.append((role, _joined(message.parts)))
    return [(role, text) for role, text in texts if text.strip()]


def _joined(parts: Any) -> str:
    other = next((part for part in parts if not isinstance(part, lm15.TextPart)), None)
    if other is not None:
        kind = type(other).__name__
        raise lm15.UnsupportedFeatureError(
            f"a local language model reads text only, not {kind}", feature=kind
        )
    return "".join(part.text for part in parts)


def _schema(response_format: Any) -> Any:
    """The JSON schema of a canonical or an OpenAI-shaped response format, as llama.cpp's grammar takes it."""
    if response_format.get("type") != "json_schema":
        return {"type": "object"}
    inner = response_format.get("json_schema") or response_format
    return inner.get("schema", {"type": "object"})
