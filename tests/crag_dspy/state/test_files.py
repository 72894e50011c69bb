"""Writing a file: whole or not at all, for threads, links, kills and full disks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import dspy
import pytest
from full_disk import no_space_beyond

from crag_dspy import CRAG
from crag_dspy.errors import StateError
from crag_dspy.state.files import is_leftover, replacing, write_whole
from crag_dspy.state.saving import save_whole

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def saved_k(path: Path) -> int:
    return CRAG(nothing, nothing).load(path).settings.k  # type: ignore[arg-type]


def nothing(query: str, k: int) -> list[str]:
    return []


def test_a_file_appears_whole_and_alone(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.txt", "ü\n\x85")
    assert (tmp_path / "a.txt").read_bytes() == "ü\n\x85".encode()
    assert names(tmp_path) == ["a.txt"]


def test_an_error_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.txt", "old")
    with pytest.raises(UnicodeEncodeError), replacing(tmp_path / "a.txt") as part:
        part.write_text("half \ud83d", encoding="utf-8")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_link_is_replaced_and_what_it_points_to_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "a.txt").symlink_to(tmp_path / "precious")
    write_whole(tmp_path / "a.txt", "new")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "a.txt").is_symlink()
    assert (tmp_path / "a.txt").read_text() == "new"


def test_a_device_stays_a_device() -> None:
    write_whole(os.devnull, "gone")
    assert not os.path.isfile(os.devnull)


def test_others_may_read_what_was_written_as_with_any_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "a")
    (tmp_path / "b").write_text("b")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_threads_that_save_one_file_never_tear_it(tmp_path: Path) -> None:
    """The report: 259 errors and 7,210 torn reads in 1,009 saves."""
    path, stop, reads = tmp_path / "crag.json", threading.Event(), []
    programs = [CRAG(nothing, nothing, k=k) for k in range(1, 9)]  # type: ignore[arg-type]
    programs[0].save(path)

    def read() -> None:
        while not stop.is_set():
            reads.append(saved_k(path))

    reader = threading.Thread(target=read)
    reader.start()
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(program.save, path) for program in programs * 10]:
            done.result()
    stop.set()
    reader.join()
    assert reads
    assert set(reads) <= set(range(1, 9))
    assert names(tmp_path) == ["crag.json"]


@pytest.mark.parametrize("program", [CRAG(nothing, nothing), dspy.Predict("question -> answer" + ", x" * 90)])  # type: ignore[arg-type]
def test_a_full_disk_is_said_as_such_by_save(program: dspy.Module, tmp_path: Path) -> None:
    """DSPy says of it that the program cannot be JSON and proposes a pickle."""
    (tmp_path / "crag.json").write_text("old")
    with no_space_beyond(200), pytest.raises(OSError, match="too large") as caught:
        save_whole(program, tmp_path / "crag.json")
    assert "pkl" not in str(caught.value)
    assert (tmp_path / "crag.json").read_text() == "old"
    assert names(tmp_path) == ["crag.json"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"there is no folder .*missing"):
        CRAG(nothing, nothing).save(tmp_path / "missing" / "crag.json")  # type: ignore[arg-type]


def test_what_a_killed_process_leaves_is_recognised(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom crag_dspy.state.files import replacing\n"
        "with replacing(sys.argv[1]) as part:\n    part.write_text('half')\n    os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.json")], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 1
    assert all(is_leftover(name) for name in names(tmp_path))
    assert not is_leftover("a.json")
