"""The LanceDB table under a `LocalIndex`: what is stored, how it is written, and how it is read.

Two rules keep readers safe from writers. Every change of documents is ONE commit, so there is no moment in
which a document is half replaced. And every search reads one immutable version of the table, so its BM25
half, its vector half and the texts always belong together, whoever writes meanwhile, in this process or
another.
"""

from __future__ import annotations

import os
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import CragError
from crag_dspy.live.per_process import PerProcess
from crag_dspy.retrievers.index_rows import STORED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NAME = "passages"
READ = "read"  # the column of what a grader read of a passage (`PassageVectors.to_bytes`)
LOCK = "write.lock"
LOCK_TIMEOUT = 600.0  # seconds; folding 100,000 new passages into the indexes takes about ten
INDEX_AFTER = 500  # new rows are searched by scanning them, at about 40 ms a thousand, until they are indexed
COMPACT_AFTER = 32  # small files
KEEP_VERSIONS = timedelta(
    hours=1
)  # for what is still read of an old one: a search takes milliseconds, a copy minutes
KEEP_FRESH = timedelta(seconds=5)
_SYSTEM = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True)
class Snapshot:
    """One version of the table. Row ids belong to their snapshot only."""

    table: Any
    version: int

    @cached_property
    def size(self) -> int:
        return int(self.table.count_rows())

    def by_words(self, query: str, limit: int) -> list[tuple[int, float]]:
        """Row ids and BM25 scores of the rows that share a word with `query`, best first."""
        from lancedb.query import MatchQuery

        # A MatchQuery has no syntax: quotes, colons and operators in a question are only punctuation.
        words: Any = MatchQuery(query, "searched")  # type: ignore[call-arg]
        search = self.table.search(words, query_type="fts")
        found = search.select(["_score"]).with_row_id(True).limit(limit).to_arrow()
        return list(zip(found["_rowid"].to_pylist(), found["_score"].to_pylist(), strict=True))

    def by_vector(self, vector: Any, limit: int) -> list[tuple[int, float]]:
        """Row ids and cosines of the rows nearest to the unit `vector`, best first."""
        search = self.table.search(vector, vector_column_name="vector", query_type="vector")
        found = search.distance_type("dot").select(["_distance"]).with_row_id(True).limit(limit).to_arrow()
        # Lance's dot distance is 1 - dot.
        cosines = [1.0 - distance for distance in found["_distance"].to_pylist()]
        return list(zip(found["_rowid"].to_pylist(), cosines, strict=True))

    def rows(self, row_ids: Sequence[int], columns: Sequence[str] = STORED) -> list[dict[str, Any]]:
        """What is stored in these columns of these rows, in this order."""
        if not row_ids:
            return []
        taken = self.table.take_row_ids(list(row_ids)).select(list(columns)).with_row_id().to_arrow()
        of = {row["_rowid"]: row for row in taken.to_pylist()}
        return [of[row_id] for row_id in row_ids]

    def digests(self, documents: Sequence[str] | None = None) -> dict[str, str]:
        """Document id -> digest of its content, of these documents or of all."""
        scan = self.table.search()
        if documents is not None:
            scan = scan.where(_one_of(documents))
        found = scan.select(["document", "digest"]).to_arrow()
        return dict(zip(found["document"].to_pylist(), found["digest"].to_pylist(), strict=True))

    def batches(self, size: int, columns: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
        """All rows, `size` at a time."""
        for batch in self.table.search().select(list(columns)).to_batches(size):
            yield batch.to_pylist()


class PassageTable:
    """A table in `folder`, created with `create` and opened lazily, once a process."""

    def __init__(self, folder: Path, dimension: int | None, reads: bool = False) -> None:
        self.folder = folder
        self.dimension = dimension
        self.reads = reads  # rows hold what a grader read of them
        self._connection = PerProcess(lambda: _Connection(folder))

    @classmethod
    def create(cls, folder: Path, dimension: int | None, reads: bool = False) -> PassageTable:
        """A new, empty table, with vectors when there is a dimension. Whoever calls it is the `writer`."""
        import lancedb
        from lancedb.index import FTS, BTree

        made = cls(folder, dimension, reads)
        database: Any = lancedb.connect(folder)
        database.drop_table(NAME, ignore_missing=True)  # the rest of a creation that was cut short
        table = database.create_table(NAME, schema=made.schema)
        # ICU finds the words of Chinese, Japanese and Thai. Stop words stay: "The Who" is a band, and BM25
        # weighs common words down by itself.
        words = FTS(base_tokenizer="icu", remove_stop_words=False, with_position=False)
        table.create_index("searched", config=words)
        table.create_index("document", config=BTree())
        return made

    @property
    def schema(self) -> Any:
        import pyarrow as pa

        numbers = ("chunk", "start", "end")
        columns = [(name, pa.int64() if name in numbers else pa.string()) for name in (*STORED, "digest")]
        if self.dimension is not None:
            columns.append(("vector", pa.list_(pa.float32(), self.dimension)))
        if self.reads:
            columns.append((READ, pa.large_binary()))
        return pa.schema(columns)

    def latest(self) -> Snapshot:
        """The newest version, whoever wrote it."""
        return self._connection.get().latest()

    def replace(self, rows: list[dict[str, Any]], documents: Sequence[str]) -> None:
        """Make `rows` all that is stored of `documents`, in one commit."""
        import pyarrow as pa

        data = pa.Table.from_pylist(rows, schema=self.schema)
        with self._writing() as table:
            if not table.count_rows(_one_of(documents)):
                table.add(data)  # faster than a merge
                return
            merge = table.merge_insert(["document", "chunk"])
            merge = merge.when_matched_update_all().when_not_matched_insert_all()
            merge.when_not_matched_by_source_delete(_one_of(documents)).execute(data)

    def delete(self, documents: Sequence[str]) -> None:
        """Remove everything of `documents`, in one commit."""
        with self._writing() as table:
            table.delete(_one_of(documents))

    def settle(self, at_once: bool = False, fresh: bool = False) -> None:
        """Index new rows and merge small files, if there are many or `at_once`; the content stays.

        Args:
            fresh: all of it was written just now, and few older versions are kept: nobody studies a half-built index.
        """
        with self._writing() as table:
            indexes = [table.index_stats(index.name) for index in table.list_indices()]
            unindexed = max(index.num_unindexed_rows for index in indexes)
            files = int(table.stats()["fragment_stats"]["num_fragments"])
            if unindexed > (0 if at_once else INDEX_AFTER) or files > (1 if at_once else COMPACT_AFTER):
                table.optimize(cleanup_older_than=KEEP_FRESH if fresh else KEEP_VERSIONS)

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        """The table at its latest version; one writer at a time, over all processes."""
        with writer(self.folder):
            yield self._connection.get().open()


@contextmanager
def writer(folder: Path) -> Iterator[None]:
    """Inside, nobody else writes to the index, or makes one, in this folder.

    Raises:
        CragError: another process has held it for too long.
        OSError: the disk is full, or nobody may write there; what was committed before stays.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK, timeout=LOCK_TIMEOUT)
    try:
        lock.acquire()
    except Timeout as error:
        raise CragError(
            f"{folder}: another writer has held {lock.lock_file} for {LOCK_TIMEOUT:.0f} s: "
            f"wait for it to finish, or end that process"
        ) from error
    try:
        yield
    except (
        RuntimeError,
        ValueError,
        OSError,
    ) as error:  # Lance says what the system said in the text of its own
        said = _SYSTEM.search(str(error))
        if said is None:
            raise
        raise OSError(int(said[1]), os.strerror(int(said[1])), str(folder)) from error
    finally:
        lock.release()


class _Connection:
    """One process's connection, and the snapshot that its searches share."""

    def __init__(self, folder: Path) -> None:
        import lancedb

        self._database = lancedb.connect(folder)
        self._newest = self.open()
        self._guard = threading.Lock()
        self._snapshot: Snapshot | None = None

    def open(self) -> Any:
        return self._database.open_table(NAME)

    def latest(self) -> Snapshot:
        with self._guard:
            self._newest.checkout_latest()
            version = int(self._newest.version)
            if self._snapshot is None or self._snapshot.version != version:
                table = self.open()
                table.checkout(version)
                self._snapshot = Snapshot(table, version)
            return self._snapshot


def _one_of(documents: Sequence[str]) -> str:
    quoted = ", ".join("'" + document.replace("'", "''") + "'" for document in documents)
    return f"document IN ({quoted})" if quoted else "false"
