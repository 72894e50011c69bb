"""The graders that a command line can name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crag_dspy.contracts import Grader


def named_grader(name: str) -> Grader:
    """`mini`, `embedding` or `embedding:MODEL`, `lm` or `lm:MODEL`, else a T5 grader's folder or hub id."""
    kind, _, model = name.partition(":")
    if kind == "embedding":
        from crag_dspy.graders.embedding import EmbeddingGrader

        return EmbeddingGrader(model) if model else EmbeddingGrader()
    if kind == "lm":
        from crag_dspy.graders.lm import LMGrader

        return LMGrader(model) if model else LMGrader()
    from crag_dspy.graders.t5 import T5Grader

    return T5Grader.from_pretrained(name)
