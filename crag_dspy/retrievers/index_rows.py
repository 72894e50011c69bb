"""Between documents, the rows that a `LocalIndex` stores, and the passages that it finds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from crag_dspy.passages import Passage
from crag_dspy.retrievers.chunking import chunks
from crag_dspy.retrievers.documents import metadata_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crag_dspy.read_once.vectors import PassageVectors

# What a passage is made of. BM25 and the embedder read `searched`: the title, a line break and the text.
STORED = ("id", "document", "chunk", "start", "end", "title", "url", "searched", "metadata")


def rows_of(document: Passage, digest: str, chunk_words: int | None) -> Iterator[dict[str, Any]]:
    """One row a chunk of `document`, without its vector. `digest` is that of the whole document.

    Its text may begin with what is repeated of the document (see `chunks`); `start` and `end` are of what follows that.
    """
    parts = chunks(document.text, chunk_words, document.title)
    whole = len(parts) == 1
    for number, (start, end, context) in enumerate(parts):
        text = context + document.text[start:end]
        yield {
            "id": document.id if whole else f"{document.id}#{number}",
            "document": document.id,
            "chunk": number,
            # Only a part of a document has a place in it.
            "start": None if whole else start,
            "end": None if whole else end,
            "title": document.title,
            "url": document.url,
            "searched": f"{document.title}\n{text}" if document.title else text,
            "metadata": metadata_json(document),
            "digest": digest,
        }


def passage_of(row: Mapping[str, Any], score: float | None, vectors: PassageVectors | None = None) -> Passage:
    """The passage that a row (`STORED`) holds, with the score that a search gave it, and what was read of it."""
    title = row["title"]
    metadata = json.loads(row["metadata"]) if row["metadata"] else {}
    if row["start"] is not None:
        metadata |= {"document": row["document"], "start": row["start"], "end": row["end"]}
    return Passage(text_of(row), row["id"], title, row["url"], score, metadata, vectors)


def text_of(row: Mapping[str, Any]) -> str:
    """The passage's text, without the title that `searched` begins with."""
    title, searched = row["title"], row["searched"]
    return str(searched[len(title) + 1 :] if title else searched)
