"""Correction for programs that already exist, in one line and without touching their prompts.

dspy.configure(rm=as_rm(retriever))            # what `dspy.Retrieve` calls
dspy.ReAct("question -> answer", tools=[as_tool(retriever)])
program = corrected(my_rag, search=TavilySearch())
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import dspy

from crag_dspy.corrective import CorrectiveRetriever
from crag_dspy.errors import ConfigError
from crag_dspy.flow import Call, Flow, adrive, drive, in_thread
from crag_dspy.live.held import Held
from crag_dspy.plug.said import NOTHING, spoken, told
from crag_dspy.retrievers.calling import LIMIT_NAMES, QUERY_NAMES, is_async
from crag_dspy.state.arguments import check_whole
from crag_dspy.state.saving import Saved
from crag_dspy.text.untrusted import as_asked, one_line

# Attribute names under which programs keep their retrieval when its type does not tell.
RETRIEVAL_NAMES = ("retrieve", "retriever", "retrieval", "search", "rm")
SURE_LIMITS = LIMIT_NAMES[: LIMIT_NAMES.index("n")]  # "n" or "size" may count something else than results


def corrected(
    program: dspy.Module, *attributes: str, grader: Any = "mini", search: Any = None, **settings: Any
) -> Any:
    """A copy of `program` whose retrieval is corrected; its prompts, demos and language models stay as they are.

    Evidence from the web stands between markers in what its prompts read (see `quoted`).

    Args:
        program: a module that retrieves through an attribute, its own or a submodule's, which is called like a
            function: `self.retrieve(question)`, or `await self.retrieve(question)` where that is an async function.
        attributes: which to replace, such as "retrieve" or "hop.retrieve"; by default every `dspy.Retrieve` and
            `dspy.Embeddings`, callables named as in `RETRIEVAL_NAMES`, and callables that take a query and how many
            results are wanted, by names such as `text` and `top_k`, wherever they are.
        grader, search, **settings: those of `CorrectiveRetriever`.

    Raises:
        ConfigError: the program has no such attribute (names the ones it has), is one of this library's, or no module.
    """
    if not isinstance(program, dspy.Module):
        raise ConfigError(
            f"program must be a dspy.Module, got {type(program).__name__}: CorrectiveRetriever corrects others"
        )
    if isinstance(program, Saved):
        raise ConfigError(
            f"{type(program).__name__} is of this library: RAG corrected is CRAG, and SelfRAG corrected is SelfCRAG, "
            f"with the same arguments; CRAG, SelfCRAG and CorrectiveRetriever correct already"
        )
    made_right = program.deepcopy()
    paths = [_path(program, name) for name in attributes] or list(_places(made_right, set()))
    if not paths:
        raise _no_retrieval(program, str(RETRIEVAL_NAMES))
    made: dict[int, CorrectedRetrieve] = {}  # one for a retrieval that several modules share
    for *parents, name in paths:
        source = _follow(program, [*parents, name])
        if id(source) not in made:
            made[id(source)] = _replacement(name, source, grader, search, settings)
        setattr(_follow(made_right, parents), name, made[id(source)])
    return made_right


corrective = corrected  # its name before, which is also that of a module of this library


def _replacement(
    name: str, source: Any, grader: Any, search: Any, settings: dict[str, Any]
) -> CorrectedRetrieve:
    if not callable(source):
        raise ConfigError(
            f"{name} is a {type(source).__name__}, of which the program calls a method: only what is called like a "
            f"function can be replaced. Give the program as_langchain(...) or as_llama_index(...) of "
            f"crag_dspy.plug.frameworks in its place"
        )
    k = getattr(source, "k", None)
    given = {"k": k, **settings} if isinstance(k, int) and k > 0 else settings
    retrieve = None if isinstance(source, dspy.Retrieve) else source
    gives_list = not isinstance(source, dspy.Module) and not _is_embeddings(source)
    kind = AwaitedRetrieve if is_async(source) else CorrectedRetrieve
    return kind(CorrectiveRetriever(retrieve, grader, search, **given), gives_list)


class Texts(list[str]):
    """The texts of the evidence, for a program whose own retrieval was a function; most of those return a list.

    `warnings` says what did not work.
    """

    def __init__(self, texts: Iterable[str], warnings: Sequence[str] = ()) -> None:
        super().__init__(texts)
        self.warnings = list(warnings)

    @property
    def passages(self) -> list[str]:
        return list(self)


class CorrectedRetrieve(dspy.Module):
    """Stands where a program's retrieval stood, and is called with a query as it was.

    Gives a prediction with `.passages`, as `dspy.Retrieve` and `dspy.Embeddings` do, or `Texts` when `gives_list`; both
    with `.warnings`. The query may be called `text=` or what else is usual (`QUERY_NAMES`), and how many texts are
    wanted `top_k=` or the like (`LIMIT_NAMES`): as many passages are retrieved then, and at most so many texts given.
    """

    def __init__(self, corrective: CorrectiveRetriever, gives_list: bool = False) -> None:
        super().__init__()
        self.corrective = corrective
        self.gives_list = gives_list

    def forward(self, *args: Any, **kwargs: Any) -> dspy.Prediction | Texts:
        return drive(self._flow(*_asked(args, kwargs)))

    async def aforward(self, *args: Any, **kwargs: Any) -> dspy.Prediction | Texts:
        return await adrive(self._flow(*_asked(args, kwargs)))

    def _flow(self, query: Any, k: int | None) -> Flow:
        found = yield Call(self.corrective, question=query, k=k)
        found.passages = spoken(found)[:k]
        return Texts(found.passages, found.warnings) if self.gives_list else found


class AwaitedRetrieve(CorrectedRetrieve):
    """Stands where an async function stood: a call of it is awaited."""

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return await self.acall(*args, **kwargs)


def _asked(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, int | None]:
    """The query and the limit of a call, by position or by a usual name."""
    positional = list(args)
    named = next((name for name in QUERY_NAMES if name in kwargs), None)
    query = kwargs[named] if named else positional.pop(0) if positional else None
    limit = next((kwargs[name] for name in LIMIT_NAMES if kwargs.get(name) is not None), None)
    if limit is None and positional and isinstance(positional[0], int):
        limit = positional[0]
    if limit is not None:
        check_whole("k", limit)
    return query, limit


class CorrectedRM(Held):
    """A retrieval model for `dspy.configure(rm=...)`."""

    def __init__(self, corrective: CorrectiveRetriever) -> None:
        self.corrective = corrective

    def __call__(self, query: str, k: int | None = None, **_: Any) -> list[dspy.Prediction]:
        """Evidence strips as objects with `.long_text`, `.title`, `.url`, `.score` (relevance) and `.origin`.

        The text of a web strip stands between markers (see `quoted`). At most `k`. Where there is none because a part
        did not work, one object says so, whose origin is "none"; each has the `warnings` of the question.
        """
        found = self.corrective(question=query, k=k)
        strips: list[Any] = [*found.evidence] or [None] * len(spoken(found))
        return [
            dspy.Prediction(
                long_text=text,
                title=one_line(strip.passage.title) if strip else "",
                url=as_asked(strip.passage.url) if strip else "",
                score=strip.score if strip else None,
                origin=strip.origin if strip else "none",
                warnings=found.warnings,
            )
            for strip, text in zip(strips[:k], spoken(found)[:k], strict=True)
        ]


def as_rm(corrective: CorrectiveRetriever) -> CorrectedRM:
    """The retriever as DSPy's configured retrieval model; its own `retrieve` must then be given, not None."""
    return CorrectedRM(check_corrective(corrective))


def as_tool(corrective: CorrectiveRetriever, name: str = "search_evidence") -> dspy.Tool:
    """The retriever as a tool for `dspy.ReAct` and function calling: a question in, checked evidence out.

    What did not work is said below the evidence, or instead of it.
    """
    check_corrective(corrective)

    def search_evidence(question: str) -> str:
        """Find passages that answer a question; what is irrelevant has been removed and the web was asked if needed."""
        found = corrective(question=question)
        failed = told(found.warnings) if found.trace.faults else ""
        return "\n\n".join(part for part in (found.knowledge or NOTHING, failed) if part)

    return EvidenceTool(search_evidence, name=name)


class EvidenceTool(dspy.Tool):
    """A tool that does not hold up the event loop of an async agent: `dspy.Tool` calls functions right in it."""

    async def acall(self, **kwargs: Any) -> Any:
        return await in_thread(self, **kwargs)


def check_corrective(given: Any) -> CorrectiveRetriever:
    """`given`, when it is what the adapters adapt. Raises ConfigError that says how to make one."""
    if isinstance(given, CorrectiveRetriever):
        return given
    inner = isinstance(getattr(given, "corrective", None), CorrectiveRetriever)
    fix = "pass its .corrective" if inner else "pass CorrectiveRetriever(it, search=...)"
    raise ConfigError(f"a CorrectiveRetriever is needed, got {type(given).__name__}: {fix}")


def _places(module: dspy.Module, seen: set[int]) -> Iterator[list[Any]]:
    """Paths of attribute names and keys from `module` to every retrieval, its own before its submodules'."""
    seen.add(id(module))
    inner: list[tuple[list[Any], dspy.Module]] = []
    for name, value in vars(module).items():
        if _retrieves(name, value):
            yield [name]
        else:
            inner += [([name, *keys], found) for keys, found in _modules(value)]
    for path, found in inner:
        if id(found) not in seen:
            yield from ([*path, *rest] for rest in _places(found, seen))


def _modules(value: Any) -> list[tuple[list[Any], dspy.Module]]:
    if isinstance(value, dspy.Module):
        # What this library made retrieves for itself.
        return [] if isinstance(value, (Saved, CorrectedRetrieve)) else [([], value)]
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, (list, tuple))
        else ()
    )
    return [([key, *keys], found) for key, item in items for keys, found in _modules(item)]


def _path(program: dspy.Module, dotted: str) -> list[str]:
    path = dotted.split(".")
    try:
        _follow(program, path)
    except AttributeError:
        raise _no_retrieval(program, dotted) from None
    return path


def _follow(thing: Any, path: Sequence[Any]) -> Any:
    for step in path:
        thing = thing[step] if isinstance(thing, (dict, list, tuple)) else getattr(thing, step)
    return thing


def _no_retrieval(program: dspy.Module, wanted: str) -> ConfigError:
    own = sorted(name for name in vars(program) if not name.startswith("_"))
    return ConfigError(f"{type(program).__name__} has no retrieval attribute {wanted}: name one of {own}")


def _retrieves(name: str, value: Any) -> bool:
    if isinstance(value, dspy.Retrieve) or _is_embeddings(value):
        return True
    if not callable(value) or isinstance(value, (type, Saved, CorrectedRetrieve)):
        return False
    # A ChainOfThought called `search` writes a query, and retrieves nothing.
    if isinstance(value, dspy.Module) and type(value).__module__.startswith("dspy.predict."):
        return False
    return name in RETRIEVAL_NAMES or (not isinstance(value, dspy.Module) and _is_called_like_one(value))


def _is_called_like_one(function: Any) -> bool:
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return False
    return bool(names) and names[0] in QUERY_NAMES and any(name in SURE_LIMITS for name in names[1:])


def _is_embeddings(value: Any) -> bool:
    return type(value).__name__ == "Embeddings"
