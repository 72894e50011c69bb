"""What a grader's name means, wherever one is given: in code, in `crag.toml` and on a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crag_dspy.live import python_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WRITTEN = (
    "mini, a T5 grader's folder or hub id (base:NAME without its adapter), embedding[:MODEL], lm[:MODEL], "
    "python:module:attribute, strips:NAME"
)


def named(name: str) -> Any:
    """The grader of that name; a function, where `python:` names one.

    Args:
        name: "mini", or a T5 grader's folder or hub id ("./mini" is a folder of that name); "base:" before it for the
            same without its LoRA adapter; "embedding" (MiniLM) or "embedding:MODEL"; "lm" for the language model that
            DSPy is configured with, "lm:local" for the one in this process, "lm:PROVIDER/MODEL" for what `dspy.LM`
            takes; "python:package.module:attribute" for your own; "strips:" before any of them to judge a text by its
            best sentence.

    Raises:
        ConfigError: naming what is missing.
    """
    kind, _, rest = name.partition(":")
    return KINDS[kind](rest) if kind in KINDS else _t5(name)


def _t5(name: str) -> Any:
    from crag_dspy.graders.t5 import T5Grader

    return T5Grader.from_pretrained(name)


def _base(name: str) -> Any:
    from crag_dspy.graders.t5 import T5Grader

    return T5Grader.from_pretrained(name, adapter=False)


def _embedding(model: str) -> Any:
    from crag_dspy.graders.embedding import EmbeddingGrader

    return EmbeddingGrader(model) if model else EmbeddingGrader()


def _lm(model: str) -> Any:
    if model:
        from crag_dspy.graders.lm_alone import LoneJudge

        return LoneJudge(model)
    from crag_dspy.graders.lm import LMGrader

    return LMGrader()


def _strips(name: str) -> Any:
    from crag_dspy.graders.best_strip import BestStrip

    return BestStrip(named(name))


def _python(name: str) -> Any:
    return python_name.imported(name)


KINDS: Mapping[str, Callable[[str], Any]] = {
    "base": _base,
    "embedding": _embedding,
    "lm": _lm,
    "strips": _strips,
    "python": _python,
}
