"""The paper's own data, as its authors publish it: questions with the knowledge that their system made of each.

A folder a task (`popqa`, `pubhealth`, `arc_challenge`, `biography`), and in each file one row a question:
`questions.txt`; `ref_correct.txt` (their refined passages), `ref_incorrect.txt` (from the web), `ref_ambiguous.txt`
(both); `choices.txt` of ARC-Challenge and `retrieved_passages.txt` of Biography. There are no gold answers. A file
whose rows do not stand beside their questions is refused: joined by number it would show another question's knowledge.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crag_dspy.errors import ConfigError
from crag_dspy.passages import Passage
from crag_dspy.state.arguments import check_choice
from crag_dspy.text.matching import words

TASKS = ("popqa", "pubhealth", "arc_challenge", "biography")
KINDS = ("correct", "incorrect", "ambiguous")
ENVIRONMENT = "CRAG_DATASETS"
_SUBFOLDER = "crag-paper"


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One question: the paper's knowledge by kind as `references`, `choices` and `passages` where the task has them."""

    question: str
    references: Mapping[str, str]
    choices: str = ""
    passages: Sequence[Passage] = field(default_factory=tuple)

    @property
    def topic(self) -> str:
        """Whom a Biography question asks for; the question itself elsewhere."""
        asked = re.fullmatch(r"(?:Who is|Tell me a bio of)\s+(.+?)\s*[?.]?", self.question)
        return asked[1] if asked else self.question


def paper_data(folder: str | Path | None = None) -> Path:
    """The folder of the paper's data: the one given, else `crag-paper` in the folder that $CRAG_DATASETS names.

    Raises:
        ConfigError: there is none, saying how to name it.
    """
    given = folder if folder is not None else os.environ.get(ENVIRONMENT)
    if not given:
        raise ConfigError(
            f"the paper's data is not in the package: set {ENVIRONMENT} to the folder that has {_SUBFOLDER}, or name "
            f"the folder of {', '.join(TASKS)} itself"
        )
    path = Path(given).expanduser()
    for candidate in (path, path / _SUBFOLDER):
        if any((candidate / task / "questions.txt").is_file() for task in TASKS):
            return candidate
    raise ConfigError(f"{path} has no folder of {', '.join(TASKS)} with a questions.txt")


def read_paper(task: str, folder: str | Path | None = None, kinds: Sequence[str] = KINDS) -> list[PaperRow]:
    """The rows of a task, in the order of its questions.

    Args:
        task: one of `TASKS`.
        folder: as in `paper_data`.
        kinds: of `KINDS`: which references to read. A file that is left out is not checked either.

    Raises:
        ConfigError: a file that is missing or whose rows do not belong to the questions, saying what is wrong with it.
    """
    check_choice("task", task, TASKS)
    for kind in kinds:
        check_choice("kind", kind, KINDS)
    return read_folder(paper_data(folder) / task, kinds)


def read_folder(home: Path, kinds: Sequence[str] = ()) -> list[PaperRow]:
    """The rows of one folder, with the choices and the retrieved passages that lie in it; see `read_paper`."""
    questions = [row.strip() for row in rows_of(home / "questions.txt")]
    if empty := [number for number, question in enumerate(questions, 1) if not question]:
        raise ConfigError(f"{home.name}/questions.txt row {empty[0]} is empty")
    beside = {kind: _beside(home / f"ref_{kind}.txt", questions) for kind in kinds}
    choices, retrieved = (
        _beside(home / name, questions) if (home / name).is_file() else None
        for name in ("choices.txt", "retrieved_passages.txt")
    )
    return [
        PaperRow(
            question,
            {kind: reference(rows[i]) for kind, rows in beside.items()},
            choices[i].strip() if choices else "",
            passages_of_row(retrieved[i]) if retrieved else (),
        )
        for i, question in enumerate(questions)
    ]


def rows_of(path: Path) -> list[str]:
    """The rows of a file: parted by line feeds alone, since texts of the web hold other line breaks."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read {path.parent.name}/{path.name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.parent.name}/{path.name} is not UTF-8 at byte {error.start}") from error
    rows = [row.rstrip("\r") for row in text.split("\n")]
    return rows[:-1] if rows and not rows[-1].strip() else rows


def reference(row: str) -> str:
    """A row without the mark that begins most of them."""
    return row.strip().removeprefix("#").strip()


def passages_of_row(row: str) -> tuple[Passage, ...]:
    """`title // text [sep] title // text` as passages; without a title where there is none."""
    found = []
    for part in row.split("[sep]"):
        title, mark, text = part.strip().partition(" // ")
        if (text if mark else title).strip():
            found.append(Passage(text.strip(), title=title.strip()) if mark else Passage(title.strip()))
    return tuple(found)


def _beside(path: Path, questions: Sequence[str]) -> list[str]:
    rows = rows_of(path)
    if len(rows) == len(questions):
        return rows
    name = f"{path.parent.name}/{path.name}"
    raise ConfigError(f"{name} has {len(rows)} rows for {len(questions)} questions: {_why(rows, questions)}")


def _why(rows: Sequence[str], questions: Sequence[str]) -> str:
    """What is wrong with a file that has other rows than questions, as far as the rows tell."""
    empty = [number for number, row in enumerate(rows, 1) if not row.strip()]
    leave_out = "or leave this kind out"
    if len(rows) == len(questions) + 1 and empty:
        first = empty[0]
        as_it_is = _fit(questions, rows)
        without = _fit(questions, [row for number, row in enumerate(rows, 1) if number != first])
        if without > as_it_is:
            return (
                f"row {first} is empty, and from there on each row belongs to the question before: without it, "
                f"rows have {without:.0%} of their question's words, with it {as_it_is:.0%}. Delete row {first}, "
                f"{leave_out}"
            )
    more = "a row was broken in two, or added" if len(rows) > len(questions) else "rows are missing"
    where = f" (row {empty[0]} is empty)" if empty else ""
    return f"{more}{where}, so no row can be trusted to stand beside its question. Get the file again, {leave_out}"


def _fit(questions: Sequence[str], rows: Sequence[str]) -> float:
    """The mean share of a question's longer words that its row has."""
    shares = []
    for question, row in zip(questions, rows, strict=False):
        asked = {word for word in words(question) if len(word) > 4}
        if asked:
            shares.append(len(asked & set(words(row))) / len(asked))
    return sum(shares) / len(shares) if shares else 0.0
