"""Worked examples for predictors that have none yet. Facts in our own words, far from any data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dspy.signatures.signature import Signature

_EXAMPLES = (
    {
        "context": "Ottawa was chosen as the capital of Canada by Queen Victoria in 1857. Toronto is its largest city.",
        "question": "In which year was Ottawa chosen as the capital?",
        "answer": "1857",
        "query": "Ottawa chosen capital of Canada year",
    },
    {
        "context": "The Nile flows north through eleven countries and empties into the Mediterranean Sea.",
        "question": "Into which sea does the Nile flow?",
        "answer": "the Mediterranean Sea",
        "query": "Nile river mouth sea",
    },
    {
        "context": "Bees make honey from nectar. A worker bee lives about six weeks in summer. The queen can live "
        "five years.",
        "question": "How long does a worker bee live in summer?",
        "answer": "about six weeks",
        "query": "worker bee lifespan summer",
    },
)


def worked_examples(signature: type[Signature]) -> list[dict[str, Any]]:
    """The examples as demos of `signature`; none unless they have every field of it, and its outputs are text."""
    names = set(signature.fields)
    texts = all(field.annotation is str for field in signature.output_fields.values())
    if not texts or not names <= set(_EXAMPLES[0]):
        return []
    return [{name: example[name] for name in signature.fields} for example in _EXAMPLES]
