"""One row of a data file as a `dspy.Example`, checked, with errors that name the line and the field.

An example has `question` (its only input) and, where the data has them: `answers` (list; empty when the
documents hold no answer), `relevant_ids`, `context` (the text the answer is read from), `passages` (what was
retrieved), `choices` (label -> text), `document` (what must stay in one split) and `id`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.passages import as_passages
from crag_dspy.text.replies import read_choices

QUESTION_FIELDS = ("question", "query", "claim", "input")
ANSWER_FIELDS = ("answers", "answer", "possible_answers", "answerKey", "label")
PASSAGE_FIELDS = ("passages", "ctxs")
DOCUMENT_FIELDS = ("document", "title", "topic", "s_wiki_title")


def example_of(row: Any, where: str, *, labelled: bool = True) -> dspy.Example:
    """Read one row.

    Args:
        row: a mapping with one of `QUESTION_FIELDS` and, if `labelled`, one of `ANSWER_FIELDS`. Answers may
            be a str, a list, a JSON list in a str (CSV), SQuAD's {"text": [...]} or TriviaQA's {"value": ...,
            "aliases": [...]}.
        where: what errors call the row: "dev.jsonl line 3".
        labelled: whether an answer is required.
    """
    if not isinstance(row, Mapping):
        raise ConfigError(f"{where}: a row must be an object with fields, got {type(row).__name__}")
    fields: dict[str, Any] = {"question": _question(row, where)}
    answers = _answers(row, where)
    if answers is not None:
        fields["answers"] = answers
    elif labelled:
        raise ConfigError(f"{where}: no {' or '.join(ANSWER_FIELDS)}{_hint(row, ANSWER_FIELDS)}")
    if _given(row, "choices"):
        fields["choices"] = _choices(row["choices"], where)
    if _given(row, "relevant_ids"):
        fields["relevant_ids"] = [str(item) for item in _list(row["relevant_ids"], where, "relevant_ids")]
    if _given(row, "context"):
        fields["context"] = _text(row["context"], where, "context")
    passages = _first(row, PASSAGE_FIELDS)
    if passages is not None:
        fields["passages"] = _passages(row[passages], where, passages)
    document = _first(row, DOCUMENT_FIELDS)
    if document is not None:
        fields["document"] = str(row[document])
    for name in ("id", "split"):
        if _given(row, name):
            fields[name] = str(row[name])
    return dspy.Example(**fields).with_inputs("question")


def with_options(question: str, choices: Mapping[str, str]) -> str:
    """A question with its lettered options below it, as the program is asked it."""
    return "\n".join([question, *(f"{label}: {text}" for label, text in choices.items())])


def _question(row: Mapping[str, Any], where: str) -> str:
    name = _first(row, QUESTION_FIELDS)
    if name is None:
        raise ConfigError(f"{where}: no {' or '.join(QUESTION_FIELDS)}{_hint(row, QUESTION_FIELDS)}")
    return _text(row[name], where, name)


def _answers(row: Mapping[str, Any], where: str) -> list[str] | None:
    name = next((name for name in ANSWER_FIELDS if row.get(name) is not None and row[name] != ""), None)
    if name is None:
        return None
    value = row[name]
    if isinstance(value, Mapping):
        found = value.get("text", value.get("aliases"))
        if found is None:
            raise ConfigError(
                f"{where}: {name} has neither `text` nor `aliases`, got {sorted(map(str, value))}"
            )
        value = [*([value["value"]] if "value" in value else []), *_list(found, where, name)]
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, (str, int, float)) and not _is_json_list(value):
        return [str(value).strip()]
    answers = [item.get("text") if isinstance(item, Mapping) else item for item in _list(value, where, name)]
    for item in answers:
        if not isinstance(item, (str, int, float)) or str(item).strip() == "":
            raise ConfigError(f"{where}: {name} must hold non-empty texts, got {item!r}; [] says: no answer")
    return list(dict.fromkeys(str(item).strip() for item in answers))


def _choices(value: Any, where: str) -> dict[str, str]:
    try:
        return read_choices(json.loads(value) if isinstance(value, str) else value)
    except ValueError as error:  # also ConfigError and a JSON error
        raise ConfigError(f"{where}: {error}") from error


def _passages(value: Any, where: str, name: str) -> list[dict[str, Any]]:
    try:
        return [passage.to_json() for passage in as_passages(value)]
    except TypeError as error:
        raise ConfigError(f"{where}: {name}: {error}") from error


def _text(value: Any, where: str, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: {name} must be a non-empty text, got {value!r}")
    return value.strip()


def _list(value: Any, where: str, name: str) -> list[Any]:
    if isinstance(value, str) and _is_json_list(value):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{where}: {name} is not a JSON list: {error}") from error
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return list(value)
    if hasattr(value, "tolist"):  # a column of a Hugging Face set in numpy format
        return list(value.tolist())
    raise ConfigError(f"{where}: {name} must be a list, got {value!r}")


def _is_json_list(value: Any) -> bool:
    return isinstance(value, str) and value.strip().startswith("[") and value.strip().endswith("]")


def _given(row: Mapping[str, Any], name: str) -> bool:
    value = row.get(name)
    return value is not None and not (isinstance(value, str) and not value.strip())


def _first(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((name for name in names if _given(row, name)), None)


def _hint(row: Mapping[str, Any], wanted: Sequence[str]) -> str:
    """The fields there are, and the one that was probably meant."""
    for name in row:
        near = difflib.get_close_matches(str(name), wanted, 1, 0.75)
        if near and name not in wanted:
            return f" (is {name!r} meant to be {near[0]!r}?)"
    empty = [name for name in wanted if name in row]
    return f": {empty[0]} is empty" if empty else f", only {', '.join(map(str, row)) or 'nothing'}"
