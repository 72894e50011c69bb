"""Questions to learn from and to measure with: files and public sets as lists of `dspy.Example`.

`load` takes a path (JSONL, JSON, CSV, TSV, SQuAD, or a folder of the paper's text files), the name of a set
that the paper uses, or of any set on Hugging Face. `split` keeps the questions on one document together, so
that a held-out score is one.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.files.squad import paragraphs_of
from crag_dspy.optimize.questions.public_sets import PUBLIC_SETS, PublicSet, from_hugging_face, paper_folder
from crag_dspy.optimize.questions.rows import example_of
from crag_dspy.text.matching import normalize

if TYPE_CHECKING:
    import dspy

FORMATS = ("jsonl", "json", "csv", "tsv", "squad")


def load(
    source: str | Path,
    *,
    format: str | None = None,
    split: str | None = None,
    labelled: bool = True,
    limit: int | None = None,
) -> list[dspy.Example]:
    """Examples with `question` as their input; see `rows.py` for the other fields.

    Args:
        source: a path; or "popqa", "pubhealth", "arc_challenge", "biography"; or a Hugging Face name such as
            "rajpurkar/squad" or "owner/name:config". A path wins over a name.
        format: one of `FORMATS` or of the four names, when the suffix of the path does not say it.
        split: of a Hugging Face set, by default its own evaluation split; of a file, the rows whose field
            `split` it is, by default all.
        labelled: whether every row must have an answer.
        limit: read at most so many.

    Raises:
        ConfigError: a row that cannot be read, naming line and field; a set that cannot be had, saying how to.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit must be at least 1, got {limit!r}")
    path = Path(source).expanduser()
    if path.exists():
        examples = _in_split(_from_path(path, format, labelled), split, path.name)
    elif format in FORMATS or path.suffix.lstrip(".") in FORMATS:
        raise ConfigError(f"there is no file {path}")
    else:
        examples = from_hugging_face(str(source), split, labelled)
    kept = []
    for example in examples:
        kept.append(example)
        if len(kept) == limit:
            break
    if not kept:
        raise ConfigError(f"{source} holds no examples")
    return kept


def split(
    examples: Sequence[dspy.Example],
    shares: Mapping[str, float],
    *,
    seed: int = 0,
    by: str | Callable[[dspy.Example], Hashable] | None = "document",
) -> dict[str, list[dspy.Example]]:
    """Divide examples at random, whole groups at a time.

    Args:
        shares: name -> share of the examples, in (0, 1], together at most 1: {"train": 0.6, "dev": 0.2, "test": 0.2}.
        seed: the same examples and seed give the same split, whatever order the examples come in.
        by: the field that must not be divided; examples without it, and all when None, are grouped by their question,
            so that a repeated question is never on both sides.

    Returns:
        The parts in the order of `shares`, each in the order of `examples`. Their sizes are as near to the
        shares as whole groups allow.

    Raises:
        ConfigError: shares out of range, or fewer groups than parts.
    """
    if not shares or any(not 0 < share <= 1 for share in shares.values()) or sum(shares.values()) > 1 + 1e-9:
        raise ConfigError(f"shares must be in (0, 1] and add up to at most 1, got {dict(shares)}")
    groups: dict[Hashable, list[int]] = {}
    for i, example in enumerate(examples):
        groups.setdefault(_group(example, by), []).append(i)
    if len(groups) < len(shares):
        raise ConfigError(
            f"{len(groups)} groups by {by!r} cannot be split into {len(shares)} parts: use by=None"
        )
    keys = sorted(groups, key=str)
    Random(seed).shuffle(keys)
    wanted = {name: share * len(examples) for name, share in shares.items()}
    rest = len(examples) - sum(wanted.values())
    parts: dict[str | None, list[int]] = {name: [] for name in shares}
    if rest > 0.5:
        wanted[""], parts[""] = rest, []  # what no share asks for
    # Large groups first, each to the part that lacks most: the way to come nearest with whole groups.
    for key in sorted(keys, key=lambda key: -len(groups[key])):
        name = max(wanted, key=lambda name: (wanted[name] - len(parts[name])) / wanted[name])
        parts[name].extend(groups[key])
    empty = [name for name in shares if not parts[name]]
    if empty:
        raise ConfigError(
            f"{empty[0]} would be empty: {len(groups)} groups by {by!r} do not suffice for {dict(shares)}"
        )
    return {name: [examples[i] for i in sorted(parts[name])] for name in shares}


def from_rows(rows: Iterable[Mapping[str, Any]], name: str = "rows") -> list[dspy.Example]:
    """Examples from rows that are already in memory; errors call them "`name` item 3"."""
    return [example_of(row, f"{name} item {number}") for number, row in enumerate(rows, 1)]


def _in_split(examples: Iterator[dspy.Example], split: str | None, name: str) -> Iterator[dspy.Example]:
    found = set()
    for example in examples:
        found.add(example.get("split"))
        if split is None or example.get("split") == split:
            yield example
    if split is not None and split not in found:
        known = sorted(value for value in found if value is not None)
        raise ConfigError(
            f"{name} has no rows with split {split!r}: "
            + (f"use {', '.join(known)}" if known else "no row names a split")
        )


def _group(example: dspy.Example, by: str | Callable[[dspy.Example], Hashable] | None) -> Hashable:
    value = by(example) if callable(by) else example.get(by) if by else None
    return ("question", normalize(example.question)) if value is None else ("document", str(value))


def _from_path(path: Path, format: str | None, labelled: bool) -> Iterator[dspy.Example]:
    if format is not None and format not in FORMATS and format not in PUBLIC_SETS:
        raise ConfigError(f"format must be one of {', '.join((*FORMATS, *PUBLIC_SETS))}, got {format!r}")
    if path.is_dir():
        return paper_folder(path)
    kind = PUBLIC_SETS.get(format or "")
    suffix = (format or path.suffix.lstrip(".")).lower() if kind is None else path.suffix.lstrip(".").lower()
    if suffix in ("csv", "tsv"):
        rows = _table(path, "\t" if suffix == "tsv" else ",")
    elif suffix in ("json", "squad"):
        data = _parsed(path)
        if isinstance(data, Mapping) and "data" in data:
            return _squad(data, path.name)
        rows = _listed(data, path.name)
    elif suffix in ("jsonl", "ndjson"):
        rows = _lines(path)
    else:
        raise ConfigError(f"cannot tell the format of {path.name}: pass format= one of {', '.join(FORMATS)}")
    return _examples(rows, kind, labelled)


def _examples(
    rows: Iterator[tuple[str, Any]], kind: PublicSet | None, labelled: bool
) -> Iterator[dspy.Example]:
    for where, row in rows:
        if kind is None:
            yield example_of(row, where, labelled=labelled)
        else:
            yield kind.example(row, where)


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(_read(path).split("\n"), 1):
        if line.strip():
            where = f"{path.name} line {number}"
            try:
                yield where, json.loads(line)
            except json.JSONDecodeError as error:
                raise ConfigError(f"{where}: not JSON: {error}") from error


def _table(path: Path, delimiter: str) -> Iterator[tuple[str, Any]]:
    text = _read(path)
    csv.field_size_limit(
        max(csv.field_size_limit(), len(text))
    )  # one for the process; a cell may be a whole page
    # Not `splitlines`: U+2028, a form feed and the like stand inside of cells.
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            where = f"{path.name} line {reader.line_num}"
            if None in row or None in row.values():
                raise ConfigError(f"{where}: {len(reader.fieldnames or [])} columns expected by the header")
            yield where, row
    except csv.Error as error:
        raise ConfigError(f"{path.name} line {reader.line_num + 1}: {error}") from error


def _listed(data: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(data, list):
        raise ConfigError(f"{name} must hold a list of objects, or SQuAD's object with `data`")
    return ((f"{name} item {number}", row) for number, row in enumerate(data, 1))


def _squad(data: Mapping[str, Any], name: str) -> Iterator[dspy.Example]:
    for paragraph in paragraphs_of(data, name):
        known = {"document": paragraph.document, "context": paragraph.text, "relevant_ids": [paragraph.id]}
        for number, item in enumerate(paragraph.asked(), 1):
            answers = [] if item.get("is_impossible") is True else item.get("answers")
            where = f"{name} paragraph {paragraph.id} question {number}"
            yield example_of({**item, "answers": answers, **known}, where)


def _parsed(path: Path) -> Any:
    try:
        return json.loads(_read(path))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path.name}: not JSON: {error}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
