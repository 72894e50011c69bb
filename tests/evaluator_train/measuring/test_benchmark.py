"""The benchmark of graders: honest about what was not judged, strict about the contract, complete on disk."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command

from crag_dspy.errors import ConfigError, GraderError
from crag_dspy.evaluator_train.measuring.benchmarking import benchmark, drawn, write_results
from crag_dspy.evaluator_train.pairs.pair_files import Pair, write_pairs
from crag_dspy.graders import adapt
from crag_dspy.state.plain import plain
from crag_dspy.text.matching import words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

PAIRS = [
    Pair("Who built the old tower?", "Smeaton built the tower.", 1),
    Pair("Who built the old tower?", "The bridge is long.", 0),
    Pair("Who built the old tower?", "Nobody lives there.", 0),
    Pair("Where is the reef?", "The reef is off the coast.", 1),
    Pair("Where is the reef?", "Gneiss is hard.", 0),
    Pair("寺庙在哪里？", "寺庙在山上。", 1),
    Pair("寺庙在哪里？", "The tower is old.", 0),
]


class Overlap:
    """Share of the question's words that the text has, on [-1, 1]; cannot judge Chinese."""

    name = "overlap"
    fingerprint = "overlap-1"

    def __init__(self, judge: Callable[[str, Sequence[str]], list[Any]] | None = None) -> None:
        self._judge = judge

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        if self._judge is not None:
            return self._judge(question, texts)
        asked = set(words(question))
        if not question.isascii():
            return [None for _ in texts]
        return [2 * len(asked & set(words(text))) / len(asked) - 1 for text in texts]


class Batched(Overlap):
    """The same, also for pairs of many questions."""

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return [self.score(question, [text])[0] for question, text in pairs]


def test_a_row_by_hand() -> None:
    row = benchmark(Overlap(), PAIRS, file="pairs.jsonl").row
    # Overlaps: 3/5, 1/5, 0 of the first question; 3/4 and 1/4 of the second; the third is not judged.
    assert (row.pairs, row.relevant, row.file, row.grader) == (7, 3, "pairs.jsonl", "overlap")
    assert row.auc == 1
    assert row.average_precision == 1
    assert row.best_accuracy == 1
    assert row.cut == 0
    assert row.accuracy == pytest.approx(5 / 7)
    assert row.unjudged == pytest.approx(2 / 7)
    errors = (abs(1 - 3 / 5), 1 / 5, 0, abs(1 - 3 / 4), 1 / 4)
    assert row.calibration_error == pytest.approx(sum(errors) / 5)
    assert row.pairs_per_second > 0


def test_a_grader_that_batches_gives_the_same_row() -> None:
    one, other = benchmark(Overlap(), PAIRS), benchmark(Batched(), PAIRS)
    assert one.scores == other.scores


def test_a_cut_of_the_graders_own_is_used() -> None:
    strict = Overlap()
    strict.cut = 0.4  # type: ignore[attr-defined]
    row = benchmark(strict, PAIRS).row
    assert row.cut == 0.4
    assert row.accuracy == pytest.approx(4 / 7)


def test_a_question_that_the_grader_fails_on_is_unjudged_and_the_rest_is_measured() -> None:
    def judge(question: str, texts: Sequence[str]) -> list[float | None]:
        if "reef" in question:
            raise GraderError("the language model is down")
        return [0.5] * len(texts)

    row = benchmark(Overlap(judge), PAIRS).row
    assert row.unjudged == pytest.approx(2 / 7)
    assert row.auc == 0.5


def test_when_all_that_was_judged_has_one_label_nothing_is_ranked() -> None:
    def judge(question: str, texts: Sequence[str]) -> list[float | None]:
        return [0.5 if "built" in text else None for text in texts]

    result = benchmark(Overlap(judge), PAIRS)
    assert (result.row.auc, result.row.average_precision, result.row.best_accuracy) == (None, None, None)
    assert result.row.accuracy == pytest.approx(1 / 7)
    json.dumps(plain(result.row), allow_nan=False)


@pytest.mark.parametrize(
    ("judge", "names"),
    [
        (lambda question, texts: [0.1], "gave 1 scores for"),
        (lambda question, texts: [1.5] * len(texts), r"1\.5.*\[-1, 1\]"),
        (lambda question, texts: [float("nan")] * len(texts), "nan"),
        (lambda question, texts: [None] * len(texts), "could judge none of 7 pairs"),
    ],
)
def test_a_grader_that_breaks_its_contract_is_named(judge: Any, names: str) -> None:
    with pytest.raises(GraderError, match=f"grader 'overlap' .*{names}"):
        benchmark(Overlap(judge), PAIRS)


def test_a_set_with_one_label_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"a\.jsonl: holds only label 1"):
        benchmark(Overlap(), [PAIRS[0]], file="a.jsonl")
    with pytest.raises(ConfigError, match="no pairs"):
        benchmark(Overlap(), [])


def test_a_draw_keeps_questions_whole_and_is_repeatable() -> None:
    some = drawn(PAIRS, 3, seed=1)
    assert 3 <= len(some) < len(PAIRS)
    for question in {pair.question for pair in some}:
        assert [pair for pair in some if pair.question == question] == [
            pair for pair in PAIRS if pair.question == question
        ]
    assert drawn(PAIRS, 3, seed=1) == some
    assert drawn(PAIRS, 100) == PAIRS
    with pytest.raises(ConfigError, match="limit"):
        drawn(PAIRS, 0)


def test_the_folder_holds_rows_scores_and_a_page_that_needs_nothing_else(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    results = [benchmark(Overlap(), PAIRS, name=hostile, file="a&b.jsonl"), benchmark(Batched(), PAIRS)]
    write_results(results, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert rows == [plain(result.row) for result in results]
    scores = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert tuple(row["score"] for row in scores[:7]) == results[0].scores
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert hostile not in page
    assert "http" not in page
    body = page[page.index("<body") : page.index("</body>") + len("</body>")]
    figures = ElementTree.fromstring(body).findall(".//svg")
    assert len(figures) == 6  # of each set: ROC, reliability, one histogram


@pytest.fixture
def pair_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(adapt, "as_grader", lambda name: Overlap() if name == "one" else Batched())
    write_pairs(PAIRS, tmp_path / "pairs.jsonl")
    return tmp_path / "pairs.jsonl"


def test_the_command_prints_one_json_line_a_grader_and_file(
    pair_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    arguments = ("--pairs", str(pair_file), "--grader", "one,two", "--grader", "one")
    assert run_command("grader", "benchmark", *arguments, "--json", "--out", str(out)) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["grader"] for row in rows] == ["one", "two"]
    assert [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()] == rows


def test_the_command_prints_a_table_for_a_person(pair_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("grader", "benchmark", "--pairs", str(pair_file), "--grader", "one") == 0
    shown = capsys.readouterr().out
    assert "AUC" in shown
    assert "28.6%" in shown


@pytest.mark.parametrize(
    ("content", "names"), [(None, "no file"), ("q\tt\t1\n", "only label 1"), ("q\tt\tx\n", "label must be")]
)
def test_a_bad_file_is_found_before_any_grader_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, names: str
) -> None:
    def opened(name: str) -> Any:
        raise AssertionError("opened")

    monkeypatch.setattr(adapt, "as_grader", opened)
    if content is not None:
        (tmp_path / "pairs.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=names):
        run_command("grader", "benchmark", "--pairs", str(tmp_path / "pairs.tsv"), "--grader", "one")
