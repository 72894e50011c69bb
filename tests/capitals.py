"""A small CRAG on capitals, whose parts are real except the grader and the language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dspy
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Country -> (capital, what the internal passage says). Some internal passages are wrong or beside the point.
INTERNAL = {
    "France": "Paris is the capital of France.",
    "Italy": "Rome is the capital of Italy.",
    "Spain": "Spain is known for its beaches.",
    "Peru": "Peru grows many kinds of potatoes.",
    "Cuba": "The capital of Cuba is a large city.",
    "Chad": "Chad has a lake of that name.",
}
CAPITALS = {
    "France": "Paris",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Peru": "Lima",
    "Cuba": "Havana",
    "Chad": "Ndjamena",
}
SCORES = {"France": 0.9, "Italy": 0.6, "Cuba": 0.2, "Spain": -0.3, "Peru": -0.8, "Chad": -0.9}


class CapitalsGrader:
    """Scores a text by the country it is about; the country asked for is what counts."""

    name = "capitals"
    fingerprint = "v1"

    def __copy__(self) -> CapitalsGrader:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CapitalsGrader:
        return self

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        return [next((s for c, s in SCORES.items() if c in text and c in question), -1.0) for text in texts]

    def as_tool(self) -> dspy.Tool:
        return dspy.Tool(self.score, name="grade")


def retrieve_by_country(query: str) -> list[dict[str, str]]:
    return [{"id": country, "text": text} for country, text in INTERNAL.items() if country in query]


def read_answer(request: Any) -> str:
    """A model that reads the capital out of its evidence, and guesses London when it is not there."""
    context = request.inputs.get("context", "")
    country = next((c for c in CAPITALS if c in request.inputs["question"]), "")
    return CAPITALS[country] if country and CAPITALS[country] in context else "London"


SCRIPT: dict[str, Any] = {"answer": read_answer, "query": lambda request: request.inputs["question"]}


@pytest.fixture
def capitals_devset() -> list[dspy.Example]:
    return [
        dspy.Example(question=f"What is the capital of {country}?", answers=[city]).with_inputs("question")
        for country, city in CAPITALS.items()
    ]


@pytest.fixture
def capitals_script() -> dict[str, Any]:
    return dict(SCRIPT)


@pytest.fixture
def capitals_program() -> Callable[..., Any]:
    """A factory of `CRAG`; keyword arguments are settings, or `grader=`, `search=`, `retrieve=`."""

    def make(**options: Any) -> Any:
        from crag_dspy.crag import CRAG
        from crag_dspy.websearch.index import IndexSearch

        web = [{"id": f"web-{c}", "text": f"The capital of {c} is {city}."} for c, city in CAPITALS.items()]
        given = {
            "retrieve": retrieve_by_country,
            "grader": CapitalsGrader(),
            "search": IndexSearch(web),
            "k": 1,
            "web_results": 1,
            "strip_threshold": -1.0,
            "evidence_threshold": -1.0,
            "upper": 0.5,
            "lower": -0.5,
            **options,
        }
        return CRAG(**given)

    return make
