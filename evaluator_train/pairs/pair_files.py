"""Labelled pairs on disk: JSONL of our own, and the layouts in which answer-selection sets are published.

    JSONL                {"question": ..., "text": ..., "label": 0 to 1, "source": ..., "doc": ...}
    TSV, CSV, header     columns by name, in any order: question, text, label (and the names in `COLUMNS`)
    QNLI                 TSV with index, question, sentence, label = entailment | not_entailment
    TREC QA              CSV with qtext, label, atext
    SelQA, WikiQA        TSV without header: question, text, label

Sets published as Penn Treebank tokens are recognised by their spacing and detokenised.
"""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.treebank import detokenise, token_dialect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


Labels = Literal["verdicts", "soft", "any"]
COLUMNS: dict[str, tuple[str, ...]] = {
    "question": ("question", "qtext", "query"),
    "text": ("text", "sentence", "atext", "answer_sentence", "passage", "answer", "document"),
    "label": ("label", "relevance", "is_relevant"),
    "source": ("source",),
    "doc": ("doc", "document_id", "doc_id"),
}
RELEVANT = frozenset({"1", "true", "yes", "relevant", "entailment"})
IRRELEVANT = frozenset({"0", "false", "no", "irrelevant", "not_entailment"})


@dataclass(frozen=True, slots=True)
class Pair:
    """A question, a text, and the probability that the text helps to answer the question.

    `label` is in [0, 1]: 1 and 0 are verdicts (also in words: "relevant", "not_entailment"), between them lies a
    teacher's opinion, and None is no opinion at all. `source` says where the pair comes from ("squad/answer"), `doc`
    which document the text is from: no document may be in two splits.
    """

    question: str
    text: str
    label: float | None = None
    source: str = ""
    doc: str = ""

    def __post_init__(self) -> None:
        for name in ("question", "text"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise ConfigError(f"{name} must be a text that is not empty, got {value!r}")
        object.__setattr__(self, "label", _label(self.label))

    @property
    def relevant(self) -> bool:
        """The verdict: whether it is as likely as not, or likelier, that the text helps."""
        return self.label is not None and self.label >= 0.5


def read_pairs(
    path: Path | str, *, labels: Labels = "verdicts", detokenised: bool | None = None
) -> list[Pair]:
    """The pairs of a file, in its order; the layout is told by its suffix and its first line.

    Args:
        path: .jsonl, .tsv, .csv or .txt (as .tsv), UTF-8.
        labels: "verdicts": each row has 0 or 1. "soft": each has a number in [0, 1]. "any": or none.
        detokenised: False leaves Penn Treebank spacing as it is, True undoes it whatever the file looks like,
            None (default) undoes it where most of the texts show it.

    Raises:
        ConfigError: naming the file, the line, the field and the value.
    """
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"pairs: no file {str(path)!r}")
    found = _jsonl(file) if file.suffix == ".jsonl" else _table(file)
    pairs = [_made(file, number, fields, labels) for number, fields in found]
    if not pairs:
        raise ConfigError(f"{file.name}: holds no pairs: expected lines of question, text and label")
    if detokenised is False:
        return pairs
    dialect = token_dialect([text for pair in pairs for text in (pair.question, pair.text)])
    if dialect is None and not detokenised:
        return pairs
    return [_detokenised(pair, join_hyphens=dialect == "split-hyphens") for pair in pairs]


def write_pairs(pairs: Iterable[Pair], path: Path | str) -> int:
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


def _label(value: Any) -> float | None:
    """A number in [0, 1] as it is, a verdict in words as 0.0 or 1.0, None as nothing."""
    if isinstance(value, str):
        word = value.strip().casefold()
        if word in RELEVANT or word in IRRELEVANT:
            return float(word in RELEVANT)
        try:
            return _label(float(word))
        except ValueError:
            pass
    elif value is None or (isinstance(value, int | float) and 0 <= value <= 1):
        return int(value) if isinstance(value, bool) else value
    raise ConfigError(
        f"label must be a number in [0, 1] (1 is relevant, 0 is not) or one of "
        f"{', '.join(sorted(RELEVANT | IRRELEVANT))}, got {value!r}"
    )


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
    # The module's limit is 131,072 characters a cell, for all readers of the process: it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), file.stat().st_size))
    reader = csv.reader((line + "\n" for _, line in _lines(file)), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise ConfigError(f"{file.name}:{reader.line_num}: not CSV: {error}") from error


def _made(file: Path, number: int, fields: Mapping[str, Any], labels: Labels) -> Pair:
    for name in ("question", "text") if labels == "any" else ("question", "text", "label"):
        if fields.get(name) is None:
            raise ConfigError(
                f"{file.name}:{number}: {name} is missing (known names: {', '.join(COLUMNS[name])})"
            )
    source, doc = str(fields.get("source") or file.stem), str(fields.get("doc") or "")
    try:
        pair = Pair(fields["question"], fields["text"], fields.get("label"), source, doc)
    except ConfigError as error:
        raise ConfigError(f"{file.name}:{number}: {error}") from error
    if labels != "verdicts" or pair.label is None:
        return pair
    if pair.label not in (0, 1):
        raise ConfigError(f"{file.name}:{number}: label must be 0 or 1 here, got {fields['label']!r}")
    return replace(pair, label=int(pair.label))


def _detokenised(pair: Pair, join_hyphens: bool) -> Pair:
    question, text = (detokenise(part, join_hyphens=join_hyphens) for part in (pair.question, pair.text))
    return replace(pair, question=question, text=text)
