"""A grader as a tool that an agent can call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dspy

    from crag_dspy.contracts import Grader


def as_tool(grader: Grader) -> dspy.Tool:
    """`grade_relevance(question, texts)`: one score in [-1, 1] a text, None where it could not judge."""
    import dspy

    def grade_relevance(question: str, texts: list[str]) -> list[float | None]:
        return grader.score(question, texts)

    return dspy.Tool(
        grade_relevance,
        name="grade_relevance",
        desc=(
            "Scores how relevant each text is to a question: one number a text, from -1 (irrelevant) to 1 "
            "(relevant), null where it cannot be judged."
        ),
        arg_desc={"question": "the question, in words", "texts": "the texts to judge"},
    )
