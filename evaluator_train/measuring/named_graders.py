"""The graders that a command line can name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.evaluator_train.measuring.best_strip import BestStrip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_dspy.contracts import Grader

MAX_TOKENS = 16  # of a verdict


def named_grader(name: str) -> Grader:
    """Open a grader by name.

    Args:
        name: `mini`, or a T5 grader's folder or hub id; `base:` before it for the same without its LoRA adapter;
            `embedding` (MiniLM) or `embedding:MODEL`; `lm` or `lm:local` for the in-process language model,
            `lm:PROVIDER/MODEL` for what `dspy.LM` takes; `python:package.module:attribute` for your own; `strips:`
            before any of them to judge a text by its best sentence.

    Raises:
        ConfigError: naming what is missing.
    """
    kind, _, model = name.partition(":")
    if kind == "lm":
        return LanguageModelJudge(model or "local")
    if kind == "strips":
        return BestStrip(named_grader(model))
    if kind == "embedding":
        return _part({"kind": "embedding", **({"embedder": model} if model else {})})
    if kind == "python":
        return _part({"kind": name})
    if kind == "base":
        from crag_dspy.graders.t5 import T5Grader

        return T5Grader.from_pretrained(model, adapter=False)
    # A folder is meant from here; the configuration would look beside its own file.
    from crag_dspy.graders.loading import shipped

    # A shipped name means the shipped grader, also where a folder of that name happens to lie.
    folder = Path(name).is_dir() and name not in shipped()
    return _part({"source": str(Path(name).absolute()) if folder else name})


class LanguageModelJudge:
    """An `LMGrader` together with the model and the adapter that it is used with, and without DSPy's cache.

    The cache would answer a repeated benchmark from disk, and its pairs a second would be those of a disk.
    """

    def __init__(self, model: str) -> None:
        from crag_dspy.graders.lm import LMGrader

        table: dict[str, Any] = {"kind": "local"} if model == "local" else {"model": model}
        table |= {"temperature": 0.0, "max_tokens": MAX_TOKENS, "cache": False}
        self._lm, self._adapter = _language_model(table)
        self._grader = LMGrader(self._lm)
        self.name = self._grader.name
        self.fingerprint = self._grader.fingerprint

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        """As `LMGrader.score`."""
        import dspy

        with dspy.context(lm=self._lm, adapter=self._adapter):
            return self._grader.score(question, texts)


def _part(plain: dict[str, Any]) -> Grader:
    from crag_dspy.config.reading import build_part, read_config

    grader: Grader = build_part(read_config({"grader": plain}, Path("command line")), "grader")
    return grader


def _language_model(plain: dict[str, Any]) -> tuple[Any, Any]:
    from crag_dspy.config.parts import make_adapter
    from crag_dspy.config.reading import read_config

    part: Any = read_config({"lm": plain}, Path("command line")).parts["lm"]
    return part.make(), make_adapter(part.adapter)
