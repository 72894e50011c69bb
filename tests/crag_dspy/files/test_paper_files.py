"""The paper's own data: read row by row, or refused with the reason. Made-up rows in its format, and the real ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from paper_refinement import refined_beside

from crag_dspy.errors import ConfigError
from crag_dspy.files.paper import KINDS, TASKS, paper_data, passages_of_row, read_paper
from crag_dspy.optimize.questions.datasets import load

NAMES = ["Ada Quill", "Bo Norr", "Cy Ternwood"]
PLACES = ["Norrby", "Ostfall", "Quelmouth"]


def write(folder: Path, name: str, rows: list[str], end: str = "\n") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes("".join(row + end for row in rows).encode())


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    """Three questions a task; Biography's passages are one on the person and one that is not."""
    for task in TASKS:
        home = tmp_path / "crag-paper" / task
        about = [f"{name} // {name} was born in {place}." for name, place in zip(NAMES, PLACES, strict=True)]
        asked = "Who is {}?" if task == "biography" else "Where was {} born?"
        write(home, "questions.txt", [asked.format(name) for name in NAMES])
        write(home, "ref_correct.txt", [f"#{text}" for text in about], "\r\n" if task == "popqa" else "\n")
        write(home, "ref_incorrect.txt", [f"#{name}: A page on {name}.\rMore; it goes on" for name in NAMES])
        write(home, "ref_ambiguous.txt", [f"Knowledge1: {text} [sep] Knowledge2: A page." for text in about])
        if task == "arc_challenge":
            write(home, "choices.txt", ["A: Norrby; B: Ostfall"] * 3)
        if task == "biography":
            other = "Cats // Cats sleep when the day is warm. They purr."
            retrieved = [
                f"{text} {name.split()[0]} built a mill.[sep]{other}"
                for text, name in zip(about, NAMES, strict=True)
            ]
            write(home, "retrieved_passages.txt", retrieved)
    return tmp_path


class Grader:
    name, fingerprint = "words", "words-1"

    def score(self, question: str, texts: list[str]) -> list[float | None]:
        return [0.9 if "born" in text else -1.0 for text in texts]


def test_rows_stand_beside_their_questions(paper: Path) -> None:
    for task in TASKS:
        rows = read_paper(task, paper)
        assert [row.references["correct"].split(" // ")[0] for row in rows] == NAMES
        assert all(set(row.references) == set(KINDS) for row in rows)
        assert [row.topic in row.question for row in rows] == [True] * 3
    assert read_paper("arc_challenge", paper)[0].choices == "A: Norrby; B: Ostfall"
    biography = read_paper("biography", paper, ["correct"])[1]
    assert (biography.topic, [p.title for p in biography.passages]) == ("Bo Norr", ["Bo Norr", "Cats"])
    assert list(biography.references) == ["correct"]


def test_a_carriage_return_inside_a_row_parts_nothing(paper: Path) -> None:
    assert read_paper("pubhealth", paper)[2].references["incorrect"].endswith("More; it goes on")


def test_the_shifted_file_is_refused_with_what_is_wrong(paper: Path) -> None:
    home = paper / "crag-paper" / "arc_challenge"
    write(home, "ref_incorrect.txt", ["", *(f"#{name} was born somewhere." for name in NAMES)])
    with pytest.raises(ConfigError) as refused:
        read_paper("arc_challenge", paper)
    message = str(refused.value)
    assert message.startswith("arc_challenge/ref_incorrect.txt has 4 rows for 3 questions: row 1 is empty")
    assert "each row belongs to the question before" in message
    assert "Delete row 1" in message
    assert len(read_paper("arc_challenge", paper, ["correct", "ambiguous"])) == 3


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (["#Ada Quill", "#Bo Norr"], "rows are missing"),
        (["#Ada", "Quill", "#Bo Norr", "#Cy Ternwood"], "a row was broken in two"),
        (["#Ada", "", "#Bo", "#Cy", "#Dee"], r"row 2 is empty"),
    ],
)
def test_other_mismatches_are_refused_too(paper: Path, rows: list[str], why: str) -> None:
    write(paper / "crag-paper" / "popqa", "ref_correct.txt", rows)
    with pytest.raises(ConfigError, match=why):
        read_paper("popqa", paper)


def test_a_folder_of_examples_is_not_joined_past_an_empty_row(paper: Path) -> None:
    """The loader of examples too: dropping the empty row would give each question another's passages."""
    home = paper / "crag-paper" / "biography"
    assert [e["passages"][0]["title"] for e in load(home, labelled=False)] == NAMES
    rows = (home / "retrieved_passages.txt").read_text().splitlines()
    write(home, "retrieved_passages.txt", ["", *rows])
    with pytest.raises(ConfigError, match="has 4 rows for 3 questions"):
        load(home, labelled=False)


def test_the_folder_is_found_by_argument_or_environment(paper: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paper_data(paper) == paper_data(paper / "crag-paper") == paper / "crag-paper"
    monkeypatch.setenv("CRAG_DATASETS", str(paper))
    assert paper_data() == paper / "crag-paper"
    monkeypatch.delenv("CRAG_DATASETS")
    with pytest.raises(ConfigError, match="set CRAG_DATASETS"):
        paper_data()
    with pytest.raises(ConfigError, match="has no folder of popqa"):
        paper_data(paper / "crag-paper" / "popqa")


@pytest.mark.parametrize(("task", "kinds", "named"), [("squad", KINDS, "task"), ("popqa", ["right"], "kind")])
def test_unknown_names_are_refused(paper: Path, task: str, kinds: list[str], named: str) -> None:
    with pytest.raises(ConfigError, match=f"{named} must be one of"):
        read_paper(task, paper, kinds)


def test_passages_of_a_row() -> None:
    found = passages_of_row("A // one [sep] two [sep]  [sep] B // three // four")
    assert [(p.title, p.text) for p in found] == [("A", "one"), ("", "two"), ("B", "three // four")]


def test_both_refinements_are_measured_on_the_same_passages(paper: Path) -> None:
    """Retrieved: 6 or 7 words of birth, 4 of a mill and 8 of cats; both refinements keep the birth alone."""
    rows = read_paper("biography", paper, ["correct"])
    found = refined_beside(rows, Grader())
    birth = 6  # Ada Quill was born in Norrby
    assert found.theirs.words == birth
    assert found.theirs.share.mean == pytest.approx(birth / found.retrieved_words)
    assert found.ours is not None
    assert found.overlap is not None
    assert (found.ours.words, found.ours.named, found.ours.empty) == (birth, 1.0, 0)
    assert found.overlap.mean == 1.0
    alone = refined_beside(rows)
    assert (alone.ours, alone.overlap, alone.theirs) == (None, None, found.theirs)
    with pytest.raises(ConfigError, match="rows must be of biography"):
        refined_beside(read_paper("popqa", paper))


def test_a_file_that_does_not_fit_is_refused_and_the_others_are_read(paper: Path) -> None:
    write(paper / "crag-paper" / "pubhealth", "ref_correct.txt", ["#one"])
    with pytest.raises(ConfigError, match=r"pubhealth/ref_correct\.txt has 1 rows for 3 questions"):
        read_paper("pubhealth", paper, ["correct"])
    assert len(read_paper("pubhealth", paper, ["ambiguous"])) == 3


@pytest.mark.slow
def test_the_shipped_grader_refines_beside_the_paper(paper: Path) -> None:
    found = refined_beside(read_paper("biography", paper, ["correct"])[:2], "mini")
    assert found.questions == 2
    assert found.ours is not None
    assert found.ours.empty < 2


# The data itself, where there is a copy


@pytest.fixture
def real() -> Path:
    if not os.environ.get("CRAG_DATASETS"):
        pytest.skip("CRAG_DATASETS does not name a copy of the paper's data")
    return paper_data()


@pytest.mark.datasets
def test_the_published_files(real: Path) -> None:
    counts: dict[str, Any] = {}
    for task in TASKS:
        kinds = KINDS if task != "arc_challenge" else ["correct", "ambiguous"]
        counts[task] = len(read_paper(task, real, kinds))
    assert counts == {"popqa": 1399, "pubhealth": 987, "arc_challenge": 1172, "biography": 500}
    assert {len(row.passages) for row in read_paper("biography", real, ["correct"])} == {10}
    with pytest.raises(ConfigError, match="1173 rows for 1172 questions: row 1 is empty") as refused:
        read_paper("arc_challenge", real)
    assert "27% of their question's words" in str(refused.value)


@pytest.mark.slow
@pytest.mark.datasets
def test_the_papers_compression_of_biography(real: Path) -> None:
    found = refined_beside(read_paper("biography", real, ["correct"]))
    assert (found.questions, found.theirs.empty) == (500, 0)
    assert 0.1 < found.theirs.share.mean < 0.6
    assert found.theirs.named <= found.retrieved_named


@pytest.mark.slow
@pytest.mark.datasets
def test_our_refinement_of_biography_beside_the_papers(real: Path) -> None:
    """On the first 50 questions: ours keeps less, and the name that is asked for stays in it."""
    found = refined_beside(read_paper("biography", real, ["correct"])[:50], "mini")
    assert found.ours is not None
    assert found.overlap is not None
    assert 0 < found.ours.share.mean < 1
    assert found.ours.empty < 5
    assert found.overlap.mean > 0.1
