"""What a command sets in DSPy: no list of models is fetched, and its cache on disk reads plain data only."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import subprocess
import sys
import types
from typing import TYPE_CHECKING

import pytest

from crag_dspy.commands import cli, table
from crag_dspy.commands.sealed import NO_MODEL_LIST
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

# A reply, kept on disk and read again by another process; then a pickle that would run code.
CACHE = """
import sys
import types
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


KEY = "sk-proj-aB3dE6gH9jK2mN5pQ8"


@pytest.mark.parametrize("arguments", [["try"], ["try", "--debug"]])
def test_no_key_is_told_by_an_error_a_log_line_or_a_traceback(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(args: argparse.Namespace) -> int:
        logging.getLogger("crag_dspy.somewhere").warning("the service says %s", KEY[:12])
        try:
            raise RuntimeError(f"Illegal header value b'Bearer {KEY}\\n'")
        except RuntimeError as error:
            raise ConfigError(f"refused: {KEY}") from error

    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    module = types.ModuleType("crag_dspy.commands.trying")
    vars(module).update(run=run, add_arguments=lambda parser: None, EXAMPLE="")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(table.COMMANDS, "try", dataclasses.replace(table.COMMANDS["doctor"], module="trying"))
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    told = shown.out + shown.err
    assert "[key]" in told
    assert not any(KEY[start : start + 6] in told for start in range(len(KEY) - 5))
    assert os.environ[NO_MODEL_LIST] == "True"
