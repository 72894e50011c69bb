"""What judges how relevant a text is to a question. Importing this package imports no torch, and no dspy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.live.lazy_names import lazy_names

if TYPE_CHECKING:
    from crag_dspy.graders.adapt import as_grader
    from crag_dspy.graders.embedding import EmbeddingGrader
    from crag_dspy.graders.lm import LMGrader
    from crag_dspy.graders.t5 import T5Grader

_HOMES = {
    "EmbeddingGrader": "embedding",
    "LMGrader": "lm",
    "T5Grader": "t5",
    "as_grader": "adapt",
}

__all__ = ["EmbeddingGrader", "LMGrader", "T5Grader", "as_grader"]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
