"""What can be read off a prediction, of `CRAG` or of any other DSPy program.

A metric sees whatever program is being compared: a field that is not there is empty or None, never an error.
A program that raised gives an empty prediction (Evaluate) or None (SIMBA). One that says itself that it failed has the
sentence of a refusal for an answer, and has not declined all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crag_dspy.actions import Action
from crag_dspy.text.replies import is_abstention, reply_text


def field_of(prediction: Any, name: str, default: Any = None) -> Any:
    """A field of a prediction, mapping or object."""
    if prediction is None:
        return default
    if hasattr(prediction, "get"):
        return prediction.get(name, default)
    return getattr(prediction, name, default)


def answer_of(prediction: Any) -> str:
    """The answer alone: the thinking and the markers that a program lets through are no part of it."""
    return reply_text(field_of(prediction, "answer"), "answer")


def action_of(prediction: Any) -> Action | None:
    action = field_of(prediction, "action")
    try:
        return None if action is None else Action(action)
    except ValueError:
        return None


def failure_of(prediction: Any) -> str | None:
    """Why the program could not answer, in its own words; None where it answered or declined."""
    failed = field_of(prediction, "failed")
    return str(failed) if failed else None


def faults_of(prediction: Any) -> str | None:
    """The parts that did not work while it answered, each with its cause; None where all did."""
    faults = field_of(field_of(prediction, "trace"), "faults")
    return (
        "; ".join(f"{part}: {cause}" for part, cause in faults.items())
        if isinstance(faults, Mapping) and faults
        else None
    )


def abstained(prediction: Any) -> bool:
    """Whether the program declined to answer: it found no evidence, or its answer says that it does not know."""
    return failure_of(prediction) is None and is_abstention(answer_of(prediction))


def evidence_of(prediction: Any) -> list[tuple[str, str]]:
    """(origin, text) of every kept strip; of the knowledge or context where there are no strips."""
    strips = field_of(prediction, "evidence")
    if strips:
        return [(str(field_of(strip, "origin", "")), _text(strip)) for strip in strips]
    for name in ("knowledge", "context"):
        text = field_of(prediction, name)
        if text:
            return [("", part) for part in ([text] if isinstance(text, str) else map(_text, text))]
    return []


def passages_of(prediction: Any) -> list[Any] | None:
    """What was retrieved, before refinement; None when the program does not say."""
    passages = field_of(field_of(prediction, "trace"), "passages", field_of(prediction, "passages"))
    return None if passages is None else list(passages)


def texts_of(passages: list[Any]) -> list[str]:
    return [_text(passage) for passage in passages]


def ids_of(passages: list[Any]) -> list[str]:
    return [str(field_of(passage, "id", "")) for passage in passages]


def strings_of(prediction: Any, name: str) -> list[str]:
    """`queries` or `warnings`: a list of strings, or one, or nothing."""
    value = field_of(prediction, name)
    if not value:
        return []
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _text(item: Any) -> str:
    return item if isinstance(item, str) else str(field_of(item, "text", item))
