"""Which examples belong together: questions of one document are not independent of each other.

Whoever divides examples keeps a group on one side; whoever resamples them resamples groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.text.matching import normalize

# Fields that name the document of an example, the first one that it has counts; then `relevant_ids`.
DOCUMENT_FIELDS = ("document", "document_id", "doc_id", "article", "article_id", "title", "topic")

By = str | Callable[[dspy.Example], Any]


def groups_of(examples: Sequence[dspy.Example], by: By | None = None) -> list[str] | None:
    """The group of each example, in their order, as a text that is the same for all of a group.

    Args:
        by: what tells the groups apart: a field, or a function of an example. An example for which it gives None or
            nothing is a group with those of the same question. None takes the first of `DOCUMENT_FIELDS` that an
            example has; else its `relevant_ids`, where two examples that share one are of one group, and so are those
            that a chain of such pairs joins; else its question.

    Returns:
        None when `by` is None and no example says what it was made from: then only the questions can be told apart.

    Raises:
        ConfigError: `by` is a field that no example has.
    """
    if isinstance(by, str) and not any(_filled(example.get(by)) for example in examples):
        raise ConfigError(f"groups by {by!r}: no example has this field with something in it")
    keys = [_made_from(example) if by is None else _told(example, by) for example in examples]
    if by is None and not any(keys):
        return None
    each = [
        found or [f"question {question_of(example)}"] for found, example in zip(keys, examples, strict=True)
    ]
    return _joined(each)


def question_of(example: dspy.Example) -> str:
    """What an example asks, so that a question that is only written differently is the same one."""
    return normalize(str(example.get("question", dict(example.inputs().items()))))


def _told(example: dspy.Example, by: By) -> list[str]:
    value = example.get(by) if isinstance(by, str) else by(example)
    return [f"{by if isinstance(by, str) else 'group'} {value}"] if _filled(value) else []


def _made_from(example: dspy.Example) -> list[str]:
    for name in DOCUMENT_FIELDS:
        if _filled(example.get(name)):
            return [f"document {example.get(name)}"]
    passages = example.get("relevant_ids") or []
    return [f"passage {identity}" for identity in ([passages] if isinstance(passages, str) else passages)]


def _filled(value: Any) -> bool:
    return value is not None and str(value).strip() != ""


def _joined(each: Sequence[Sequence[str]]) -> list[str]:
    """One name an example: examples with a key in common get the same, and so do those that others link."""
    above: dict[str, str] = {}

    def top(key: str) -> str:
        while above.setdefault(key, key) != key:
            above[key] = above[above[key]]
            key = above[key]
        return key

    for first, *others in each:
        for other in others:
            low, high = sorted((top(first), top(other)))
            above[high] = low  # the name does not depend on the order of the examples
    return [top(first) for first, *_ in each]
