"""Reading what people pass as a grader."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from crag_dspy.contracts import Grader
from crag_dspy.held import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def as_grader(thing: Any) -> Grader:
    """A `Grader` from a grader, the name, path or hub id of a T5 grader, or a function `(question, texts) -> scores`.

    Raises TypeError naming the type of anything else.
    """
    if isinstance(thing, (str, os.PathLike)):
        from crag_dspy.graders.t5 import T5Grader

        return T5Grader.from_pretrained(os.fspath(thing))
    if isinstance(thing, Grader):
        return thing
    if callable(thing):
        return FunctionGrader(thing)
    raise TypeError(
        f"cannot use {type(thing).__name__} as a grader: pass 'mini', a path, an object with "
        "score(question, texts), name and fingerprint, or a function (question, texts) -> scores"
    )


class FunctionGrader(Held):
    """A plain function as a grader; its qualified name stands for what it does."""

    def __init__(self, function: Callable[[str, Sequence[str]], Sequence[float | None]]) -> None:
        self.function = function

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__qualname__)

    @property
    def fingerprint(self) -> str:
        return f"function:{getattr(self.function, '__module__', '')}.{self.name}"

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        return list(self.function(question, texts))
