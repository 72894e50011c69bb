"""A run that is killed with SIGKILL and started again ends as one that was not, without repeating an LM
call."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import dspy
import pytest

from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.runs.evaluation import evaluate
from crag_dspy.optimize.runs.folder import RESULTS, read_rows
from crag_dspy.optimize.thresholds.outcomes import collect_outcomes

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")

TESTS = Path(__file__).parents[2]

# The process that is killed. Its engine writes a line for every call that it serves, and instead of serving
# call number `killed_at` kills its own process: no cleanup, no exception, nothing flushed.
CHILD = """
    import importlib.util, os, signal, sys
    from pathlib import Path

    def module(name, path):
        spec = importlib.util.spec_from_file_location(name, path)
        found = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    kind, folder, log, killed_at, cached, tests = sys.argv[1:]
    sys.path.insert(0, tests)
    shared = module("shared", Path(tests) / "conftest.py")
    capitals = module("capitals", Path(tests) / "capitals.py")

    import dspy
    from crag_dspy.optimize.runs.evaluation import evaluate
    from crag_dspy.optimize.metrics.answers import contains_word
    from crag_dspy.optimize.thresholds.outcomes import collect_outcomes

    class Deadly(shared.ScriptedEngine):
        def complete(self, request):
            if self.calls + 1 == int(killed_at):
                os.kill(os.getpid(), signal.SIGKILL)
            response = super().complete(request)
            with open(log, "a") as file:
                file.write("call\\n")
            return response

    dspy.configure_cache(
        enable_disk_cache=cached == "cached", enable_memory_cache=False, disk_cache_dir=str(Path(folder) /
        "cache")
    )
    lm = dspy.LM("scripted/by-field", engine=Deadly(capitals.SCRIPT), num_retries=0, cache=cached == "cached")
    program = capitals.capitals_program.__wrapped__()()
    devset = capitals.capitals_devset.__wrapped__()
    collect = {"evaluate": evaluate, "outcomes": collect_outcomes}[kind]
    with dspy.context(lm=lm):
        collect(program, devset, contains_word, run=Path(folder) / "run", threads=1)
"""


def child(kind: str, folder: Path, killed_at: int, cached: str) -> int:
    log = folder / "calls"
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(CHILD),
        kind,
        str(folder),
        str(log),
        str(killed_at),
        cached,
        str(TESTS),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = ("key", "answer", "action", "scores", "quality", "feedback", "warnings", "error")
    return [{name: row[name] for name in kept if name in row} for row in rows]


@pytest.mark.parametrize(
    ("kind", "killed_at", "cached"),
    [
        ("evaluate", 5, "uncached"),  # between two questions
        ("outcomes", 4, "cached"),  # inside a question, after its rewrite: DSPy's cache has that call
    ],
)
def test_killed_and_resumed(
    kind: str,
    killed_at: int,
    cached: str,
    tmp_path: Path,
    capitals_program: Any,
    capitals_devset: Any,
    capitals_script: Any,
    scripted_lm: Any,
) -> None:
    assert child(kind, tmp_path, killed_at, cached) == -signal.SIGKILL
    calls = (tmp_path / "calls").read_text().count("call")
    assert calls == killed_at - 1
    partial = read_rows(tmp_path / "run" / RESULTS)
    assert 0 < len(partial) < 6

    assert child(kind, tmp_path, 0, cached) == 0
    resumed = read_rows(tmp_path / "run" / RESULTS)
    assert resumed[: len(partial)] == partial

    lm = scripted_lm(capitals_script)
    undisturbed = tmp_path / "undisturbed"
    collect: Any = {"evaluate": evaluate, "outcomes": collect_outcomes}[kind]
    with dspy.context(lm=lm):
        collect(capitals_program(), capitals_devset, contains_word, run=undisturbed, threads=1)
    assert without_times(resumed) == without_times(read_rows(undisturbed / RESULTS))
    distinct = {request.text for request in lm.requests} if cached == "cached" else lm.requests
    assert (tmp_path / "calls").read_text().count("call") == len(distinct)
