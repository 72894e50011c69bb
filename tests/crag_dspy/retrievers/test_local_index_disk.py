"""An index on a disk that is full, shared by processes that make it at once, or left behind by one that was killed."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from crag_dspy.commands import cli
from crag_dspy.errors import ConfigError
from crag_dspy.retrievers import LocalIndex, passage_table
from crag_dspy.retrievers import local as local_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


COMMAND = [sys.executable, "-m", "crag_dspy.commands.cli", "index"]


def long_documents(count: int) -> list[dict[str, str]]:
    """Of one passage each, which nothing can compress."""
    chance = random.Random(0)
    return [
        {"id": f"d{n}", "text": " ".join(f"{chance.random()}" for _ in range(150)), "title": "beacon"}
        for n in range(count)
    ]


def test_threads_that_build_one_index_at_once_all_write_to_it(tmp_path: Path) -> None:
    def build(number: int) -> None:
        LocalIndex.build(
            tmp_path / "index", [{"id": f"d{number}", "text": f"Document {number}."}], embedder=None
        )

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(build, range(6)))
    assert LocalIndex.open(tmp_path / "index").documents() == {f"d{number}" for number in range(6)}


@pytest.mark.slow
def test_processes_that_build_one_index_at_once_all_write_to_it(tmp_path: Path) -> None:
    """The report: 6 of 10 rounds died."""
    for number in range(2):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"id": "d{number}", "text": "Document {number}."}}\n')
    for round_ in range(4):
        target = tmp_path / f"index{round_}"
        made = [
            subprocess.Popen(
                [*COMMAND, f"{tmp_path}/{number}.jsonl", "--out", str(target), "--embedder", "none"],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
            )
            for number in range(2)
        ]
        errors = [process.communicate(timeout=120)[1] for process in made]
        assert [process.returncode for process in made] == [0, 0], errors
        assert LocalIndex.open(target).documents() == {"d0", "d1"}


def test_what_a_killed_creation_leaves_does_not_stop_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    LocalIndex.create(folder, embedder=None)
    (folder / "index.json").rename(folder / "index.json.4711")  # as earlier versions left it
    (folder / ".index.crag-part.0123456789abcdef.json").write_text("{")
    index = LocalIndex.build(folder, ["A beacon."], embedder=None)
    assert [passage.text for passage in index("beacon")] == ["A beacon."]


def test_a_folder_of_something_else_is_still_refused(tmp_path: Path) -> None:
    (tmp_path / "index.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty, and not an index"):
        LocalIndex.build(tmp_path, ["A beacon."], embedder=None)


def test_the_record_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "index.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError):
        LocalIndex.create(tmp_path / "index", embedder=None)
    assert not (tmp_path / "nowhere").exists()


def test_a_fresh_index_keeps_few_old_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 documents: 220 versions and 759 files before, 8 and 54 now, where those of the last seconds are kept."""
    monkeypatch.setattr(local_module, "BATCH", 1)
    monkeypatch.setattr(passage_table, "KEEP_FRESH", timedelta(0))
    index = LocalIndex.build(
        tmp_path / "index", [{"id": f"d{n}", "text": f"word{n}"} for n in range(50)], embedder=None
    )
    import lancedb

    assert len(index) == 50
    assert len(lancedb.connect(tmp_path / "index").open_table("passages").list_versions()) < 10


# A full disk


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_module, "BATCH", 5)


def test_the_command_says_it_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report: a traceback of 31 lines."""

    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError(
            "lance error: LanceError(IO): No space left on device (os error 28), /src/writer.rs:258:9"
        )

    LocalIndex.build(tmp_path / "index", long_documents(5), embedder=None)
    (tmp_path / "docs.jsonl").write_text(json.dumps({"id": "more", "text": "more"}))
    monkeypatch.setattr("lancedb.table.LanceTable.add", full)
    assert cli.main(["index", str(tmp_path / "docs.jsonl"), "--out", str(tmp_path / "index")]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("crag-dspy:")]
    assert said == [f"crag-dspy: [Errno 28] No space left on device: '{tmp_path / 'index'}'"]
    assert len(LocalIndex.open(tmp_path / "index")) == 5


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of three megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True
    )
    if not made or made.returncode:
        pytest.skip("needs a mount: run as root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.usefixtures("small_batches")
def test_a_disk_that_is_really_full(tiny_disk: Path) -> None:
    index = LocalIndex.create(tiny_disk / "index", embedder=None)
    with pytest.raises(OSError, match="No space left") as caught:
        index.add(long_documents(2000))
    assert caught.value.errno == errno.ENOSPC
    count = len(LocalIndex.open(tiny_disk / "index").documents())
    assert count % 5 == 0  # whole batches
    assert len(index("beacon", 2000)) == len(list(index.passages())) == count > 0
    with pytest.raises(OSError, match="No space left"), (tiny_disk / "rest").open("wb") as rest:
        fill(rest)
    with pytest.raises(OSError, match="No space left"):
        LocalIndex.create(tiny_disk / "another", embedder=None)


def fill(file: Any) -> None:
    while True:
        file.write(os.urandom(4096))
