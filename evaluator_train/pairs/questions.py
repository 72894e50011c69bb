"""What weak labels are made from: questions with what is known of their answers, and a corpus of passages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.files.squad import read_squad
from crag_dspy.passages import Passage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crag_dspy.files.squad import Paragraph


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what is known about where its answer stands.

    Args:
        question: as a user would ask it.
        answers: the answer and its aliases; empty when unknown.
        entity: title of the page the question is about; "" when unknown.
        relevant_ids: ids of the passages or documents known to hold the answer; empty when unknown.
    """

    question: str
    answers: tuple[str, ...] = ()
    entity: str = ""
    relevant_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.question, str) or not self.question.strip():
            raise ConfigError(f"question must be a text that is not empty, got {self.question!r}")
        if not isinstance(self.entity, str):
            raise ConfigError(f"entity must be the title of a page, got {self.entity!r}")
        for name in ("answers", "relevant_ids"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(item, str) for item in value):
                raise ConfigError(f"{name} must be a list of str, got {value!r}")
            object.__setattr__(self, name, tuple(item for item in value if item.strip()))


def read_known(path: Path | str) -> list[Question]:
    """What is known of the questions of a JSONL file, or of SQuAD JSON, where a question's paragraph is relevant.

    A line of JSONL has `question` and any of `answers` (or `answer`), `entity` and `relevant_ids`. Raises
    ConfigError naming the file, the line and the field.
    """
    file = _existing(path, "questions")
    if file.suffix == ".json":
        return [_squad_question(row, each) for each in read_squad(file) for row in each.asked()]
    found = []
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                found.append(_question(line, f"{file.name}:{number}"))
    if not found:
        raise ConfigError(f"{file.name}: holds no questions")
    return found


def read_corpus(path: Path | str, max_words: int | None = 200) -> list[Passage]:
    """Passages of a JSONL, text or Markdown file or a folder of them; or the paragraphs of SQuAD v1.1 JSON.

    Documents of more than `max_words` words are cut between sentences, as a `LocalIndex` cuts them. Each
    passage names its document in `metadata["document"]`.
    """
    from crag_dspy.retrievers.chunking import chunks
    from crag_dspy.retrievers.documents import read_documents

    file = Path(path)
    if file.suffix == ".json":
        return [paragraph.passage() for paragraph in read_squad(_existing(path, "corpus"))]
    passages = []
    for document, _ in read_documents(file):
        parts = chunks(document.text, max_words, document.title)
        for number, (start, end, context) in enumerate(parts):
            name = document.id if len(parts) == 1 else f"{document.id}#{number}"
            metadata = {**document.metadata, "document": document.id}
            text = context + document.text[start:end]
            passages.append(Passage(text, name, document.title, document.url, None, metadata))
    return passages


def _existing(path: Path | str, field: str) -> Path:
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"{field}: no file {str(path)!r}")
    return file


def _question(line: str, where: str) -> Question:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise ConfigError(f"{where}: must be an object with the field 'question', got {type(row).__name__}")
    answers = row.get("answers", row.get("answer")) or ()
    try:
        return Question(
            question=row.get("question") or "",
            answers=(answers,) if isinstance(answers, str) else answers,
            entity=row.get("entity") or "",
            relevant_ids=row.get("relevant_ids") or (),
        )
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{where}: {error}") from error


def _squad_question(row: Mapping[str, Any], paragraph: Paragraph) -> Question:
    answers = dict.fromkeys(str(answer.get("text", "")) for answer in row.get("answers") or ())
    return Question(str(row["question"]), tuple(answers), relevant_ids=(paragraph.id,))
