"""What a command sets in DSPy: no list of models is fetched, and its cache on disk reads plain data only."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# A reply, kept on disk and read again by another process; then a pickle that would run code.
CACHE = """
import sys
from pathlib import Path
from crag_dspy.commands.sealed import seal_cache
seal_cache()
import dspy

class Trap:
    def __reduce__(self):
        return (Path.touch, (Path(sys.argv[2]),))

if sys.argv[1] == "write":
    dspy.cache.put({"model": "m"}, {"text": "a reply"})
    dspy.cache.put({"model": "trap"}, Trap())
else:
    print(dspy.cache.get({"model": "m"}), dspy.cache.get({"model": "trap"}))
"""


def python(code: str, *arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "DSPY_CACHEDIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_replies_are_kept_and_nothing_else_is_unpickled(tmp_path: Path) -> None:
    for what in ("write", "read"):
        found = python(CACHE, what, str(tmp_path / "sprung"), folder=tmp_path / "cache")
    assert found == "{'text': 'a reply'} None"
    assert not (tmp_path / "sprung").exists()


def test_a_cache_that_somebody_configured_stays(tmp_path: Path) -> None:
    code = (
        "import dspy\nfrom crag_dspy.commands.sealed import seal_cache\n"
        "dspy.configure_cache(enable_disk_cache=False)\nseal_cache()\nprint(dspy.cache.enable_disk_cache)"
    )
    assert python(code, folder=tmp_path) == "False"
