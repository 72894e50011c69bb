"""Labelled pairs on disk: JSONL of our own, and the layouts in which answer-selection sets are published.

    JSONL                {"question": ..., "text": ..., "label": 0 or 1, "source": ..., "doc": ...}
    TSV, CSV, header     columns by name, in any order: question, text, label (and the names in `COLUMNS`)
    QNLI                 TSV with index, question, sentence, label = entailment | not_entailment
    TREC QA              CSV with qtext, label, atext
    SelQA, WikiQA        TSV without header: question, text, label

Labels are verdicts for `Pair`; a `SoftPair` has a probability, or no label yet. Sets published as Penn Treebank
tokens are recognised by their spacing and detokenised.
"""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.treebank import detokenise, token_dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Make = Callable[[str, str, Any, str, str], "Row"]  # from question, text, label, source, doc

COLUMNS: dict[str, tuple[str, ...]] = {
    "question": ("question", "qtext", "query"),
    "text": ("text", "sentence", "atext", "answer_sentence", "passage", "answer", "document"),
    "label": ("label", "relevance", "is_relevant"),
    "source": ("source",),
    "doc": ("doc", "document_id", "doc_id"),
}
RELEVANT = frozenset({"1", "true", "yes", "relevant", "entailment"})
IRRELEVANT = frozenset({"0", "false", "no", "irrelevant", "not_entailment"})
_NUMBERS: dict[Any, int] = {0: 0, 1: 1}  # 0.0 and False are equal to 0 and find it
Row = TypeVar("Row")  # a dataclass with a question and a text


@dataclass(frozen=True, slots=True)
class Pair:
    """A question, a text, and whether the text helps to answer the question (1) or not (0).

    `source` says where the pair comes from ("squad/answer"), `doc` which document the text is from: no
    document may be in two splits.
    """

    question: str
    text: str
    label: int
    source: str = ""
    doc: str = ""

    def __post_init__(self) -> None:
        check_words(self.question, self.text)
        object.__setattr__(self, "label", _label(self.label))


@dataclass(frozen=True, slots=True)
class SoftPair:
    """As `Pair`, with the probability that the text is relevant, in [0, 1], or None where nobody has judged it."""

    question: str
    text: str
    label: float | None = None
    source: str = ""
    doc: str = ""

    def __post_init__(self) -> None:
        check_words(self.question, self.text)
        if self.label is not None:
            object.__setattr__(self, "label", soft_label(self.label))


def check_words(question: Any, text: Any) -> None:
    """ConfigError unless both are texts that say something."""
    for name, value in (("question", question), ("text", text)):
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f"{name} must be a text that is not empty, got {value!r}")


def soft_label(value: Any) -> float:
    """A number in [0, 1] as it is; a verdict in words as 0.0 or 1.0."""
    if isinstance(value, str):
        try:
            return soft_label(float(value))
        except ValueError:
            return float(_label(value))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(f"label must be a number in [0, 1], got {value!r}: 1 is relevant, 0 is not")
    return value


def read_pairs(path: Path | str, *, detokenised: bool | None = None) -> list[Pair]:
    """The pairs of a file, in its order; the layout is told by its suffix and its first line.

    Args:
        path: .jsonl, .tsv, .csv or .txt (as .tsv), UTF-8.
        detokenised: False leaves Penn Treebank spacing as it is, True undoes it whatever the file looks like,
            None (default) undoes it where most of the texts show it.

    Raises:
        ConfigError: naming the file, the line, the field and the value.
    """
    return read_rows(path, Pair, detokenised=detokenised)


def read_soft_pairs(path: Path | str) -> list[SoftPair]:
    """As `read_pairs`, with labels in [0, 1]; a JSONL line may have none, or null."""
    return read_rows(path, SoftPair, labelled=False)


def read_rows(
    path: Path | str, make: Make[Row], *, labelled: bool = True, detokenised: bool | None = None
) -> list[Row]:
    """What `make(question, text, label, source, doc)` makes of each row; its ConfigError is told with the line.

    `labelled` requires a label, which is given as it is in the file. See `read_pairs` for the rest.
    """
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"pairs: no file {str(path)!r}")
    needed = ("question", "text", "label") if labelled else ("question", "text")
    found = _jsonl(file) if file.suffix == ".jsonl" else _table(file)
    rows: list[Any] = [_made(make, file, number, fields, needed) for number, fields in found]
    if not rows:
        raise ConfigError(f"{file.name}: holds no pairs: expected lines of question, text and label")
    if detokenised is False:
        return rows
    dialect = token_dialect([text for row in rows for text in (row.question, row.text)])
    if dialect is None and not detokenised:
        return rows
    return [_detokenised(row, join_hyphens=dialect == "split-hyphens") for row in rows]


def write_pairs(pairs: Iterable[Pair | SoftPair], path: Path | str) -> int:
    """Write JSONL, one pair a line, and return how many; the folder is made when missing.

    What a pair does not have (a label, a source) is left out.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with file.open("w", encoding="utf-8", newline="\n") as out:
        for pair in pairs:
            plain = {name: value for name, value in asdict(pair).items() if value not in ("", None)}
            out.write(json.dumps(plain, ensure_ascii=False) + "\n")
            count += 1
    return count


def _label(value: Any) -> int:
    if isinstance(value, str):
        word = value.strip().casefold()
        if word in RELEVANT or word in IRRELEVANT:
            return int(word in RELEVANT)
    elif isinstance(value, int | float) and value in _NUMBERS:
        return _NUMBERS[value]
    raise ConfigError(f"label must be 0 or 1 (or {', '.join(sorted(RELEVANT | IRRELEVANT))}), got {value!r}")


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    with file.open(encoding="utf-8-sig", newline="") as opened:
        try:
            yield from ((number, line.rstrip("\r\n")) for number, line in enumerate(opened, 1))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{file.name}: not UTF-8 ({error.reason}): convert it") from error


def _jsonl(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(file):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{file.name}:{number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise ConfigError(f"{file.name}:{number}: must be an object, got {type(row).__name__}")
        yield number, {field: _first(row, field) for field in COLUMNS}


def _first(row: Mapping[str, Any], field: str) -> Any:
    return next((row[name] for name in COLUMNS[field] if name in row), None)


def _table(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = _csv_rows(file) if file.suffix == ".csv" else _tsv_rows(file)
    first = next(rows, None)
    if first is None:
        return
    number, cells = first
    header = _header(cells)
    if header is None:
        if len(cells) != 3:
            raise ConfigError(
                f"{file.name}:{number}: expected a header with question, text and label, or three columns in "
                f"that order, got {len(cells)} columns: {cells!r:.120}"
            )
        header = {"question": 0, "text": 1, "label": 2}
        yield number, _fields(cells, header)
    width = max(header.values()) + 1
    for number, cells in rows:
        if len(cells) < width:
            missing = next(field for field, column in header.items() if column >= len(cells))
            raise ConfigError(
                f"{file.name}:{number}: {missing} is missing: {len(cells)} columns, expected {width}"
            )
        yield number, _fields(cells, header)


def _fields(cells: list[str], header: Mapping[str, int]) -> dict[str, Any]:
    return {field: cells[column] for field, column in header.items()}


def _header(cells: list[str]) -> dict[str, int] | None:
    """Column numbers by field when the first line names the three fields, else None."""
    names = [cell.strip().casefold() for cell in cells]
    found = {
        field: names.index(name)
        for field, known in COLUMNS.items()
        for name in [next((name for name in known if name in names), None)]
        if name is not None
    }
    return found if {"question", "text", "label"} <= found.keys() else None


def _tsv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    # Not csv: a lone quote in a TSV is a character, and csv would read on to the next one, lines later.
    for number, line in _lines(file):
        if line.strip():
            yield number, line.split("\t")


def _csv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line + "\n" for _, line in _lines(file)), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise ConfigError(f"{file.name}:{reader.line_num}: not CSV: {error}") from error


def _made(make: Make[Row], file: Path, number: int, fields: Mapping[str, Any], needed: Iterable[str]) -> Row:
    for name in needed:
        if fields.get(name) is None:
            raise ConfigError(
                f"{file.name}:{number}: {name} is missing (known names: {', '.join(COLUMNS[name])})"
            )
    try:
        return make(
            fields["question"],
            fields["text"],
            fields.get("label"),
            str(fields.get("source") or file.stem),
            str(fields.get("doc") or ""),
        )
    except ConfigError as error:
        raise ConfigError(f"{file.name}:{number}: {error}") from error


def _detokenised(row: Any, join_hyphens: bool) -> Any:
    question, text = (detokenise(part, join_hyphens=join_hyphens) for part in (row.question, row.text))
    return replace(row, question=question, text=text)
