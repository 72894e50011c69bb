"""Processes killed with SIGKILL at any stage, and started again: nothing lost, nothing twice, the end as if unbroken.

Thresholds and evaluations: `optimize/runs/test_resume_after_kill.py`; comparisons:
`crag_dspy/commands/test_compare_command.py`; training: `evaluator_train/training/test_train.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crag_dspy.retrievers import LocalIndex
from crag_dspy.state.files import is_leftover
from crag_dspy.websearch.cache import SearchCache

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL"),
]

TESTS = Path(__file__).parent


def run(code: str, *arguments: object, folder: Path) -> int:
    """The exit status of a process with this code: 0, or that of a kill."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "DSPY_CACHEDIR": str(folder / "dspy")},
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


# An import that kills its process before or after its n-th write to the table, its own files included.
INDEX = """
    import os, signal, sys
    import lancedb.table
    from crag_dspy.commands.cli import main
    from crag_dspy.retrievers import local
    from crag_dspy.retrievers.index_record import IndexRecord

    source, target, killed_at = sys.argv[1], sys.argv[2], int(sys.argv[3])
    local.BATCH, local.SETTLE_EVERY = 5, 4
    steps = 0

    def deadly(owner, name):
        real = getattr(owner, name)
        def stepped(*args, **kwargs):
            global steps
            steps += 1
            if steps == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*args, **kwargs)
            steps += 1
            if steps == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        setattr(owner, name, stepped)

    for name in ("create_index", "add", "optimize"):
        deadly(lancedb.table.LanceTable, name)
    deadly(IndexRecord, "write")
    sys.exit(main(["index", source, "--out", target, "--embedder", "none"]))
"""


def test_an_index_is_whole_wherever_its_import_was_killed(tmp_path: Path) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text(
        "".join(f'{{"id": "d{n}", "text": "Document {n} of the beacon."}}\n' for n in range(30))
    )
    assert run(INDEX, source, tmp_path / "unbroken", 0, folder=tmp_path) == 0
    unbroken = LocalIndex.open(tmp_path / "unbroken")

    killed_at, status = 1, -signal.SIGKILL
    while status != 0:
        target = tmp_path / f"killed{killed_at}"
        status = run(INDEX, source, target, killed_at, folder=tmp_path)
        assert run(INDEX, source, target, 0, folder=tmp_path) == 0
        index = LocalIndex.open(target)
        assert Counter(passage.id for passage in index.passages()) == Counter(f"d{n}" for n in range(30))
        assert index.fingerprint == unbroken.fingerprint
        assert len(index("beacon", 100)) == 30
        killed_at += 3
    assert killed_at > 15  # the import has at least so many steps, and no step more was there to be killed at


COMPILE = """
    import importlib.util, os, signal, sys
    from pathlib import Path

    def module(name, path):
        spec = importlib.util.spec_from_file_location(name, path)
        found = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    folder, killed_at, tests = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sys.path.insert(0, tests)
    shared = module("shared", Path(tests) / "conftest.py")
    capitals = module("capitals", Path(tests) / "capitals.py")

    import dspy
    from crag_dspy.optimize.metrics.answers import contains_word
    from crag_dspy.optimize.prompts.compiling import compile_program

    class Deadly(shared.ScriptedEngine):
        def complete(self, request):
            if self.calls + 1 == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            response = super().complete(request)
            with open(folder / "calls", "a") as file:
                file.write("call\\n")
            return response

    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    lm = dspy.LM("scripted/by-field", engine=Deadly(capitals.SCRIPT), num_retries=0, cache=False)
    devset = capitals.capitals_devset.__wrapped__()
    with dspy.context(lm=lm):
        compile_program(
            capitals.capitals_program.__wrapped__()(), devset[:4], contains_word, heldout=devset[4:],
            optimizer="bootstrap", run=folder / "run", threads=1, progress=False,
        )
"""


def results(run_folder: Path) -> dict[str, Any]:
    """Everything a compilation leaves, without its times."""
    found: dict[str, Any] = {"program": json.loads((run_folder / "program.json").read_text())}
    for when in ("before", "after"):
        rows = [json.loads(line) for line in (run_folder / when / "results.jsonl").read_text().splitlines()]
        found[when] = [
            {name: row[name] for name in ("key", "answer", "action", "scores", "error")} for row in rows
        ]
        assert len({row["key"] for row in rows}) == len(rows)
    return found


def test_a_compilation_ends_as_an_unbroken_one_wherever_it_was_killed(tmp_path: Path) -> None:
    whole = tmp_path / "unbroken"
    whole.mkdir()
    assert run(COMPILE, whole, 0, TESTS, folder=tmp_path) == 0
    calls = (whole / "calls").read_text().count("call")
    assert calls > 10
    for killed_at in (2, calls // 3, calls // 2, calls - 1):
        folder = tmp_path / f"killed{killed_at}"
        folder.mkdir()
        assert run(COMPILE, folder, killed_at, TESTS, folder=tmp_path) == -signal.SIGKILL
        assert run(COMPILE, folder, 0, TESTS, folder=tmp_path) == 0
        assert results(folder / "run") == results(whole / "run")
        assert not [path for path in folder.rglob("*") if is_leftover(path.name)]


# Keeps replies and tells of each; it is killed from outside, wherever it happens to be.
CACHE = """
    import sys
    from crag_dspy import Passage
    from crag_dspy.websearch.cache import SearchCache
    cache = SearchCache(sys.argv[1])
    for number in range(int(sys.argv[2]), 100_000):
        cache.put({"query": f"q{number % 50}"}, [Passage(f"page {number} " * 500)])
        print(number, flush=True)
"""


def test_a_search_cache_keeps_what_it_said_it_kept(tmp_path: Path) -> None:
    cache, last, first = SearchCache(tmp_path), {}, 0
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CACHE), str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for _ in range(60):
            first = int(process.stdout.readline())
            last[first % 50] = first
        process.kill()
        for line in process.stdout.read().splitlines():
            first = int(line)
            last[first % 50] = first
        process.wait()
        process.stdout.close()
        first += 1  # may have been kept and not told: told or not, each file is whole
        for query, number in last.items():
            found = cache.get({"query": f"q{query}"})
            assert found is not None
            kept = int(found[0].text.split()[1])
            assert found[0].text == f"page {kept} " * 500
            assert kept in (number, first)
        kept_files = [path for path in tmp_path.iterdir() if not is_leftover(path.name)]
        assert len(kept_files) == len(last) == 50
