"""`crag-dspy index`: build or update an index on disk.

    crag-dspy index documents/ --out my-index

Running it again updates the index: documents that changed are replaced, those that did not are not embedded
again. Documents that the source no longer has stay, unless --prune says otherwise: an index may have many sources.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.commands import to_weaviate
from crag_dspy.commands.output import answer, answer_json, note
from crag_dspy.commands.status import INTERRUPTED, OK, SOME_FAILED

if TYPE_CHECKING:
    import argparse

    from crag_dspy.retrievers.local import Imported, LocalIndex

EXAMPLE = "crag-dspy index documents/ --out my-index"
DEFAULT_EMBEDDER = "mini"
OF_WEAVIATE = "minilm"
DEFAULT_CHUNK_WORDS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        type=Path,
        help="a .jsonl file (one object a line: text, and optionally id, title, url, metadata), a .csv or .tsv file "
        "(the same columns, or any table), a .txt, .md, .html, .pdf or .docx file, or a folder of such files",
    )
    parser.add_argument(
        "--out", required=True, metavar="FOLDER", help="the index; made unless it exists; or weaviate"
    )
    parser.add_argument(
        "--embedder",
        metavar="NAME",
        help=f"minilm, none (search by words only), or a sentence-transformers model or folder; default: "
        f"{DEFAULT_EMBEDDER}, or what the index has already",
    )
    parser.add_argument(
        "--chunk-words",
        type=int,
        default=None,
        metavar="N",
        help=f"most words in a passage of a new index; longer documents are cut between sentences; 0 keeps "
        f"them whole; default: {DEFAULT_CHUNK_WORDS}",
    )
    parser.add_argument(
        "--prune", action="store_true", help="remove documents of the index that the source does not have"
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="a file or line that cannot be read is an error, and nothing is written; without it, all of them are "
        "listed at the end and the status is 1",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    to_weaviate.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Import `args.source` into the folder `args.out`, or move it to Weaviate.

    Returns 0, 1 when something could not be read, or 130 when interrupted.
    """
    if args.out == to_weaviate.TARGET:
        words = DEFAULT_CHUNK_WORDS if args.chunk_words is None else args.chunk_words or None
        return to_weaviate.move(args, args.embedder or OF_WEAVIATE, words)
    from crag_dspy.retrievers.documents import check_source, document_ids

    started = time.perf_counter()
    total = check_source(args.source, args.strict)  # what cannot be read leaves no half-made index behind
    index = _opened(Path(args.out), args.embedder, args.chunk_words)
    removed = 0
    try:
        imported = index.add_from(args.source, strict=args.strict, total=total)
        if args.prune and imported.refused:
            note("nothing is removed (--prune): what could not be read may be what the index has")
        elif args.prune:
            removed = index.delete(index.documents() - document_ids(args.source))
    except KeyboardInterrupt:
        note(
            f"\ninterrupted: {args.out} holds {len(index)} passages so far and can be used. "
            "The same command goes on where it stopped."
        )
        return INTERRUPTED
    summary = _summary(index, imported, removed, time.perf_counter() - started)
    answer_json(summary) if args.json else answer(_for_people(summary))
    return SOME_FAILED if imported.refused else OK


def _opened(folder: Path, embedder: str | None, chunk_words: int | None) -> LocalIndex:
    from crag_dspy.errors import IndexMismatchError
    from crag_dspy.retrievers.index_record import FILE
    from crag_dspy.retrievers.local import LocalIndex

    words = DEFAULT_CHUNK_WORDS if chunk_words is None else chunk_words or None
    if not (folder / FILE).exists():
        named = embedder or DEFAULT_EMBEDDER
        index = LocalIndex.opened(folder, None if named == "none" else named, chunk_words=words)
    else:
        index = LocalIndex.open(folder, None if embedder == "none" else embedder)
    if embedder == "none" and index.mode != "text":
        raise IndexMismatchError(
            f"{folder} was built with the embedder {index.describe()['embedder']!r}, so --embedder none is "
            f"not possible: leave --embedder away, or build another index"
        )
    if chunk_words is not None and words != index.chunk_words:
        raise IndexMismatchError(
            f"{folder} was built with --chunk-words {index.chunk_words or 0}, not {chunk_words}: "
            f"leave --chunk-words away, or build another index"
        )
    return index


def _summary(index: LocalIndex, imported: Imported, removed: int, seconds: float) -> dict[str, Any]:
    return {
        **index.describe(),
        "added": imported.added,
        "replaced": imported.replaced,
        "unchanged": imported.unchanged,
        "removed": removed,
        "refused": list(imported.refused),
        "seconds": round(seconds, 2),
    }


def _for_people(summary: dict[str, Any]) -> str:
    found_by = "words and vectors of {embedder}" if summary["embedder"] else "words"
    return (
        "{path}: {passages} passages of {documents} documents, found by " + found_by + "\n"
        "{added} added, {replaced} replaced, {unchanged} unchanged, {removed} removed, in {seconds} s"
        + ("; {left_out} could not be read" if summary["refused"] else "")
    ).format(**summary, left_out=len(summary["refused"]))
