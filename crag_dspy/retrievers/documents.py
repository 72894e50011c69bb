"""Documents out of files, or of a folder of them, one at a time: text and Markdown, JSONL, CSV, web pages, PDF, Word.

A document is a `Passage` that may be long: `id, title, url, text, metadata`. Nothing is skipped in silence: what cannot
be read is an error that names the file, the line and the field, or is kept to be told at the end (`Met`).
"""

from __future__ import annotations

import hashlib
import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from crag_dspy.errors import ConfigError
from crag_dspy.files.converters import CONVERTERS, converted
from crag_dspy.files.encodings import decoded, encoding_of
from crag_dspy.files.met import Met
from crag_dspy.files.tables import as_markdown, read_table, records
from crag_dspy.passages import TEXT_FIELDS, Passage, as_passages
from crag_dspy.text.markdown import title_of

TEXTS = (".txt", ".md", ".markdown")
TABLES = (".csv", ".tsv")
SUFFIXES = (".jsonl", *TEXTS, *TABLES, *CONVERTERS)
FIELDS = ("id", "title", "text", "url", "metadata")

LINES_LOOKED_AT = 1000  # of a JSONL file that are not ASCII, to tell its encoding

Documents = Iterator[tuple[Passage, str]]


def read_documents(source: str | Path, met: Met | None = None) -> Documents:
    """Every document of `source`, with where it is ("kb.jsonl line 3") for messages; files are read as
    streams.

    Args:
        source: a .jsonl file (one object a line: `text`, and optionally `id`, `title`, `url`, `metadata`; any
            other field goes to the metadata); a .csv or .tsv file (with a column `text` as JSONL, else one document
            that is a table); a .txt, .md, .html, .pdf or .docx file (one document: its id is the file's name, its
            title what it names, the first heading or the name); or a folder of such files, read recursively in the
            order of their names (ids are then relative paths). Hidden files are left alone. What is not UTF-8 is
            recognised; PDF, Word and HTML need the extra `files`.
        met: keeps what cannot be read, unless it is strict, and what else there is to tell. None is strict, and is
            told of at the end.

    Raises:
        ConfigError: there is no such source, or it has nothing to read. Where it is strict also naming the file, line
            and field of what cannot be read, or an id that two different documents have. (Two equal documents of one
            id are one document.)
    """
    own = Met(strict=True)
    yield from _each_once(_read(Path(source), met or own), met or own)
    own.tell()


def check_source(source: str | Path, strict: bool = False) -> int | None:
    """Before any work is done: whether there is anything to read, or strictly, everything.

    Returns:
        How many documents there are; None where counting would mean to convert all of them twice.

    Raises:
        ConfigError: nothing of it can be read, or, strictly, something cannot.
    """
    met = Met(strict)
    documents = read_documents(source, met)
    slow = any(path.suffix.lower() in CONVERTERS for path in _files(Path(source)))
    count = sum(1 for _ in documents) if strict or not slow else int(next(documents, None) is not None)
    if not count and met.refused:
        raise ConfigError(f"{source}: nothing of it can be read:\n" + "\n".join(met.warnings()))
    return count if strict or not slow else None


def count_documents(source: str | Path) -> int:
    """Read `source` through, so that what cannot be read is known before any work is done. Gives no warnings."""
    return sum(1 for _ in read_documents(source, Met(strict=True)))


def document_ids(source: str | Path) -> set[str]:
    """The ids of the documents of `source`, without warnings and without those that cannot be read."""
    return {document.id for document, _ in read_documents(source, Met())}


def given_documents(documents: Iterable[Any]) -> Documents:
    """The same for documents given in Python, which `as_document` reads."""
    if isinstance(documents, (str, bytes, Mapping, Passage)):
        raise TypeError(
            f"documents must be a list or another iterable of them, got one {type(documents).__name__}"
        )
    numbered = (
        (as_document(item, f"documents[{number}]"), f"documents[{number}]")
        for number, item in enumerate(documents)
    )
    yield from _each_once(numbered, Met(strict=True))


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


def _each_once(documents: Iterable[tuple[Passage, str]], met: Met) -> Documents:
    seen: dict[str, tuple[str, str]] = {}
    for document, where in documents:
        digest = digest_of(document)
        if document.id not in seen:
            seen[document.id] = (digest, where)
            yield document, where
        elif seen[document.id][0] != digest:
            met.refuse(
                ConfigError(
                    f"{where}: field 'id' is {document.id!r}, and so is that of {seen[document.id][1]}, "
                    f"with other content: give each document its own id"
                )
            )


def _read(source: Path, met: Met) -> Documents:
    if source.is_dir():
        found = sorted(_files(source))
        files = [path for path in found if path.suffix.lower() in SUFFIXES]
        met.others = Counter(
            path.suffix.lower() or "no ending" for path in found if path.suffix.lower() not in SUFFIXES
        )
        if not files:
            left_out = ", ".join(f"{suffix} ({count})" for suffix, count in met.others.most_common(8))
            raise ConfigError(
                f"{source}: nothing to read: no file ends with {', '.join(SUFFIXES)}"
                + (f"; there are {left_out}: extract their text first" if left_out else "")
            )
        for path in files:
            yield from _read_file(path, path.relative_to(source).as_posix(), met)
    elif not source.is_file():
        raise ConfigError(f"{source}: no such file or folder")
    elif source.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"{source}: cannot read {source.suffix or 'this'} files, only {', '.join(SUFFIXES)}"
        )
    else:
        yield from _read_file(source, source.name, met)


def _files(source: Path) -> list[Path]:
    """The source itself, or the files in it that are not hidden."""
    if not source.is_dir():
        return [source]
    return [
        path
        for path in source.rglob("*")
        if not any(part.startswith(".") for part in path.relative_to(source).parts) and path.is_file()
    ]


def _read_file(path: Path, name: str, met: Met) -> Documents:
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        yield from _json_lines(path, name, met)
    elif suffix in TABLES:
        yield from _table(path, name, met)
    else:
        document = None
        with met.reading(str(path)):
            document = _document(path.read_bytes(), path, name, met)
        if document is not None:
            yield document, str(path)


def _json_lines(path: Path, name: str, met: Met) -> Documents:
    lines: Iterable[bytes] = ()
    encoding = "utf-8"
    with met.reading(str(path)):
        encoding = _encoding_of_lines(path)
        met.read_in(encoding, name)
        lines = _lines(path)
        if encoding in ("utf-16", "utf-32"):  # whose line breaks are not one byte
            lines, encoding = decoded(path.read_bytes()).text.encode().split(b"\n"), "utf-8"
    for number, line in enumerate(lines, start=1):
        where, document = f"{path} line {number}", None
        with met.reading():
            text = _line(line.removeprefix(BOM_UTF8) if number == 1 else line, encoding, where)
            document = _from_json(text, where) if text.strip() else None
        if document is not None:
            yield document, where


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as raw:
        yield from raw


def _encoding_of_lines(path: Path) -> str:
    """UTF-8, unless most lines that are not ASCII say otherwise: one bad line changes nothing for the others."""
    good, bad = 0, []
    for number, line in enumerate(_lines(path)):
        if number == 0 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
            return encoding_of(line)
        if not line.isascii():
            try:
                line.decode("utf-8")
                good += 1
            except UnicodeDecodeError:
                bad.append(line)
        if good + len(bad) == LINES_LOOKED_AT:
            break
    return encoding_of(b"".join(bad)) if len(bad) > good else "utf-8"


def _line(raw: bytes, encoding: str, where: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        named = encoding.upper()
        raise ConfigError(f"{where}: not {named} (byte {error.start}), as other lines are") from error


def _table(path: Path, name: str, met: Met) -> Documents:
    table = None
    with met.reading(str(path)):
        text, encoding = decoded(path.read_bytes())
        met.read_in(encoding, name)
        table = read_table(text, path.suffix.lower())
    if table is None:
        return
    if not table.rows:
        met.empty.append(name)
    elif "text" not in table.header:
        yield Passage(as_markdown(table), id=name, title=path.stem), str(path)
    else:
        for line, fields in records(table):
            where, document = f"{path} line {line}", None
            with met.reading():
                document = _from_fields(fields, where)
            if document is not None:
                yield document, where


def _document(raw: bytes, path: Path, name: str, met: Met) -> Passage | None:
    suffix = path.suffix.lower()
    if suffix in CONVERTERS:
        text, title, encoding = converted(raw, suffix)
    elif raw.startswith(b"%PDF-"):
        raise ConfigError("a PDF, whatever its name says: let it end with .pdf")
    else:
        text, encoding = decoded(raw)
        title = ""
    met.read_in(encoding, name)
    if not text.strip():
        met.empty.append(name)
        return None
    if not title and suffix != ".txt":
        title = title_of(text)
    return Passage(text, id=name, title=title or path.stem)


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
