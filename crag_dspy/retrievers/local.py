"""`LocalIndex`: a retriever on disk, without a server. Hybrid search in any language, upsert and delete.

index = LocalIndex.build("my-index", "documents/")
index("How long is the bridge?", k=5)
...
index = LocalIndex.open("my-index")
"""

from __future__ import annotations

import hashlib
import re
import threading
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from crag_dspy.errors import ConfigError, IndexMismatchError
from crag_dspy.files.met import Met
from crag_dspy.live.held import Held
from crag_dspy.retrievers.documents import (
    check_source,
    count_documents,
    digest_of,
    given_documents,
    read_documents,
)
from crag_dspy.retrievers.embedders import as_embedder
from crag_dspy.retrievers.fusion import fuse
from crag_dspy.retrievers.index_record import FILE, EmbedderRecord, IndexRecord
from crag_dspy.retrievers.index_rows import STORED, passage_of, rows_of, text_of
from crag_dspy.retrievers.passage_table import LOCK, NAME, READ, PassageTable, Snapshot, writer
from crag_dspy.retrievers.reading import GraderEmbedder
from crag_dspy.state.arguments import check_choice, check_whole
from crag_dspy.state.files import is_leftover

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from crag_dspy.passages import Passage
    from crag_dspy.retrievers.embedders import Embedder

Mode = Literal["hybrid", "text", "vector"]
MODES: tuple[Mode, ...] = get_args(Mode)

# The embedder that nobody named: of a new index `NEW_INDEX`, of one that exists its own.
DEFAULT = "default"
NEW_INDEX = "mini"
BATCH = 512  # documents a commit
SETTLE_EVERY = 32  # commits: searches during a long import would scan all that is new
CANDIDATES = 50  # of each ranking that fusion reads, at least
MAX_QUERY = 4000  # characters; a longer question is matched by its beginning


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did: how many documents were new, replaced others, or were there already."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    passages: int = 0  # written, of the added and the replaced
    refused: tuple[str, ...] = ()  # a message for each file or line that could not be read

    @property
    def documents(self) -> int:
        return self.added + self.replaced + self.unchanged

    def __add__(self, other: Imported) -> Imported:
        return Imported(
            self.added + other.added,
            self.replaced + other.replaced,
            self.unchanged + other.unchanged,
            self.passages + other.passages,
            (*self.refused, *other.refused),
        )


class LocalIndex(Held):
    """Passages in a folder, found by words (BM25, ICU tokenizer) and by vectors (cosine), fused by rank.

    Made by `create`, `open` or `build`. Any number of threads and processes may search while one of them
    writes: a search sees one state of the index, the latest. `len(index)` is the number of passages. Copies
    are the same object, and a pickle holds the path only.

    A document is stored as chunks. The passage of a document that is one chunk has the document's id; the
    chunks of a longer one are `id#0`, `id#1`, ..., and their metadata says where they are (`document`,
    `start`, `end`, in characters, without the headings and table headers that a chunk begins with: see `chunks`).
    """

    def __init__(
        self, path: Path, record: IndexRecord, embedder: Embedder | None, mode: Mode, checked: bool = True
    ) -> None:
        self.path = path
        self.mode = mode
        self.chunk_words = record.chunk_words
        self._record = record
        self._embedder = embedder
        self._checked = checked
        self._checking = threading.Lock()
        recorded = record.embedder
        self._table = PassageTable(
            path, recorded.dimension if recorded else None, recorded is not None and recorded.reads
        )
        self._fingerprint: tuple[int, str] | None = None

    @classmethod
    def create(
        cls, path: str | Path, embedder: Any = DEFAULT, *, chunk_words: int | None = 200
    ) -> LocalIndex:
        """A new, empty index.

        Args:
            path: a folder that does not exist or is empty.
            embedder: see `as_embedder`; the default is "mini", the shipped grader, which grades what it finds without
                reading it again. None searches by words only.
            chunk_words: the most words in a passage, >= 1; longer documents are cut between sentences. A
                character of a script written without spaces counts as a word. None keeps every document
                whole.

        Raises:
            ConfigError: there is an index already, or something else in the folder.
        """
        if chunk_words is not None:
            check_whole("chunk_words", chunk_words)
        folder = Path(path).absolute()
        _check_new(folder)
        adapted = as_embedder(NEW_INDEX if embedder == DEFAULT else embedder)
        record = IndexRecord(EmbedderRecord.of(adapted) if adapted is not None else None, chunk_words)
        folder.mkdir(parents=True, exist_ok=True)
        embedded = record.embedder
        with writer(folder):
            _check_new(folder)  # another process may have made it meanwhile
            reads = embedded is not None and embedded.reads
            PassageTable.create(folder, embedded.dimension if embedded else None, reads)
            record.write(folder)
        return cls(folder, record, adapted, "text" if adapted is None else "hybrid")

    @classmethod
    def open(cls, path: str | Path, embedder: Any = None, *, mode: Mode | None = None) -> LocalIndex:
        """The index in the folder `path`.

        Args:
            embedder: None takes the one that the index was built with, which is loaded and checked at the
                first search. One given here is checked now, by embedding one short text.
            mode: "hybrid" (words and vectors), "text" (words only; needs no embedder) or "vector". None is
                hybrid where there are vectors.

        Raises:
            ConfigError: no index there.
            IndexMismatchError: it was built with another embedder, or with none; the message says which.
        """
        folder = Path(path).absolute()
        record = IndexRecord.read(folder)
        if mode is not None:
            check_choice("mode", mode, MODES)
        adapted = as_embedder(embedder)
        if record.embedder is None:
            if adapted is not None or mode in ("hybrid", "vector"):
                asked = f"the embedder {adapted.name!r}" if adapted else f"mode={mode!r}"
                raise IndexMismatchError(
                    f"{folder} was built without an embedder, so it cannot be searched with {asked}: "
                    f"open it without, or build the index again in another folder"
                )
            return cls(folder, record, None, "text")
        if adapted is not None:
            record.embedder.check(adapted, folder)
        elif mode != "text":
            return cls(folder, record, record.embedder.reopen(folder), mode or "hybrid", checked=False)
        return cls(folder, record, adapted, mode or "hybrid")

    @classmethod
    def build(
        cls,
        path: str | Path,
        source: Any,
        embedder: Any = DEFAULT,
        *,
        chunk_words: int | None = 200,
        progress: bool | None = None,
        strict: bool = False,
    ) -> LocalIndex:
        """The index in `path`, created unless it exists, with everything of `source` in it (see `add_from`).

        A source of which nothing can be read leaves no index behind. `embedder` and `chunk_words` are those of a new
        index. An existing one keeps its own: an embedder other than the one it was built with is an
        IndexMismatchError.
        """
        total = check_source(source, strict) if isinstance(source, (str, Path)) else None
        index = cls.opened(path, embedder, chunk_words=chunk_words)
        index.add_from(source, progress=progress, strict=strict, total=total)
        return index

    @classmethod
    def opened(
        cls, path: str | Path, embedder: Any = DEFAULT, *, chunk_words: int | None = 200
    ) -> LocalIndex:
        """The index in `path`, created unless it exists, also when another process creates it at the same time."""
        if not (Path(path) / FILE).exists():
            try:
                return cls.create(path, embedder, chunk_words=chunk_words)
            except ConfigError:
                if not (Path(path) / FILE).exists():
                    raise
        return cls.open(path, None if embedder == DEFAULT else embedder)

    # Searching

    def __call__(self, query: str, k: int = 10) -> list[Passage]:
        """The best `k` passages for `query`, best first, no two with the same title and text.

        `score` is the retriever's, and says nothing of relevance: the RRF score in hybrid mode, BM25 in text
        mode, the cosine in vector mode. A query without a letter or digit finds nothing. In hybrid mode, a
        query in a script that the embedder cannot read is searched by words only.

        Raises:
            ConfigError: `query` is not a string, or `k` not an int >= 1.
        """
        if not isinstance(query, str):
            raise ConfigError(f"query must be a str, got {type(query).__name__}")
        check_whole("k", k)
        # Half a surrogate pair cannot be written as UTF-8.
        asked = query[:MAX_QUERY].encode("utf-8", "ignore").decode()
        if not re.search(r"[^\W_]", asked):
            return []
        snapshot = self._table.latest()
        if not snapshot.size:
            return []
        limit = max(CANDIDATES, 2 * k)
        if self._table.reads and self.mode != "text":
            return self._read_ranking(snapshot, asked, limit, k)
        return self._best(snapshot, self._ranking(snapshot, asked, limit), k)

    search = __call__

    def _ranking(self, snapshot: Snapshot, query: str, limit: int) -> list[tuple[int, float]]:
        by_words = snapshot.by_words(query, limit) if self.mode != "vector" else []
        if self.mode == "text":
            return by_words
        embedder = self._embedding()
        if self.mode == "vector":
            return snapshot.by_vector(embedder.embed_query(query), limit)
        # A Chinese question before an English model: its vector would bury what the words find.
        by_vector = snapshot.by_vector(embedder.embed_query(query), limit) if embedder.reads(query) else []
        return fuse([[row for row, _ in by_words], [row for row, _ in by_vector]])

    def _read_ranking(self, snapshot: Snapshot, query: str, limit: int, k: int) -> list[Passage]:
        """Words and single vectors find candidates, whose token vectors then say how well each matches; in hybrid mode
        that ranking is fused with the one by words, which is surer where an exact name or number decides.
        """
        embedder = self._embedding()
        if not isinstance(embedder, GraderEmbedder):
            raise IndexMismatchError(f"{self.path} stores what a grader read: open it with that grader")
        by_words = snapshot.by_words(query, limit) if self.mode != "vector" else []
        by_vector = snapshot.by_vector(embedder.embed_query(query), limit) if embedder.reads(query) else []
        found = list(dict.fromkeys([row for row, _ in by_words] + [row for row, _ in by_vector]))
        rows = snapshot.rows(found, (*STORED, READ))
        maker = embedder.grader.fingerprint
        from crag_dspy.read_once.vectors import PassageVectors  # numpy is loaded by who needs it

        read = [PassageVectors.from_bytes(row[READ], maker) for row in rows]
        matched = embedder.matches(query, read)
        order = sorted(range(len(found)), key=lambda place: -matched[place])
        ranked = [(place, matched[place]) for place in order]
        if self.mode == "hybrid":
            place_of = {row: place for place, row in enumerate(found)}
            ranked = fuse([order, [place_of[row] for row, _ in by_words]])
        best: dict[str, Passage] = {}
        for place, score in ranked:
            if len(best) == k:
                break
            best.setdefault(rows[place]["searched"], passage_of(rows[place], score, read[place]))
        return list(best.values())

    def _best(self, snapshot: Snapshot, ranking: list[tuple[int, float]], k: int) -> list[Passage]:
        found: dict[str, Passage] = {}
        scored = iter(ranking)
        while len(found) < k and (batch := list(islice(scored, k))):
            rows = snapshot.rows([row_id for row_id, _ in batch])
            for row, (_, score) in zip(rows, batch, strict=True):
                found.setdefault(row["searched"], passage_of(row, score))
        return list(found.values())[:k]

    def _embedding(self) -> Embedder:
        recorded = self._record.embedder
        if recorded is None:
            raise IndexMismatchError(f"{self.path} has no vectors")
        with self._checking:
            if self._embedder is None:  # opened to search words only, and now written to
                self._embedder, self._checked = recorded.reopen(self.path), False
            if not self._checked:
                recorded.check(self._embedder, self.path)
                self._checked = True
        return self._embedder

    # Writing

    def add(self, documents: Iterable[Any], *, progress: bool | None = False) -> Imported:
        """Upsert documents, given as str, Passage, mapping (`id, title, text, url, metadata`) or LangChain's.

        All that was stored of a document with the same id is replaced; one with the same content is left as
        it is, and not embedded again. Each batch is one commit, and an import that is cut short leaves whole
        documents.

        Args:
            documents: any iterable, read as a stream.
            progress: a bar on stderr; None shows one on a terminal only.

        Raises:
            ConfigError: naming the document and field that cannot be stored, or two documents with one id.
        """
        return self._import(given_documents(documents), None, progress)

    def add_from(
        self, source: Any, *, progress: bool | None = None, strict: bool = False, total: int | None = None
    ) -> Imported:
        """Upsert the documents of a file or a folder of them (see `read_documents` for the kinds).

        A file or line that cannot be read is left out; all of them are told in one warning at the end, and in
        `Imported.refused`. To go on after an interruption, do it again: what is there already is not embedded again.
        Anything else than a path is passed on to `add`.

        Args:
            strict: the source is read through before anything is written, and what cannot be read is an error that
                changes nothing.
            total: the number of documents, where the source was read through already (`check_source`).
        """
        if not isinstance(source, (str, Path)):
            return self.add(source, progress=progress)
        met = Met(strict)
        if strict and total is None:
            total = count_documents(source)
        done = self._import(read_documents(source, met), total, progress, settled=True)
        met.tell()
        return replace(done, refused=tuple(met.refused))

    def delete(self, ids: str | Iterable[str]) -> int:
        """Remove documents, with all their chunks, by document id; returns how many there were."""
        wanted = [ids] if isinstance(ids, str) else list(dict.fromkeys(ids))
        known = list(self._table.latest().digests(wanted)) if wanted else []
        if known:
            self._table.delete(known)
        return len(known)

    def _import(
        self,
        documents: Iterator[tuple[Passage, str]],
        total: int | None,
        progress: bool | None,
        settled: bool = False,
    ) -> Imported:
        from tqdm import tqdm

        done, fresh = Imported(), not len(self)
        hidden = None if progress is None else not progress  # tqdm: None hides it unless on a terminal
        with tqdm(total=total, desc="indexing", unit="doc", disable=hidden) as bar:
            for number in count(1):
                batch = [document for document, _ in islice(documents, BATCH)]
                if not batch:
                    break
                done += self._upsert(batch)
                bar.update(len(batch))
                if number % SETTLE_EVERY == 0:
                    self._table.settle(fresh=fresh)
        self._table.settle(at_once=settled, fresh=fresh)
        return done

    def _upsert(self, batch: Sequence[Passage]) -> Imported:
        digests = {document.id: digest_of(document) for document in batch}
        present = self._table.latest().digests(list(digests))
        changed = [document for document in batch if present.get(document.id) != digests[document.id]]
        rows = [
            row for document in changed for row in rows_of(document, digests[document.id], self.chunk_words)
        ]
        if self._record.embedder is not None and rows:
            embedder = self._embedding()
            if isinstance(embedder, GraderEmbedder):
                read = embedder.read([(row["title"], text_of(row)) for row in rows])
                vectors = embedder.singles(read)
                for row, one in zip(rows, read, strict=True):
                    row[READ] = one.to_bytes()
            else:
                vectors = embedder.embed([row["searched"] for row in rows])
            for row, vector in zip(rows, vectors, strict=True):
                row["vector"] = vector
        replaced = sum(document.id in present for document in changed)
        if changed:
            self._table.replace(rows, [document.id for document in changed])
        return Imported(len(changed) - replaced, replaced, len(batch) - len(changed), len(rows))

    # What is in it

    def __len__(self) -> int:
        return self._table.latest().size

    def __bool__(self) -> bool:
        return True  # an empty index is an index

    def documents(self) -> set[str]:
        """The ids of all documents."""
        return set(self._table.latest().digests())

    def passages(self) -> Iterator[Passage]:
        """Every passage, as a stream, of the index as it is now; in no particular order."""
        for passage, _ in self.passages_with_vectors():
            yield passage

    def passages_with_vectors(self, batch: int = 1000) -> Iterator[tuple[Passage, list[float] | None]]:
        """Every passage with its unit vector, or None where there are none: to move the index elsewhere."""
        columns = [*STORED, *(["vector"] if self._record.embedder else [])]
        for rows in self._table.latest().batches(batch, columns):
            for row in rows:
                yield passage_of(row, None), row.get("vector")

    @property
    def record(self) -> IndexRecord:
        """What it was built with."""
        return self._record

    @property
    def fingerprint(self) -> str:
        """A hash of the content: all documents, how they are cut, the embedder's name and dimension, and the
        mode.

        Two indexes with one fingerprint hold the same passages, wherever and in whatever order they were
        built. Read once a version: about 0.1 s for 100,000 passages.
        """
        snapshot = self._table.latest()
        if self._fingerprint is None or self._fingerprint[0] != snapshot.version:
            recorded = self._record.embedder
            named = [recorded.name, recorded.dimension] if recorded else None
            state = hashlib.blake2b(repr((self.chunk_words, named, self.mode)).encode(), digest_size=8)
            for document, digest in sorted(snapshot.digests().items()):
                state.update(f"{digest} {document}\n".encode())
            self._fingerprint = (snapshot.version, state.hexdigest())
        return self._fingerprint[1]

    def describe(self) -> dict[str, Any]:
        """Plain data: `path, passages, documents, embedder, dimension, chunk_words, mode, fingerprint`."""
        recorded = self._record.embedder
        snapshot = self._table.latest()
        return {
            "path": str(self.path),
            "passages": snapshot.size,
            "documents": len(snapshot.digests()),
            "embedder": recorded.name if recorded else None,
            "dimension": recorded.dimension if recorded else None,
            "chunk_words": self.chunk_words,
            "mode": self.mode,
            "fingerprint": self.fingerprint,
        }

    def __repr__(self) -> str:
        return f"LocalIndex({str(self.path)!r}, mode={self.mode!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        recorded = self._record.embedder
        by_name = recorded is None or recorded.spec is not None
        return _reopen, (str(self.path), None if by_name else self._embedder, self.mode)


def _check_new(folder: Path) -> None:
    if (folder / FILE).exists():
        raise ConfigError(f"{folder} is an index already: use LocalIndex.open, or remove the folder")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file: an index is a folder, give a new one")
    # The rest of a creation that was cut short may stay.
    if folder.exists() and not all(map(_is_rest, folder.iterdir())):
        raise ConfigError(f"{folder} is not empty, and not an index: give a new folder")


def _is_rest(path: Path) -> bool:
    # `index.json.<process>` is what earlier versions left.
    return path.name in (f"{NAME}.lance", LOCK) or is_leftover(path.name) or path.name.startswith(f"{FILE}.")


def _reopen(path: str, embedder: Any, mode: Mode) -> LocalIndex:
    return LocalIndex.open(path, embedder, mode=mode)
