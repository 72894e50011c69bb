"""A language model that judges on its own, whatever model the program around it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

LOCAL = "local"
MAX_TOKENS = 16  # of a verdict


class LoneJudge:
    """An `LMGrader` together with the model and the adapter that it is used with, and without DSPy's cache.

    The cache would answer a repeated benchmark from disk, and its pairs a second would be those of a disk.

    Args:
        model: "local" for the language model in this process, else what `dspy.LM` takes.
    """

    def __init__(self, model: str) -> None:
        import dspy

        from crag_dspy.graders.lm import LMGrader

        settings: dict[str, Any] = {"temperature": 0.0, "max_tokens": MAX_TOKENS, "cache": False}
        self._context: dict[str, Any]
        if model == LOCAL:
            from crag_dspy.lms.local import local_lm
            from crag_dspy.lms.plain_text import PlainTextAdapter

            self._context = {"lm": local_lm(**settings), "adapter": PlainTextAdapter()}
        else:
            self._context = {"lm": dspy.LM(model, **settings)}
        self._grader = LMGrader(self._context["lm"])
        self.name = self._grader.name
        self.fingerprint = self._grader.fingerprint

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        """As `LMGrader.score`."""
        import dspy

        with dspy.context(**self._context):
            return self._grader.score(question, texts)
