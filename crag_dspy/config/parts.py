"""What `crag.toml` may say: one class a kind of part, its fields the keys of the table, and how to make the part.

Values are checked for their type here, and for their range by the part itself. `make()` imports what it needs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationInfo

from crag_dspy.errors import ConfigError
from crag_dspy.live.keys import remember
from crag_dspy.live.python_name import imported


def _beside(value: str, info: ValidationInfo) -> Path:
    """A path as the file means it: from the file's own folder."""
    try:
        return Path((info.context or {})["folder"], Path(value).expanduser())
    except RuntimeError as error:  # no home folder for "~someone"
        raise ValueError(str(error)) from error


def _path(value: Any, info: ValidationInfo) -> Any:
    return (
        _beside(value, info) if isinstance(value, str) else value
    )  # pydantic says what is wrong with others


def _folder_or_name(value: str, info: ValidationInfo) -> str:
    """A folder beside the file where there is one; otherwise a name, such as a shipped grader's or a hub id."""
    path = _beside(value, info)
    return str(path) if path.exists() or value.startswith((".", "~", "/")) else value


FilePath = Annotated[Path, BeforeValidator(_path)]
FolderOrName = Annotated[str, AfterValidator(_folder_or_name)]


class Part(BaseModel):
    """A table of the file. A key that is not given has the default of the part itself.

    `packages` are what the part needs, as (module to import, name to install).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    packages: ClassVar[tuple[tuple[str, str], ...]] = ()

    def make(self) -> Any:
        """The live part. Raises ConfigError for a value out of range, or when something is missing."""
        raise NotImplementedError

    def given(self, *without: str) -> dict[str, Any]:
        """The keys that the file gives."""
        return {name: getattr(self, name) for name in self.model_fields_set - {"kind", *without}}


def environment_key(name: str | None) -> str | None:
    """The key in the environment variable `name`; None for no name, which leaves the usual variable."""
    if name is None:
        return None
    if key := os.environ.get(name, "").strip():
        remember(key)  # whatever the variable is called
        return key
    raise ConfigError(f"key_env names the environment variable {name}, which is not set")


class PythonPart(Part):
    """`kind = "python:package.module:attribute"`: any object, or what a call of it with `arguments` returns."""

    kind: str
    arguments: dict[str, Any] | None = None

    def make(self) -> Any:
        found = imported(self.kind)
        return found if self.arguments is None else found(**self.arguments)


# [retriever]


class LocalPart(Part):
    """A `LocalIndex` folder, built by `crag-dspy index`."""

    kind: Literal["local"] = "local"
    path: FilePath
    embedder: FolderOrName | None = None
    mode: Literal["hybrid", "text", "vector"] | None = None

    def make(self) -> Any:
        from crag_dspy.retrievers.local import LocalIndex

        return LocalIndex.open(self.path, self.embedder, mode=self.mode)


class WeaviatePart(Part):
    """A collection of a Weaviate; the keys are arguments of `Remote` (where it is) and `WeaviateRetriever`."""

    kind: Literal["weaviate"]
    url: str
    collection: str
    cloud: bool = False
    key_env: str | None = None
    grpc_port: int | None = None
    grpc_host: str | None = None
    headers: dict[str, str] | None = None
    mode: Literal["hybrid", "near_text", "near_vector", "bm25"] | None = None
    alpha: float | None = None
    embedder: FolderOrName | None = None
    tenant: str | None = None
    filters: dict[str, Any] | None = None
    text_property: str | None = None
    title_property: str | None = None
    url_property: str | None = None
    id_property: str | None = None
    metadata: list[str] | None = None
    query_properties: list[str] | None = None
    vector_name: str | None = None
    consistency: Literal["ONE", "QUORUM", "ALL"] | None = None
    timeout: float | None = None
    retries: int | None = None
    backoff: float | None = None

    packages: ClassVar[tuple[tuple[str, str], ...]] = (("weaviate", "weaviate-client"),)
    connection: ClassVar[tuple[str, ...]] = ("cloud", "grpc_port", "grpc_host", "headers", "timeout")

    def make(self) -> Any:
        from crag_dspy.live.secret import Secret
        from crag_dspy.retrievers.weaviate import WeaviateRetriever
        from crag_dspy.retrievers.weaviate_connect import KEY_VARIABLE, Remote

        given = self.given("url", "key_env")
        of_connection = {name: given.pop(name) for name in self.connection if name in given}
        if "timeout" in of_connection:
            given["timeout"] = of_connection["timeout"]
        remote = Remote(self.url, Secret(environment_key(self.key_env), KEY_VARIABLE), **of_connection)
        return WeaviateRetriever(connection=remote, **given)


# [grader]


class T5Part(Part):
    """A T5 grader: "mini", a folder or a hub id."""

    kind: Literal["t5"] = "t5"
    source: FolderOrName = "mini"
    adapter: FolderOrName | None = None
    device: str | None = None
    precision: Literal["auto", "fp32", "bf16", "int8"] | None = None
    batch_tokens: int | None = None
    prompt_format: str | None = None

    def make(self) -> Any:
        from crag_dspy.graders.t5 import T5Grader

        return T5Grader.from_pretrained(**{"source": self.source, **self.given()})


class EmbeddingPart(Part):
    """The cosine of an embedder: the cheap baseline."""

    kind: Literal["embedding"]
    embedder: FolderOrName | None = None
    window_words: int | None = None

    def make(self) -> Any:
        from crag_dspy.graders.embedding import EmbeddingGrader

        return EmbeddingGrader(**self.given())


class LMGraderPart(Part):
    """A language model as the judge: that of [lm], or another `model`."""

    kind: Literal["lm"]
    model: str | None = None
    threads: int | None = None

    def make(self) -> Any:
        from crag_dspy.graders.lm import LMGrader

        return LMGrader(self.model, **self.given("model"))


# [search]


class TavilyPart(Part):
    """Tavily; the keys are arguments of `TavilySearch`."""

    kind: Literal["tavily"]
    key_env: str | None = None
    search_depth: Literal["basic", "advanced", "fast", "ultra-fast"] | None = None
    topic: Literal["general", "news", "finance"] | None = None
    time_range: Literal["day", "week", "month", "year"] | None = None
    include_domains: list[str] | None = None
    exclude_domains: list[str] | None = None
    prefer_domains: list[str] | None = None
    raw_content: Literal["markdown", "text", "snippets"] | None = None
    page_chars: int | None = None
    total_chars: int | None = None
    timeout: float | None = None
    retries: int | None = None
    keyless: bool = False
    cache: FilePath | None = None
    base_url: str | None = None

    packages: ClassVar[tuple[tuple[str, str], ...]] = (("tavily", "tavily-python"),)

    def make(self) -> Any:
        from crag_dspy.websearch.tavily import TavilySearch

        given = self.given("key_env")
        if self.raw_content == "snippets":  # TOML has no None
            given["raw_content"] = None
        return TavilySearch(environment_key(self.key_env), **given)


class IndexSearchPart(Part):
    """A `LocalIndex` folder that plays the web: for offline work and repeatable evaluations."""

    kind: Literal["index"]
    path: FilePath
    embedder: FolderOrName | None = None
    mode: Literal["hybrid", "text", "vector"] | None = None

    def make(self) -> Any:
        from crag_dspy.retrievers.local import LocalIndex
        from crag_dspy.websearch.index import IndexSearch

        return IndexSearch(LocalIndex.open(self.path, self.embedder, mode=self.mode))


# [lm]. `adapter()` is how signatures become prompts; None is DSPy's default.

Adapter = Literal["chat", "json", "xml", "plain"]


def make_adapter(name: str | None) -> Any:
    """The adapter of that name, or None."""
    if name == "plain":
        from crag_dspy.lms.plain_text import PlainTextAdapter

        return PlainTextAdapter()
    import dspy

    adapters = {"chat": dspy.ChatAdapter, "json": dspy.JSONAdapter, "xml": dspy.XMLAdapter}
    return None if name is None else adapters[name]()


class DSPyLMPart(Part):
    """Whatever `dspy.LM` takes: `model = "provider/name"`, hosted or served."""

    kind: Literal["dspy"] = "dspy"
    model: str
    key_env: str | None = None
    api_base: str | None = None
    model_type: Literal["chat", "text", "responses"] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    num_retries: int | None = None
    timeout: float | None = None
    cache: bool | None = None
    adapter: Adapter | None = None

    def make(self) -> Any:
        import dspy

        key = environment_key(self.key_env)
        access = {"api_key": key} if key else {}
        return dspy.LM(**access, **self.given("key_env", "adapter"))


class LocalLMPart(Part):
    """A language model in this process: the bundled one, or the GGUF file `path`."""

    kind: Literal["local"]
    path: FilePath | None = None
    template: Literal["base", "chat"] | None = None
    context: int | None = None
    threads: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    cache: bool | None = None
    adapter: Adapter = "plain"

    packages: ClassVar[tuple[tuple[str, str], ...]] = (("xllamacpp", "xllamacpp"),)

    def make(self) -> Any:
        from crag_dspy.lms.local import local_lm

        return local_lm(self.path, **self.given("path", "adapter"))


class PythonLMPart(PythonPart):
    """A `dspy.LM` of your own."""

    adapter: Adapter | None = None


# [generate]


class SignaturePart(Part):
    """One of the signatures of `crag_dspy.signatures.answer`; `reasoning` lets the model think first."""

    kind: Literal["short", "long", "claim", "choice"] = "short"
    reasoning: bool = False

    def make(self) -> Any:
        import dspy

        from crag_dspy.signatures import answer

        signatures = {
            "short": answer.ShortAnswer,
            "long": answer.LongAnswer,
            "claim": answer.ClaimCheck,
            "choice": answer.ChoiceAnswer,
        }
        return (dspy.ChainOfThought if self.reasoning else dspy.Predict)(signatures[self.kind])


# table -> kind -> class; the first is what a table without `kind` means, where it needs no other key than it has.
KINDS: dict[str, dict[str, type[Part]]] = {
    "retriever": {"local": LocalPart, "weaviate": WeaviatePart, "python": PythonPart},
    "grader": {"t5": T5Part, "embedding": EmbeddingPart, "lm": LMGraderPart, "python": PythonPart},
    "search": {"tavily": TavilyPart, "index": IndexSearchPart, "python": PythonPart},
    "lm": {"dspy": DSPyLMPart, "local": LocalLMPart, "python": PythonLMPart},
    "generate": {
        "short": SignaturePart,
        "long": SignaturePart,
        "claim": SignaturePart,
        "choice": SignaturePart,
        "python": PythonPart,
    },
}
# Tables that may leave `kind` away.
DEFAULT_KINDS = {"retriever": "local", "grader": "t5", "lm": "dspy", "generate": "short"}
