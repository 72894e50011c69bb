"""What every test shares: no cache, no hub, and a language model that answers by field.

`scripted_lm` makes a real `dspy.LM` on a scripted engine, so that signatures, adapters, retries, usage and
streaming are DSPy's own and only the model is a double:

    lm = scripted_lm({"answer": "Paris", "query": lambda request: request.inputs["question"].upper()})
    with dspy.context(lm=lm):
        ...
    assert lm.requests[0].inputs["question"] == "What is the capital of France?"
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
import types
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from capitals import capitals_devset, capitals_program, capitals_script  # noqa: F401 - fixtures of all tests
from hypothesis import settings
from model_server import ModelServer

# A busy machine is not a failure: what a property test finds must not depend on how long an example takes.
settings.register_profile("crag-dspy", deadline=None)
settings.load_profile("crag-dspy")

# Read when dspy and huggingface_hub are first imported, so they are set before any test module is imported.
# Subprocesses that tests start inherit them.
os.environ["DSPY_CACHEDIR"] = tempfile.mkdtemp(prefix="crag-dspy-tests-")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # of LiteLLM: no table of prices is fetched


@pytest.fixture(autouse=True)
def _no_lm_cache() -> None:
    """A cached reply would hide a call. A test about caching configures its own cache, under `tmp_path`."""
    import dspy

    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)


@dataclass(frozen=True)
class ScriptedRequest:
    """One request as the engine received it.

    `text` is every message joined; `inputs` the input fields of the last message and `fields` the output
    fields it asks for, both read back from the text that the adapter rendered.
    """

    messages: tuple[tuple[str, str], ...]
    fields: tuple[str, ...]
    inputs: Mapping[str, str]
    config: Any = field(repr=False)

    @property
    def text(self) -> str:
        return "\n\n".join(content for _, content in self.messages)


Reply = str | BaseException | Callable[[ScriptedRequest], Any] | Sequence[Any]
Script = Mapping[str, Reply] | Callable[[str, ScriptedRequest], Any]


class ScriptedEngine:
    """A dspy.LM engine that answers by FIELD, whichever adapter asks.

    Args:
        script: field name -> reply, or a function of (field name, request). A reply is a text, a function of
            the request, a list (one item a call, an error when it runs out) or an exception, which is raised.
        raises: number of the call (from 0) -> the exception that this call raises instead of answering.
        raw: a text, or a function of the request, sent as it is: for replies that cannot be parsed.
    """

    supported_params = frozenset({"temperature", "max_tokens", "stop", "seed"})

    def __init__(
        self,
        script: Script | None = None,
        *,
        raises: Mapping[int, BaseException] | None = None,
        raw: str | Callable[[ScriptedRequest], str] | None = None,
    ) -> None:
        self.script: Script = {} if script is None else script
        self.raises = dict(raises or {})
        self.raw = raw
        self.requests: list[ScriptedRequest] = []
        self._used: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def calls(self) -> int:
        return len(self.requests)

    def __copy__(self) -> ScriptedEngine:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptedEngine:
        return self

    def complete(self, request: Any) -> Any:
        from dspy.lm15 import Message, Response, Usage

        read = read_request(request)
        with self._lock:
            number = len(self.requests)
            self.requests.append(read)
        if number in self.raises:
            raise self.raises[number]
        text = self._text(read)
        usage = Usage(input_tokens=len(read.text.split()), output_tokens=len(text.split()))
        return Response(
            id=None, model=request.model, message=Message.assistant(text), finish_reason="stop", usage=usage
        )

    def stream(self, request: Any) -> Iterator[Any]:
        from dspy.lm15 import response_to_events

        return response_to_events(self.complete(request))

    def close(self) -> None:
        """Nothing is held."""

    def _text(self, request: ScriptedRequest) -> str:
        if self.raw is not None:
            return self.raw(request) if callable(self.raw) else self.raw
        values = {name: self._reply(name, request) for name in request.fields}
        last = request.messages[-1][1]
        if "[[ ## " not in last:  # plain text: the prompt already ends with the first label
            first, *rest = values
            return "\n".join([str(values[first]), *(f"{_label(name)}: {values[name]}" for name in rest)])
        if "Respond with a JSON object" in last:
            return json.dumps(values, ensure_ascii=False)
        parts = [f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()]
        return "\n\n".join([*parts, "[[ ## completed ## ]]"])

    def _reply(self, name: str, request: ScriptedRequest) -> Any:
        if callable(self.script):
            reply: Any = self.script(name, request)
        elif name in self.script:
            reply = self.script[name]
        else:
            raise LookupError(f"the script has no reply for field {name!r}, only for {sorted(self.script)}")
        if isinstance(reply, list):
            with self._lock:
                used = self._used[name] = self._used.get(name, 0) + 1
            if used > len(reply):
                raise LookupError(
                    f"the script has {len(reply)} replies for field {name!r}, this is call {used}"
                )
            reply = reply[used - 1]
        if isinstance(reply, BaseException):
            raise reply
        return reply(request) if callable(reply) else reply


class AsyncScriptedEngine:
    """The same script, awaited."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine

    def __copy__(self) -> AsyncScriptedEngine:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> AsyncScriptedEngine:
        return self

    async def complete(self, request: Any) -> Any:
        return self.engine.complete(request)

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        for event in self.engine.stream(request):
            yield event

    async def aclose(self) -> None:
        """Nothing is held."""


def read_request(request: Any) -> ScriptedRequest:
    """Read back, from the rendered text, which fields are given and which are asked for."""
    messages = []
    if request.system is not None:
        parts = request.system
        messages.append(("system", parts if isinstance(parts, str) else "".join(part.text for part in parts)))
    messages.extend((message.role, message.text or "") for message in request.messages)
    last = messages[-1][1]
    asked = re.search(r"Respond with (?:the corresponding output|a JSON object)[^`]*(.*)\Z", last, re.DOTALL)
    if asked:
        names = re.findall(r"`(?:\[\[ ## )?(\w+)(?: ## \]\])?`", asked.group(1))
        fields = tuple(name for name in names if name != "completed")
        sections = re.split(r"^\[\[ ## (\w+) ## \]\]\n", last[: asked.start()], flags=re.MULTILINE)
        inputs = {name: value.strip() for name, value in zip(sections[1::2], sections[2::2], strict=True)}
    else:
        # `Label: value` lines, continuation lines indented; the last label is left to be continued, and the
        # system message of a signature with several outputs names them all.
        sections = re.split(r"^([A-Z][\w ]*):", last, flags=re.MULTILINE)
        names = [_name(label) for label in sections[1::2]]
        values = [value.strip().replace("\n ", "\n") for value in sections[2::2]]
        inputs = dict(zip(names[:-1], values[:-1], strict=True))
        several = re.findall(r"^Reply with the lines (.+)\.$", messages[0][1], flags=re.MULTILINE)
        labels = re.findall(r'"([^"]+):"', several[-1]) if several else [names[-1]]
        fields = tuple(_name(label) for label in labels)
    return ScriptedRequest(tuple(messages), fields, inputs, request.config)


def _label(name: str) -> str:
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def _name(label: str) -> str:
    return label.strip().lower().replace(" ", "_")


@pytest.fixture
def scripted_lm() -> Callable[..., Any]:
    """A factory of `dspy.LM`: `scripted_lm(script, raises=None, raw=None, **lm_kwargs)`.

    The LM has `.requests` (one `ScriptedRequest` a call, in order) and `.engine.calls`. No retries by
    default, so that an exception in the script is one call.
    """
    import dspy

    def make(
        script: Script | None = None,
        *,
        raises: Mapping[int, BaseException] | None = None,
        raw: str | Callable[[ScriptedRequest], str] | None = None,
        **lm_kwargs: Any,
    ) -> Any:
        engine = ScriptedEngine(script, raises=raises, raw=raw)
        options = {"num_retries": 0, "cache": False, **lm_kwargs}
        lm = dspy.LM("scripted/by-field", engine=engine, async_engine=AsyncScriptedEngine(engine), **options)
        lm.requests = engine.requests
        return lm

    return make


@pytest.fixture
def model_server(request: pytest.FixtureRequest) -> Iterator[ModelServer]:
    """A `ModelServer` that plays the capitals' language model, its port closed."""
    engine = ScriptedEngine(request.getfixturevalue("capitals_script"))

    def reply(messages: list[dict[str, str]]) -> str:
        said = [types.SimpleNamespace(role=one["role"], text=one["content"]) for one in messages]
        return engine._text(read_request(types.SimpleNamespace(system=None, messages=said, config=None)))

    server = ModelServer(reply)
    yield server
    server.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many attacks were tried (`tests/crag_dspy/test_attack_matrix.py`), and what became of them."""
    outcomes: list[str] = []
    blocks: list[float] = []
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            told = dict(getattr(report, "user_properties", ()))  # of several under one name, the last
            outcomes += [told["attack"]] if "attack" in told else []
            blocks += [told["block"]] if "block" in told else []
    if outcomes:
        survived, lost, leaked = map(outcomes.count, ("survived", "lost", "leaked"))
        terminalreporter.write_line(
            f"attacks: {len(outcomes)} tried, {survived} survived, {lost} lost, {leaked} leaked; "
            f"longest block of the event loop {max(blocks, default=0.0):.3f} CPU s"
        )
