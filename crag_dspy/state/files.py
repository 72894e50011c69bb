"""The one way files are written here: whole or not at all, whoever else writes, whenever the process dies.

What is written goes to a file of its own beside the target and then takes its name in one step, so that no reader, no
other thread or process and no crash ever sees half of it. A symbolic link at the target is replaced, not followed.
"""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# A temporary is hidden, and tells what it is: a killed process may leave one.
_MARK = ".crag-part."


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """An empty new file, of the same suffix, which takes the place of `path` when the block ends without an error.

    Devices and pipes (`/dev/stdout`) cannot be replaced: they are written to as they are.

    Raises:
        OSError: the folder does not exist or cannot be written, or the disk is full; `path` is then as it was.
    """
    target = Path(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        yield target
        return
    part = target.with_name(f".{target.stem[:100]}{_MARK}{secrets.token_hex(8)}{target.suffix}")
    # Exclusive: it is nobody's file, and no link to somebody's.
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield part
        _synced(part)
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    _synced(target.parent)


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file of UTF-8 with the lines it has. Raises as `replacing` does."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def is_leftover(name: str) -> bool:
    """Whether a file of this name is what a process that was killed had not finished."""
    return name.startswith(".") and _MARK in name


def _synced(path: Path) -> None:
    """On disk, and not only on its way there, where the system can say so (Windows opens no folders)."""
    with suppress(PermissionError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
