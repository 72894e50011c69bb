"""A run folder: what is written is there, what is torn is dropped, what is stale is refused."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import dspy
import pytest
from full_disk import no_space_beyond

from crag_dspy.errors import ConfigError, StaleOutcomesError
from crag_dspy.optimize.runs.folder import CONFIG, PROGRAM, RESULTS, Run, read_rows, save_results

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = {"prompt generate": "aaa", "settings.k": "10"}


def opened(
    folder: Path | None, identity: dict[str, str] = IDENTITY, kind: str = "evaluate", **options: Any
) -> Run:
    return Run.open(folder, kind, identity, **options)


def test_rows_come_back_in_order_when_it_is_opened_again(tmp_path: Path) -> None:
    with opened(tmp_path / "runs" / "one", seed=3, config={"k": 10}, data={"questions": 2}) as run:
        run.append({"key": "a", "answer": "北京 \u2028 \r\n"})
        run.append({"key": "b", "answer": None})
    with opened(tmp_path / "runs" / "one") as run:
        assert run.rows == [{"key": "a", "answer": "北京 \u2028 \r\n"}, {"key": "b", "answer": None}]
        run.append({"key": "c"})
    assert [row["key"] for row in read_rows(tmp_path / "runs" / "one" / RESULTS)] == ["a", "b", "c"]


def test_a_row_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        run.append({"key": "a"})
        assert read_rows(tmp_path / RESULTS) == [{"key": "a"}]  # the file is still open


def test_the_configuration_says_what_the_run_was(tmp_path: Path) -> None:
    with opened(tmp_path, seed=3, config={"k": 10}, data={"digest": "d"}):
        stored = json.loads((tmp_path / CONFIG).read_text())
    assert stored["kind"] == "evaluate"
    assert stored["seed"] == 3
    assert stored["config"] == {"k": 10}
    assert stored["identity"] == IDENTITY
    assert stored["data"] == {"digest": "d"}
    assert {"python", "dspy", "numpy"} <= set(stored["versions"])


@pytest.mark.parametrize("torn", [b'{"key": "c", "ans', b'{"key": "c"}', b"\x00\x00", b"{"])
def test_a_torn_last_line_is_dropped_and_the_next_one_stands_on_its_own(tmp_path: Path, torn: bytes) -> None:
    with opened(tmp_path) as run:
        run.append({"key": "a"})
        run.append({"key": "b"})
    with (tmp_path / RESULTS).open("ab") as file:
        file.write(torn)
    assert [row["key"] for row in read_rows(tmp_path / RESULTS)] == ["a", "b"]
    with opened(tmp_path) as run:
        assert [row["key"] for row in run.rows] == ["a", "b"]
        run.append({"key": "d"})
    assert [row["key"] for row in read_rows(tmp_path / RESULTS)] == ["a", "b", "d"]


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        run.append({"key": "a"})
    path = tmp_path / RESULTS
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    with pytest.raises(ConfigError, match=r"results.jsonl line 1 is damaged"):
        opened(tmp_path)


def test_what_changed_is_said_and_fresh_begins_again(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        run.append({"key": "a"})
    with pytest.raises(StaleOutcomesError) as refused:
        opened(tmp_path, {"prompt generate": "bbb", "settings.k": "10", "part search": "x"})
    assert "part search (absent -> x); prompt generate (aaa -> bbb)" in str(refused.value)
    assert "settings.k" not in str(refused.value)
    assert "fresh=True" in str(refused.value)
    assert [row["key"] for row in read_rows(tmp_path / RESULTS)] == ["a"]
    with opened(tmp_path, {"prompt generate": "bbb"}, fresh=True) as run:
        assert run.rows == []
    assert read_rows(tmp_path / RESULTS) == []


def test_two_processes_cannot_write_to_one_run(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(ConfigError, match="another process is writing to"):
        opened(tmp_path)
    opened(tmp_path).close()  # free again


def test_a_folder_of_another_kind_or_of_something_else_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "run").close()
    with pytest.raises(ConfigError, match="holds a run of kind 'evaluate', not 'outcomes'"):
        Run.open(tmp_path / "run", "outcomes", IDENTITY)
    other = tmp_path / "other"
    other.mkdir()
    (other / RESULTS).write_text('{"mine": 1}\n')
    with pytest.raises(ConfigError, match="it is not a run; use another folder"):
        opened(other)
    (other / CONFIG).write_text("{}")
    with pytest.raises(ConfigError, match="not the configuration of a run"):
        opened(other)
    assert (other / RESULTS).read_text() == '{"mine": 1}\n'


def test_threads_may_append_at_the_same_time(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        threads = [
            threading.Thread(target=lambda n=n: [run.append({"key": f"{n}-{i}"}) for i in range(20)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {row["key"] for row in read_rows(tmp_path / RESULTS)} == {
        f"{n}-{i}" for n in range(4) for i in range(20)
    }


def test_a_number_that_is_not_one_is_refused_before_it_is_written(tmp_path: Path) -> None:
    with opened(tmp_path) as run, pytest.raises(ValueError, match="not JSON compliant"):
        run.append({"key": "a", "score": float("nan")})
    assert read_rows(tmp_path / RESULTS) == []


def test_a_program_is_saved_whole(tmp_path: Path) -> None:
    with opened(tmp_path):
        save_results(tmp_path, dspy.Predict("question -> answer"))
    loaded = dspy.Predict("question -> answer")
    loaded.load(str(tmp_path / PROGRAM))
    assert sorted(path.name for path in tmp_path.iterdir()) == [CONFIG, PROGRAM, RESULTS]


def test_without_a_folder_nothing_is_written() -> None:
    with opened(None) as run:
        run.append({"key": "a"})
        run.write("metrics.json", {})
        assert run.rows == [{"key": "a"}]


def test_fresh_empties_its_own_kind_only(tmp_path: Path) -> None:
    with opened(tmp_path, kind="outcomes") as run:
        run.append({"key": "paid for"})
    with pytest.raises(
        ConfigError, match=r"holds a run of kind 'outcomes', not 'evaluate'.*use another folder"
    ):
        opened(tmp_path, kind="evaluate", fresh=True)
    assert read_rows(tmp_path / RESULTS) == [{"key": "paid for"}]
    (tmp_path / CONFIG).unlink()
    with pytest.raises(ConfigError, match="it is not a run"):
        opened(tmp_path, kind="outcomes", fresh=True)
    assert read_rows(tmp_path / RESULTS) == [{"key": "paid for"}]


def test_a_process_killed_before_it_wrote_anything_leaves_a_folder_that_can_be_used(tmp_path: Path) -> None:
    (tmp_path / RESULTS).touch()
    (tmp_path / ".config.crag-part.0123456789abcdef.json").write_text("{")
    with opened(tmp_path) as run:
        run.append({"key": "a"})
    with opened(tmp_path) as run:
        assert run.rows == [{"key": "a"}]


@pytest.mark.parametrize("name", [RESULTS, CONFIG])
def test_no_link_is_written_through(tmp_path: Path, name: str) -> None:
    precious, folder = tmp_path / "precious", tmp_path / "run"
    precious.write_text("")
    folder.mkdir()
    (folder / name).symlink_to(precious)
    with suppress(ConfigError), opened(folder) as run:
        run.append({"key": "a"})
    assert precious.read_text() == ""


@pytest.mark.parametrize("identity", [None, [1], {"lm": 3}, "x"])
def test_a_tampered_identity_is_told(tmp_path: Path, identity: Any) -> None:
    opened(tmp_path).close()
    stored = json.loads((tmp_path / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps({**stored, "identity": identity}))
    with pytest.raises(ConfigError, match="identity must be an object of texts"):
        opened(tmp_path)


def test_a_full_disk_costs_the_result_that_does_not_fit_and_no_other(tmp_path: Path) -> None:
    """The line that is cut off does not stay in the file, and is not tried again when the run is closed."""
    with opened(tmp_path) as run:
        run.append({"key": "a", "answer": "x" * 100})
        with (
            no_space_beyond((tmp_path / RESULTS).stat().st_size + 50),
            pytest.raises(OSError, match="too large"),
        ):
            run.append({"key": "b", "answer": "y" * 100})
        run.append({"key": "c"})
        assert [row["key"] for row in run.rows] == ["a", "c"]
    assert [row["key"] for row in read_rows(tmp_path / RESULTS)] == ["a", "c"]


def test_half_a_character_is_written_as_its_escape(tmp_path: Path) -> None:
    with opened(tmp_path) as run:
        run.write("metrics.json", {"warnings": ["half \ud83d é"]})
    assert json.loads((tmp_path / "metrics.json").read_text())["warnings"] == ["half \ud83d é"]
