"""What judges how relevant a text is to a question. Importing this package imports no torch."""

from crag_dspy.graders.t5 import T5Grader

__all__ = ["T5Grader"]
