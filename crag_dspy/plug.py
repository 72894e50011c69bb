"""Correction for programs that already exist, in one line and without touching their prompts.

dspy.configure(rm=as_rm(retriever))            # what `dspy.Retrieve` calls
dspy.ReAct("question -> answer", tools=[as_tool(retriever)])
program = corrective(my_rag, search=TavilySearch())
"""

from __future__ import annotations

from typing import Any

import dspy

from crag_dspy.corrective import CorrectiveRetriever
from crag_dspy.errors import ConfigError
from crag_dspy.flow import Call, Flow, adrive, drive, in_thread
from crag_dspy.held import Held

# Attribute names under which programs keep their retrieval when its type does not tell.
RETRIEVAL_NAMES = ("retrieve", "retriever", "retrieval", "search", "rm")


def corrective(
    program: dspy.Module, *attributes: str, grader: Any = "mini", search: Any = None, **settings: Any
) -> Any:
    """A copy of `program` whose retrieval is corrected; its prompts, demos and language models stay as they are.

    Args:
        program: a module that retrieves through an attribute of its own, such as `self.retrieve(question)`.
        attributes: which attributes to replace; by default every `dspy.Retrieve` and `dspy.Embeddings`, and callables
            named as in `RETRIEVAL_NAMES`.
        grader, search, **settings: those of `CorrectiveRetriever`.

    Raises:
        ConfigError: the program has no such attribute; names the ones it has.
    """
    names = list(attributes) or [name for name, value in vars(program).items() if _retrieves(name, value)]
    missing = [name for name in names if not hasattr(program, name)]
    if missing or not names:
        raise ConfigError(
            f"{type(program).__name__} has no retrieval attribute {', '.join(missing) or RETRIEVAL_NAMES}: "
            f"name one of {sorted(name for name in vars(program) if not name.startswith('_'))}"
        )
    corrected = program.deepcopy()
    for name in names:
        source = getattr(program, name)
        retrieve = None if isinstance(source, dspy.Retrieve) else source
        gives_list = not isinstance(source, dspy.Module) and not _is_embeddings(source)
        k = getattr(source, "k", None)
        given = {"k": k, **settings} if isinstance(k, int) and k > 0 else settings
        retriever = CorrectiveRetriever(retrieve, grader, search, **given)
        setattr(corrected, name, CorrectedRetrieve(retriever, gives_list))
    return corrected


class Texts(list[str]):
    """The texts of the evidence, for a program whose own retrieval was a function; most of those return a list."""

    @property
    def passages(self) -> list[str]:
        return list(self)


class CorrectedRetrieve(dspy.Module):
    """Stands where a program's retrieval stood, and is called with a query as it was.

    Gives a prediction with `.passages`, as `dspy.Retrieve` and `dspy.Embeddings` do, or `Texts` when `gives_list`.
    """

    def __init__(self, corrective: CorrectiveRetriever, gives_list: bool = False) -> None:
        super().__init__()
        self.corrective = corrective
        self.gives_list = gives_list

    def forward(self, query: str, k: int | None = None, **_: Any) -> dspy.Prediction | Texts:
        return drive(self._flow(query, k))

    async def aforward(self, query: str, k: int | None = None, **_: Any) -> dspy.Prediction | Texts:
        return await adrive(self._flow(query, k))

    def _flow(self, query: str, k: int | None) -> Flow:
        found = yield Call(self.corrective, question=query)
        found.passages = found.passages[:k]
        return Texts(found.passages) if self.gives_list else found


class CorrectedRM(Held):
    """A retrieval model for `dspy.configure(rm=...)`."""

    def __init__(self, corrective: CorrectiveRetriever) -> None:
        self.corrective = corrective

    def __call__(self, query: str, k: int | None = None, **_: Any) -> list[dspy.Prediction]:
        """Evidence strips as objects with `.long_text`, `.title`, `.url`, `.score` (relevance) and `.origin`."""
        evidence = self.corrective(question=query).evidence[:k]
        return [
            dspy.Prediction(
                long_text=strip.text,
                title=strip.passage.title,
                url=strip.passage.url,
                score=strip.score,
                origin=strip.origin,
            )
            for strip in evidence
        ]


def as_rm(corrective: CorrectiveRetriever) -> CorrectedRM:
    """The retriever as DSPy's configured retrieval model; its own `retrieve` must then be given, not None."""
    return CorrectedRM(corrective)


def as_tool(corrective: CorrectiveRetriever, name: str = "search_evidence") -> dspy.Tool:
    """The retriever as a tool for `dspy.ReAct` and function calling: a question in, checked evidence out."""

    def search_evidence(question: str) -> str:
        """Find passages that answer a question; what is irrelevant has been removed and the web was asked if needed."""
        return corrective(question=question).knowledge or "No evidence was found."

    return EvidenceTool(search_evidence, name=name)


class EvidenceTool(dspy.Tool):
    """A tool that does not hold up the event loop of an async agent: `dspy.Tool` calls functions right in it."""

    async def acall(self, **kwargs: Any) -> Any:
        return await in_thread(self, **kwargs)


def _retrieves(name: str, value: Any) -> bool:
    if isinstance(value, dspy.Retrieve) or _is_embeddings(value):
        return True
    return name in RETRIEVAL_NAMES and callable(value) and not isinstance(value, dspy.Predict)


def _is_embeddings(value: Any) -> bool:
    return type(value).__name__ == "Embeddings"
