"""The checks of `crag-dspy doctor`: facts about this machine, found without a network.

A part of the configuration is opened as a question would open it, with the hub switched off.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from crag_dspy.config.parts import Part
    from crag_dspy.config.reading import Config

State = Literal["ok", "missing", "optional", "note"]

PROJECT = "crag-dspy"
# What an extra is for; the one for developers is left out.
EXTRAS = {
    "local": "the demo and work without a key: a language model and an embedder in this process",
    "train": "training, calibrating and benchmarking graders, and MIPROv2",
    "teachers": "the teacher of the shipped grader",
    "datasets": "public datasets by their names on Hugging Face",
    "files": "documents that are HTML, PDF or Word",
    "langchain": "retrievers of LangChain",
    "llama-index": "retrievers of LlamaIndex",
}
# The variables of the providers that people use most; dspy.LM reads them, not this library.
PROVIDER_KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "azure": "AZURE_API_KEY",
    "cohere": "COHERE_API_KEY",
    "dashscope": "DASHSCOPE_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "moonshot": "MOONSHOT_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "together_ai": "TOGETHERAI_API_KEY",
    "xai": "XAI_API_KEY",
}
_OWN_SERVICES = {"tavily": "TAVILY_API_KEY", "weaviate": "WEAVIATE_API_KEY"}


@dataclass(frozen=True)
class Finding:
    """`state`: "ok"; "missing" (needed, with the `fix`); "optional" (not there, and not needed); "note"."""

    name: str
    state: State
    says: str
    fix: str = ""


def check(path: Path | None, *, connect: bool = False) -> list[Finding]:
    """All findings: the installation, the shipped grader, and the parts of a configuration where one is given.

    Args:
        connect: also ask a Weaviate that the configuration names.
    """
    findings = [_python(), *(_package(name, extra) for name, extra in required().items())]
    if path is None:
        here = "crag.toml is here, and not used" if Path("crag.toml").is_file() else "none given"
        findings.append(Finding("configuration", "note", here, "--config crag.toml also checks its parts"))
        with without_hub():
            findings.append(_grader_of(None))
        findings += [_key(name, needed=False) for name in _OWN_SERVICES.values()]
        return findings
    from crag_dspy.config.reading import load_config

    try:
        config = load_config(path)
    except ConfigError as error:
        return [*findings, Finding("configuration", "missing", str(error), "correct the file")]
    findings.append(Finding("configuration", "ok", str(path)))
    with without_hub():
        findings += _parts(config, connect)
    return findings


@contextmanager
def without_hub() -> Iterator[None]:
    """The hub switched off, as with HF_HUB_OFFLINE=1: what is not in its cache is not there."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _python() -> Finding:
    version, wide_enough = platform.python_version(), platform.python_version_tuple() >= ("3", "11")
    return Finding("python", "ok" if wide_enough else "missing", version)


def required() -> dict[str, str]:
    """Every distribution that this one asks for -> the extra that asks for it, "" for the core."""
    found: dict[str, str] = {}
    for line in metadata.requires(PROJECT) or ():
        name = re.match(r"[\w.-]+", line)
        extra = re.search(r"extra == ['\"]([\w-]+)", line)
        if name is not None and (extra is None or extra[1] in EXTRAS):
            found.setdefault(name[0], extra[1] if extra else "")
    return found


def _package(name: str, extra: str) -> Finding:
    """Whether a distribution is installed; nothing is imported."""
    try:
        return Finding(name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        if not extra:
            return Finding(name, "missing", "not installed, and required", f"pip install {name}")
        return Finding(
            name,
            "optional",
            f"not installed; for {EXTRAS[extra]}",
            f'pip install ".[{extra}]" in the checkout',
        )


def _parts(config: Config, connect: bool) -> list[Finding]:
    findings = [_retriever(config.parts.get("retriever"), connect), _grader_of(config.parts.get("grader"))]
    findings.append(_search(config.parts.get("search")))
    findings += _lm(config.parts.get("lm"))
    if "generate" in config.parts:
        findings.append(_opened("generate", config.parts["generate"]))
    if config.program is not None:
        found = config.program.is_file()
        fix = "" if found else "crag-dspy compile or program.save(...) writes one"
        findings.append(Finding("program", "ok" if found else "missing", str(config.program), fix))
    return findings


def _retriever(part: Part | None, connect: bool) -> Finding:
    from crag_dspy.config.parts import LocalPart, WeaviatePart

    if part is None:
        return Finding(
            "retriever", "missing", "no [retriever]", "[retriever] path = FOLDER, made by crag-dspy index"
        )
    if isinstance(part, WeaviatePart) and connect:
        return _opened("retriever", part, _answered)
    if isinstance(part, WeaviatePart):
        return _service(
            "retriever", part, part.key_env or "WEAVIATE_API_KEY", part.key_env is not None, part.url
        )
    return _opened("retriever", part, _searched if isinstance(part, LocalPart) else None)


def _answered(store: Any) -> str:
    """What the server says; a search checks the properties and the embedder against the collection."""
    from crag_dspy.retrievers.weaviate_describe import describe

    about = describe(store)
    if about["tenants"] is None or store.tenant is not None:
        store("a question", 1)
    store.close()
    tenants = "" if about["tenants"] is None else f", {about['tenants']} tenants"
    objects = (
        "pass tenant= to count the objects of one"
        if about["objects"] is None
        else f"{about['objects']} objects"
    )
    return (
        f"{store.connection!r}: Weaviate {about['version']}, ready; collection {about['collection']}: {objects}, "
        f"tokenization {about['tokenization']}, vectors {', '.join(about['vectors']) or 'unnamed or none'}, embedder "
        f"{about['embedder'] or 'not recorded'}{tenants}"
    )


def _search(part: Part | None) -> Finding:
    from crag_dspy.config.parts import IndexSearchPart, TavilyPart

    if part is None:
        return Finding(
            "search", "note", "no [search]: nothing corrects a retrieval that failed", "[search] kind = ..."
        )
    if isinstance(part, TavilyPart):
        key = part.key_env or "TAVILY_API_KEY"
        return _service("search", part, key, not part.keyless, "keyless" if part.keyless else "Tavily")
    index = isinstance(part, IndexSearchPart)
    return _opened("search", part, (lambda search: _searched(search.index)) if index else None)


def _service(name: str, part: Part, variable: str, needed: bool, where: str) -> Finding:
    """A service that is not contacted: its client's package, its key, and arguments that are in range."""
    for module, package in part.packages:
        if importlib.util.find_spec(module) is None:
            return Finding(name, "missing", f"{package} is not installed", f"pip install {package}")
    if needed and not os.environ.get(variable, "").strip():
        return Finding(name, "missing", f"{where}: no key in {variable}", f"export {variable}=...")
    found = _opened(name, part)
    key = f"key in {variable}" if os.environ.get(variable, "").strip() else "no key"
    return found if found.state != "ok" else Finding(name, "ok", f"{where}, {key}; not contacted")


def _grader_of(part: Part | None) -> Finding:
    from crag_dspy.config.parts import T5Part

    return _opened("grader", T5Part() if part is None else part, _graded)


def _graded(grader: Any) -> str:
    """A T5 has judged a pair; a language model would have to be asked, so it is not."""
    from crag_dspy.graders.t5 import T5Grader

    if isinstance(grader, T5Grader):
        score = grader.score("Who designed the bridge?", ["The bridge was designed by an engineer."])[0]
        cuts = grader.thresholds
        tuned = (
            f"upper {cuts.upper:+.2f}, lower {cuts.lower:+.2f}" if cuts else "without thresholds of its own"
        )
        return f"{grader!r}, {tuned}, scores ({'n/a' if score is None else f'{score:+.2f}'} for a test pair)"
    return repr(grader)


def _searched(index: Any) -> str:
    """One search opens the tables and loads the embedder, which is checked against the index's."""
    index("a question", 1)
    about = index.describe()
    return f"{about['path']}: {about['passages']} passages, {about['mode']}, embedder {about['embedder'] or 'none'}"


def _lm(part: Part | None) -> list[Finding]:
    from crag_dspy.config.parts import DSPyLMPart, LocalLMPart

    if part is None:
        fix = '[lm] model = "provider/name", or kind = "local"'
        return [Finding("lm", "missing", "no [lm]", fix)]
    if isinstance(part, LocalLMPart):
        return [_opened("lm", part, lambda lm: f"{lm.model}; not loaded")]
    if not isinstance(part, DSPyLMPart):
        return [_opened("lm", part, lambda lm: str(lm.model))]
    # dspy.LM itself is not made: for some models that imports a library that asks the network for its price list.
    variable = part.key_env or PROVIDER_KEYS.get(part.model.split("/", 1)[0])
    where = f" at {part.api_base}" if part.api_base else ""
    findings = [Finding("lm", "ok", f"{part.model}{where}; not contacted")]
    if variable:
        findings.append(_key(variable, needed=part.key_env is not None or part.api_base is None))
    return findings


def _key(variable: str, *, needed: bool) -> Finding:
    if os.environ.get(variable, "").strip():
        return Finding(variable, "ok", "set")
    fix = f"export {variable}=..."
    return (
        Finding(variable, "missing", "not set", fix)
        if needed
        else Finding(variable, "optional", "not set", fix)
    )


def _opened(name: str, part: Part, says: Any = None) -> Finding:
    """Make the part as a program would. What is wrong is a finding, whatever it is."""
    try:
        live = part.make()
        return Finding(name, "ok", says(live) if says is not None else repr(live))
    except ConfigError as error:
        return Finding(name, "missing", str(error))
    except Exception as error:  # noqa: BLE001 - any fault of a part is what this command is there to report
        return Finding(name, "missing", f"{type(error).__name__}: {error}")
