"""What judges how relevant a text is to a question. Importing this package imports no torch."""

from crag_dspy.graders.adapt import as_grader
from crag_dspy.graders.embedding import EmbeddingGrader
from crag_dspy.graders.lm import LMGrader
from crag_dspy.graders.t5 import T5Grader

__all__ = ["EmbeddingGrader", "LMGrader", "T5Grader", "as_grader"]
