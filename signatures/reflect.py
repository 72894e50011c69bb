"""Self-reflection on an answer (Self-RAG, arXiv 2310.11511), as one verdict that a program can act on."""

from __future__ import annotations

import dspy


class ReflectOnAnswer(dspy.Signature):
    """Say whether the context supports the answer to the question."""

    context: str = dspy.InputField(desc="numbered evidence")
    question: str = dspy.InputField()
    answer: str = dspy.InputField(desc="the answer to judge")
    verdict: str = dspy.OutputField(desc="yes when the context states it, no otherwise")
