"""The paper's four sets, as their publishers and as the paper's own files have them, and any set on Hugging Face.

Nothing is downloaded unless a set is asked for by name. Questions of PopQA ask for a fact (short answers), PubHealth's
are claims (true or false), ARC-Challenge's have choices, Biography asks for a life (no gold answer).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.files.paper import read_folder
from crag_dspy.optimize.questions.rows import example_of, with_options

if TYPE_CHECKING:
    from pathlib import Path

    import dspy

# Integers in the Hugging Face version, words in the original, verdicts in FEVER-like versions.
_CLAIM_LABELS = {
    "0": "false",
    "1": "mixture",
    "2": "true",
    "3": "unproven",
    "supports": "true",
    "refutes": "false",
    **{label: label for label in ("true", "false", "mixture", "unproven")},
}


@dataclass(frozen=True, slots=True)
class PublicSet:
    """Where a set is, and how a row of it reads."""

    example: Callable[[Any, str], dspy.Example]
    hugging_face: str = ""
    config: str | None = None
    split: str = "test"


def _popqa(row: Any, where: str) -> dspy.Example:
    return example_of(row, where)


def _pubhealth(row: Any, where: str) -> dspy.Example:
    fields = _object(row, where)
    given = str(fields.get("label", "") if fields.get("label") is not None else "")
    if not given:
        return example_of(fields, where)
    label = _CLAIM_LABELS.get(given.strip().lower())
    if label is None:
        raise ConfigError(f"{where}: label must be one of {', '.join(_CLAIM_LABELS)}, got {given!r}")
    return example_of({**fields, "answers": [label]}, where)


def _arc(row: Any, where: str) -> dspy.Example:
    fields = _object(row, where)
    asked = fields.get("question")
    if isinstance(
        asked, Mapping
    ):  # the original file: {"question": {"stem": ..., "choices": [{"text", "label"}]}}
        choices = {item["label"]: item["text"] for item in asked.get("choices", [])}
        fields = {**fields, "question": asked.get("stem"), "choices": choices}
    example = example_of(fields, where)
    return _asked_with_options(example, where)


def _biography(row: Any, where: str) -> dspy.Example:
    fields = _object(row, where)
    topic = fields.get("topic") or fields.get("entity")
    if topic and not fields.get("question"):
        fields = {**fields, "topic": topic, "question": f"Tell me a bio of {topic}."}
    return example_of(
        {k: v for k, v in fields.items() if k not in ("answers", "answer")}, where, labelled=False
    )


PUBLIC_SETS = {
    "popqa": PublicSet(_popqa, "akariasai/PopQA"),
    "pubhealth": PublicSet(_pubhealth, "ImperialCollegeLondon/health_fact"),
    "arc_challenge": PublicSet(_arc, "allenai/ai2_arc", "ARC-Challenge"),
    "biography": PublicSet(_biography),
}


def from_hugging_face(name: str, split: str | None, labelled: bool) -> Iterator[dspy.Example]:
    """A set by one of our names, or by its own: "owner/name" or "owner/name:config".

    Needs the `datasets` package and the internet. Only data is loaded: no code of the set is run.
    """
    known = PUBLIC_SETS.get(name)
    if known is None and not re.fullmatch(r"[\w.-]+/[\w.-]+(:[\w.-]+)?", name):
        ours = ", ".join(PUBLIC_SETS)
        raise ConfigError(f"{name!r} is no file, none of {ours}, and no Hugging Face name (owner/name)")
    if known is not None and not known.hugging_face:
        raise ConfigError(f"{name} is not on Hugging Face: pass the path of its file, with format={name!r}")
    address, _, config = (known.hugging_face, "", known.config) if known else name.partition(":")
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise ConfigError(
            f'loading {name!r} by name needs the datasets package (pip install ".[datasets]"); or pass a path'
        ) from error
    try:
        rows = library.load_dataset(
            address, config or None, split=split or (known.split if known else "validation")
        )
    except Exception as error:  # its own errors, the hub's and the network's have no common root
        raise ConfigError(
            f"could not load {name!r} from Hugging Face: {error}. Offline, pass a path"
        ) from error
    for number, row in enumerate(rows, 1):
        where = f"{name} row {number}"
        yield known.example(row, where) if known else example_of(row, where, labelled=labelled)


def paper_folder(folder: Path) -> Iterator[dspy.Example]:
    """A folder as the paper's authors publish them, without gold answers.

    `questions.txt` has one question a line; `choices.txt` (A: ...; B: ...) and `retrieved_passages.txt`
    (title // text [sep] ...), where there are any, as many lines.
    """
    for number, found in enumerate(read_folder(folder), 1):
        where = f"{folder.name}/questions.txt line {number}"
        row: dict[str, Any] = {"question": found.question, "id": str(number)}
        if found.choices:
            row["choices"] = _listed_choices(found.choices, f"{folder.name}/choices.txt line {number}")
        if found.passages:
            row["passages"] = found.passages
        example = example_of(row, where, labelled=False)
        yield _asked_with_options(example, where) if found.choices else example


def _listed_choices(line: str, where: str) -> dict[str, str]:
    """ "A: ...; B: ..." where texts may hold semicolons too: only the next label in order separates."""
    parts = re.split(r"(?:^|;\s*)(?=[A-Z1-9]: )", line.strip())
    found = dict(part.split(": ", 1) for part in parts if ": " in part)
    if len(found) < 2:
        raise ConfigError(f"{where}: expected choices as 'A: ...; B: ...', got {line!r}")
    return {label.strip(): text.strip() for label, text in found.items()}


def _asked_with_options(example: dspy.Example, where: str) -> dspy.Example:
    """The options belong to the question that the program is asked; the bare question stays as `stem`."""
    choices = example.get("choices")
    if not choices:
        raise ConfigError(f"{where}: no choices")
    asked = example.copy(question=with_options(example.question, choices), stem=example.question)
    return asked.with_inputs("question")


def _object(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise ConfigError(f"{where}: a row must be an object with fields, got {type(row).__name__}")
    return dict(row)
