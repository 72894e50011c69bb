"""A run: one evaluation or optimization, with the folder of what came out of it.

    config.json     kind, configuration, seed, identity (what the answers depend on), versions, digest of the data
    results.jsonl   one line a result, on disk before the next one is begun
    metrics.json    the summary, when the run is complete
    program.json    the program, where the run made one
    report.html     written by `report.py`

Results are appended and synced one by one, so a run that is killed loses at most what was in flight, and
opening it again goes on from there. A line that the kill tore is dropped; nothing else is ever rewritten.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import threading
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from crag_dspy.errors import ConfigError, StaleOutcomesError
from crag_dspy.optimize.runs.fingerprints import changes
from crag_dspy.state.files import write_whole
from crag_dspy.state.saving import save_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dspy

CONFIG, RESULTS, METRICS, PROGRAM, REPORT = (
    "config.json",
    "results.jsonl",
    "metrics.json",
    "program.json",
    "report.html",
)
FORMAT = 1
_HALVES = re.compile("[\ud800-\udfff]")
_VERSIONS = ("crag-dspy", "dspy", "numpy", "torch", "transformers", "lancedb")


class Run:
    """An open run. One process at a time: the results file is locked while it is open.

    Make one with `Run.open`; use it as a context manager. `folder=None` keeps everything in memory.
    """

    def __init__(self, folder: Path | None, rows: list[dict[str, Any]], file: IO[bytes] | None) -> None:
        self.folder = folder
        self.rows = rows
        self._file = file
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        folder: str | Path | None,
        kind: str,
        identity: Mapping[str, str],
        *,
        config: Mapping[str, Any] | None = None,
        seed: int | None = None,
        data: Mapping[str, Any] | None = None,
        fresh: bool = False,
    ) -> Run:
        """Begin a run, or go on with the one in this folder.

        Args:
            folder: made when missing. None: in memory.
            kind: what sort of run it is; a folder holds runs of one kind.
            identity: see `fingerprints.py`.
            config, seed, data: recorded. Data is not part of the identity: results are kept by question.
            fresh: throw the stored results away, if they are a run of this kind.

        Raises:
            StaleOutcomesError: the folder's results have another identity; the message says what changed.
            ConfigError: the folder is of another kind, is not a run, or is being written by another process.
        """
        if folder is None:
            return cls(None, [], None)
        path = Path(folder).expanduser()
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:  # a file has the name, or nobody may write there
            raise ConfigError(f"{path} cannot be the folder of a run: {error.strerror}") from error
        stored = _stored_config(path)
        if stored is not None:
            _check_kind(path, stored, kind)
            if not fresh:
                _check_identity(path, stored, identity)
        elif _size(path / RESULTS):  # a process killed at once leaves an empty one
            raise ConfigError(f"{path} has a {RESULTS} but no {CONFIG}: it is not a run; use another folder")
        file = _locked(path / RESULTS)
        try:
            if fresh:
                file.truncate(0)
            rows = _resume(file, path / RESULTS)
            run = cls(path, rows, file)
            run.write(
                CONFIG,
                {
                    "format": FORMAT,
                    "kind": kind,
                    "config": dict(config or {}),
                    "seed": seed,
                    "identity": dict(identity),
                    "data": dict(data or {}),
                    "versions": versions(),
                },
            )
        except BaseException:
            file.close()
            raise
        return run

    def append(self, row: dict[str, Any]) -> None:
        """Add a result; it is on disk when this returns. Threads may call it at the same time.

        Raises:
            OSError: the disk is full. The results before it are whole, and the run can go on when there is space.
        """
        text = json.dumps(row, ensure_ascii=False, allow_nan=False)
        line = _HALVES.sub(_escape, text).encode() + b"\n"
        with self._lock:
            if self._file is not None:
                _append(self._file, line)
            self.rows.append(row)

    def write(self, name: str, data: Any) -> None:
        """Write a JSON file of the run, whole or not at all. In memory: nothing."""
        if self.folder is not None:
            write_whole(self.folder / name, pretty(data))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The results in a file, without a torn last line. Raises `ConfigError` naming a line that is damaged."""
    return _parsed(path.read_bytes(), path)[0]


def save_results(folder: str | Path, program: dspy.Module, metrics: Mapping[str, Any] | None = None) -> None:
    """Write the program, and the summary where there is one, into the folder of a run that is done."""
    path = Path(folder).expanduser()
    save_whole(program, path / PROGRAM)
    if metrics is not None:
        write_whole(path / METRICS, pretty(metrics))


def pretty(data: Any) -> str:
    """Indented JSON, for people too. Half a character, which no file can hold, stands as JSON's escape."""
    text = json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    return _HALVES.sub(_escape, text)


def _escape(half: re.Match[str]) -> str:
    """Half a character, from a broken document or model: UTF-8 has none, JSON has an escape."""
    return f"\\u{ord(half[0]):04x}"


def versions() -> dict[str, str]:
    """The versions that a result may depend on; what is not installed is not listed."""
    found = {"python": platform.python_version(), "platform": sys.platform}
    for name in _VERSIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _stored_config(folder: Path) -> dict[str, Any] | None:
    path = folder / CONFIG
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON ({error}): use another folder") from error
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise ConfigError(f"{path} is not the configuration of a run of format {FORMAT}: use another folder")
    return stored


def _check_kind(folder: Path, stored: Mapping[str, Any], kind: str) -> None:
    if stored.get("kind") != kind:
        raise ConfigError(
            f"{folder} holds a run of kind {stored.get('kind')!r}, not {kind!r}: use another folder"
        )


def _check_identity(folder: Path, stored: Mapping[str, Any], identity: Mapping[str, str]) -> None:
    before = stored.get("identity", {})
    if not isinstance(before, dict) or not all(isinstance(value, str) for value in before.values()):
        raise ConfigError(
            f"{folder / CONFIG} is damaged: identity must be an object of texts; use another folder"
        )
    changed = changes(before, identity)
    if changed:
        raise StaleOutcomesError(
            f"the results in {folder} no longer hold, because this changed: {'; '.join(changed)}. "
            f"Use another folder, or fresh=True (--fresh) to throw them away and run again"
        )


def _locked(path: Path) -> IO[bytes]:
    try:
        # Unbuffered, so that what could not be written is not tried again later; and never through a link.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        file = open(os.open(path, flags, 0o666), "r+b", buffering=0)  # noqa: SIM115 - the run closes it
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}; use another folder") from error
    try:
        import fcntl
    except ImportError:  # Windows: nobody else is kept out
        return file
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise ConfigError(
            f"another process is writing to {path.parent}: wait for it, or use another folder"
        ) from error
    return file


def _append(file: IO[bytes], line: bytes) -> None:
    """The whole line, on disk, or nothing of it."""
    before = file.seek(0, os.SEEK_END)
    try:
        rest = memoryview(line)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except BaseException:  # a full disk, or an interruption
        with suppress(OSError):
            file.truncate(before)
        raise


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _resume(file: IO[bytes], path: Path) -> list[dict[str, Any]]:
    """Read what is there and cut a torn last line off, so that the next one starts on a line of its own."""
    file.seek(0)
    rows, good = _parsed(file.read(), path)
    file.truncate(good)
    file.seek(0, os.SEEK_END)
    return rows


def _parsed(content: bytes, path: Path) -> tuple[list[dict[str, Any]], int]:
    """(rows, number of bytes they take)."""
    rows, good = [], 0
    lines = content.splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError) as error:
            if number == len(lines) and not line.endswith(b"\n"):
                break
            raise ConfigError(f"{path} line {number} is damaged ({error}): remove the line") from error
        if not line.endswith(b"\n"):
            break  # whole by luck, but cut off all the same: its question is asked again
        rows.append(row)
        good += len(line)
    return rows, good
