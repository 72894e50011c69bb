"""Documents out of files: JSONL, plain text and Markdown, or a folder of them, one at a time.

A document is a `Passage` that may be long: `id, title, url, text, metadata`. Nothing is skipped in silence: a
line that cannot be read is an error that names the file, the line and the field.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from crag_dspy.errors import ConfigError
from crag_dspy.passages import TEXT_FIELDS, Passage, as_passages
from crag_dspy.text.scripts import HAN

logger = logging.getLogger(__name__)

SUFFIXES = (".jsonl", ".txt", ".md", ".markdown")
FIELDS = ("id", "title", "text", "url", "metadata")
_TITLE = re.compile(r"^#[^\S\n]++(\S[^\n]*+)", re.MULTILINE)


def read_documents(source: str | Path) -> Iterator[tuple[Passage, str]]:
    """Every document of `source`, with where it is ("kb.jsonl line 3") for messages; files are read as
    streams.

    Args:
        source: a .jsonl file (one object a line: `text`, and optionally `id`, `title`, `url`, `metadata`; any
            other field goes to the metadata), a .txt or .md file (one document: its id is the file's name,
            its title the first heading or the name), or a folder of such files, read recursively in the order
            of their names (ids are then relative paths). Hidden files are left alone; of other kinds, a warning says
            how many were left out.

    Raises:
        ConfigError: naming the file, line and field of what cannot be read, a folder with nothing to read, or
            an id that two different documents have. Two equal documents of one id are one document.
    """
    yield from _each_once(_read(Path(source)))


def count_documents(source: str | Path) -> int:
    """Read `source` through, so that what cannot be read is known before any work is done. Gives no warnings."""
    return sum(1 for _ in _each_once(_read(Path(source), warn=False)))


def document_ids(source: str | Path) -> set[str]:
    """The ids of the documents of `source`, without warnings."""
    return {document.id for document, _ in _each_once(_read(Path(source), warn=False))}


def given_documents(documents: Iterable[Any]) -> Iterator[tuple[Passage, str]]:
    """The same for documents given in Python, which `as_document` reads."""
    if isinstance(documents, (str, bytes, Mapping, Passage)):
        raise TypeError(
            f"documents must be a list or another iterable of them, got one {type(documents).__name__}"
        )
    numbered = (
        (as_document(item, f"documents[{number}]"), f"documents[{number}]")
        for number, item in enumerate(documents)
    )
    yield from _each_once(numbered)


def as_document(item: Any, where: str = "document") -> Passage:
    """One document given in Python: a str, a Passage, a mapping with the fields of JSONL, or a LangChain
    document.

    Without an id it gets one from its content, so that adding it again changes nothing. `where` is for
    messages.
    """
    if isinstance(item, Mapping):
        return _from_fields(item, where)
    found = item if isinstance(item, Passage) else next(iter(as_passages([item])), Passage(""))
    return _from_fields({name: getattr(found, name) for name in FIELDS}, where)


def digest_of(document: Passage) -> str:
    """A hash of everything that is stored of `document`; its retriever score is not."""
    content = [document.title, document.url, document.text, metadata_json(document)]
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def metadata_json(document: Passage, where: str = "") -> str:
    """The metadata as JSON, "" for none. Raises ConfigError naming the document when it is not JSON data."""
    if not document.metadata:
        return ""
    try:
        return json.dumps(dict(document.metadata), sort_keys=True)
    except (TypeError, ValueError) as error:
        named = where or f"document {document.id!r}"
        raise ConfigError(f"{named}: field 'metadata' is not JSON data: {error}") from error


def _each_once(documents: Iterable[tuple[Passage, str]]) -> Iterator[tuple[Passage, str]]:
    seen: dict[str, tuple[str, str]] = {}
    for document, where in documents:
        digest = digest_of(document)
        if document.id not in seen:
            seen[document.id] = (digest, where)
            yield document, where
        elif seen[document.id][0] != digest:
            raise ConfigError(
                f"{where}: field 'id' is {document.id!r}, and so is that of {seen[document.id][1]}, "
                f"with other content: give each document its own id"
            )


def _read(source: Path, warn: bool = True) -> Iterator[tuple[Passage, str]]:
    if source.is_dir():
        found = sorted(path for path in source.rglob("*") if _is_visible_file(path, source))
        files = [path for path in found if path.suffix.lower() in SUFFIXES]
        others = Counter(
            path.suffix.lower() or "no ending" for path in found if path.suffix.lower() not in SUFFIXES
        )
        left_out = ", ".join(f"{suffix} ({count})" for suffix, count in others.most_common(8))
        if not files:
            raise ConfigError(
                f"{source}: nothing to read: no file ends with {', '.join(SUFFIXES)}"
                + (f"; there are {left_out}: extract their text first" if others else "")
            )
        if others and warn:
            logger.warning("%s: files of other kinds are left out: %s", source, left_out)
        for path in files:
            yield from _read_file(path, path.relative_to(source).as_posix(), warn)
    elif not source.is_file():
        raise ConfigError(f"{source}: no such file or folder")
    elif source.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"{source}: cannot read {source.suffix or 'this'} files, only {', '.join(SUFFIXES)}"
        )
    else:
        yield from _read_file(source, source.name, warn)


def _is_visible_file(path: Path, root: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(root).parts) and path.is_file()


def _read_file(path: Path, name: str, warn: bool) -> Iterator[tuple[Passage, str]]:
    if path.suffix.lower() == ".jsonl":
        with path.open("rb") as lines:
            for number, raw in enumerate(lines, start=1):
                where = f"{path} line {number}"
                line = _decoded(raw, where, first=number == 1)
                if line.strip():
                    yield _from_json(line, where), where
        return
    raw = path.read_bytes()
    if raw.startswith(b"%PDF-"):
        raise ConfigError(f"{path}: a PDF, whatever its name says: extract its text first")
    text = _decoded(raw, str(path), first=True)
    if not text.strip():
        if warn:
            logger.warning("%s is empty, and is left out", path)
        return
    prose = text.split("```", 1)[0]  # in code, "# ..." is a comment
    heading = _TITLE.search(prose) if path.suffix.lower() != ".txt" else None
    yield (
        Passage(text, id=name, title=heading[1].rstrip().rstrip("#").rstrip() if heading else path.stem),
        str(path),
    )


def _decoded(raw: bytes, where: str, first: bool) -> str:
    try:
        return raw.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: not UTF-8 (byte {error.start}){_other_encoding(raw)}") from error


def _other_encoding(raw: bytes) -> str:
    """What the bytes may be, and how to convert them. A guess is for the message only."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ", but UTF-16: iconv -f UTF-16 -t UTF-8 OLD > NEW"
    try:
        chinese = re.search(f"[{HAN}]{{2}}", raw.decode("gb18030"))
    except UnicodeDecodeError:
        chinese = None
    return ", perhaps GBK: iconv -f GB18030 -t UTF-8 OLD > NEW" if chinese else ": convert the file to UTF-8"


def _from_json(line: str, where: str) -> Passage:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ConfigError(f"{where}: expected an object with the field 'text', got {type(fields).__name__}")
    return _from_fields(fields, where)


def _from_fields(fields: Mapping[str, Any], where: str) -> Passage:
    if "text" not in fields:
        other = next((name for name in TEXT_FIELDS if name in fields), None)
        advice = (
            f": rename {other!r} to 'text'"
            if other
            else f", only {', '.join(map(repr, fields)) or 'nothing'}"
        )
        raise ConfigError(f"{where}: field 'text' is missing{advice}")
    metadata = fields.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise ConfigError(f"{where}: field 'metadata' must be an object, got {metadata!r}")
    extra = {name: value for name, value in fields.items() if name not in FIELDS and value is not None}
    document = Passage(
        text=_string(fields, "text", where),
        id=_string(fields, "id", where),
        title=_string(fields, "title", where),
        url=_string(fields, "url", where),
        metadata={**metadata, **extra},
    )
    if not document.text.strip():
        raise ConfigError(f"{where}: field 'text' is empty")
    metadata_json(document, where)
    return document if document.id else replace(document, id=f"content-{digest_of(document)[:16]}")


def _string(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if name == "id" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ConfigError(f"{where}: field {name!r} must be a string, got {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{where}: field {name!r} has half a surrogate pair at {error.start}") from error
    return value
