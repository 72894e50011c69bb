"""Reading what people pass as a grader."""

from __future__ import annotations

import hashlib
import inspect
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crag_dspy.contracts import Grader
from crag_dspy.graders.named import named
from crag_dspy.live.held import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def as_grader(thing: Any) -> Grader:
    """A `Grader` from a grader, a name (see `named`), a path, an object with `.score(question, texts)`, or a function
    `(question, texts) -> scores`.

    Raises TypeError naming the type of anything else.
    """
    if isinstance(thing, (str, os.PathLike)):
        thing = named(os.fspath(thing))
    if isinstance(thing, Grader):
        return thing
    if isinstance(thing, type):
        raise TypeError(f"cannot use the class {thing.__name__} as a grader: pass an object of it")
    if callable(getattr(thing, "score", None)):
        return FunctionGrader(thing.score, thing)
    if callable(thing):
        return FunctionGrader(thing)
    raise TypeError(
        f"cannot use {type(thing).__name__} as a grader: pass 'mini', a path, an object with "
        "score(question, texts), or a function (question, texts) -> scores"
    )


class FunctionGrader(Held):
    """A plain function, or the method `score` of an `owner`, as a grader. Name and source stand for what it does."""

    def __init__(
        self, function: Callable[[str, Sequence[str]], Sequence[float | None]], owner: Any = None
    ) -> None:
        self.function = function
        self.owner = owner

    @property
    def name(self) -> str:
        named = self.function if self.owner is None else type(self.owner)
        return str(
            getattr(self.owner, "name", None) or getattr(named, "__qualname__", type(named).__qualname__)
        )

    @cached_property
    def fingerprint(self) -> str:
        """Another one when the source changes, so that thresholds of the old function warn; what it closes over, and
        what it calls, does not count. The name alone where there is no source to read.
        """
        name = f"function:{getattr(self.function, '__module__', '')}.{self.name}"
        given = self.function if self.owner is None else self.owner
        written = given if inspect.isroutine(given) else type(given)
        try:
            source = inspect.getsource(written)
        except (OSError, TypeError):
            return name
        return f"{name}:{hashlib.sha256(source.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        return list(self.function(question, texts))
