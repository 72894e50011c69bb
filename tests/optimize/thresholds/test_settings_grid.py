"""A grid over two settings: every cell is what an evaluation of that program gives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import dspy
import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.metrics.objective import Prices
from crag_dspy.optimize.runs.evaluation import evaluate
from crag_dspy.optimize.thresholds.settings_grid import grid

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def gridded(capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any) -> Any:
    def run(axes: dict[str, Any], **options: Any) -> Any:
        lm = scripted_lm(capitals_script)
        with dspy.context(lm=lm):
            program = capitals_program(evidence_threshold=-1.0)
            found = grid(program, capitals_devset, contains_word, axes, threads=1, **options)
        return found, lm

    return run


def test_thresholds_are_read_off_one_set_of_outcomes(
    gridded: Any, capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any
) -> None:
    found, _ = gridded({"upper": [-0.85, 0.0, 0.7], "lower": [-0.9, 0.1]})
    assert found.runs == 18
    assert found.cells[0][1] is None  # lower above upper
    for i, upper in enumerate(found.rows):
        for j, lower in enumerate(found.columns):
            if lower > upper:
                continue
            with dspy.context(lm=scripted_lm(capitals_script)):
                measured = evaluate(
                    capitals_program(upper=upper, lower=lower, evidence_threshold=-1.0),
                    capitals_devset,
                    contains_word,
                    threads=1,
                )
            assert found.cells[i][j].value == pytest.approx(measured.score)
            assert found.cells[i][j].searches == measured.cost.searches


def test_settings_that_change_answers_are_run_each(gridded: Any, tmp_path: Path) -> None:
    # A strip threshold above a country's score leaves no evidence of it.
    found, _ = gridded({"strip_threshold": [-1.0, 0.8], "top_n": [1, 3]}, run=tmp_path)
    assert found.runs == found.runs_now == 4 * 18
    assert found.cells[0][0].value == 1
    assert found.cells[1][0].value == pytest.approx(1 / 6)
    assert found.best == (-1.0, 1)  # of equal ones the first
    assert found.candidate.settings.strip_threshold == -1.0
    assert sorted(path.name for path in tmp_path.iterdir())[0] == "strip_threshold=-1.0,top_n=1"
    wider, _ = gridded({"strip_threshold": [-1.0, 0.8], "top_n": [1, 3, 5]}, run=tmp_path)
    assert wider.runs_now == 2 * 18
    assert wider.cells[0][:2] == found.cells[0]


def test_a_setting_and_a_threshold_share_the_runs_of_the_setting(gridded: Any) -> None:
    found, _ = gridded({"top_n": [1, 3], "upper": [0.0, 0.4, 0.7]})
    assert found.runs == 2 * 18
    assert found.cells[0][1].thresholds.upper == 0.4


def test_each_cell_gets_its_own_thresholds_unless_told_not_to(gridded: Any) -> None:
    axes = {"top_n": [1], "strip_size": [1, 2]}
    tuned, _ = gridded(axes, prices=Prices(search=2.0))
    assert tuned.cells[0][0].searches == 0
    kept, _ = gridded(axes, prices=Prices(search=2.0), tune=False)
    assert kept.cells[0][0].searches == 4
    assert kept.cells[0][0].thresholds.upper == 0.5


def test_the_choice_is_cross_validated_and_the_grader_remembered(gridded: Any, capitals_devset: Any) -> None:
    found, _ = gridded({"strip_threshold": [-1.0, 0.8], "top_n": [1, 5]})
    cell = found.cells[0][1]
    assert cell.quality.low < cell.value == 1.0
    assert found.cross_validated.mean == 1.0
    assert found.change.equal == 6  # -1.0 and 5 are the program's own
    settings = found.program.settings
    assert (settings.grader, settings.grader_fingerprint) == ("capitals", "v1")
    plain = json.loads(json.dumps(found.to_json()))
    assert (plain["grader"], plain["grader_fingerprint"]) == ("capitals", "v1")
    assert plain["cells"][0][0]["low"] == cell.quality.low
    assert plain["change"]["improved"] is False
    told = str(found)
    assert "cross-validated 1.000 [" in told
    assert "The best cell is not better beyond noise (+0.000 [" in told
    assert "6 questions find a difference of " in told
    assert "the old settings are kept." in told
    assert "as if no two were of one document" in told
    elsewhere, _ = gridded({"strip_threshold": [-0.9, 0.8], "top_n": [1, 3]})
    assert elsewhere.change is None
    assert "own settings are no cell" in elsewhere.verdict
    assert elsewhere.program.settings.top_n == 5
    assert elsewhere.candidate.settings.top_n == 1


def test_what_is_kept_is_the_old_unless_the_best_cell_is_better_on_other_questions(
    capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any
) -> None:
    axes = {"strip_threshold": [-1.0, 0.8], "top_n": [1, 5]}
    many = [example.copy(number=n).with_inputs("question") for n in range(4) for example in capitals_devset]

    def run(own: float, devset: Any) -> Any:
        with dspy.context(lm=scripted_lm(capitals_script)):
            program = capitals_program(strip_threshold=own)
            return grid(program, devset, contains_word, axes, threads=1, by=lambda example: id(example))

    better = run(0.8, many)  # its own cell is right in one of six, the best in all
    assert (better.improved, better.program.settings.strip_threshold) == (True, -1.0)
    assert "better beyond noise" in better.verdict
    few = run(0.8, capitals_devset[:2])  # the best of two questions may be luck
    assert few.best[0] == few.candidate.settings.strip_threshold == -1.0
    assert (few.improved, few.program.settings.strip_threshold) == (False, 0.8)


def test_thresholds_on_an_axis_are_compared_with_the_programs_own(gridded: Any) -> None:
    found, _ = gridded({"upper": [-0.85, 0.9], "lower": [-0.9]})
    assert found.change is not None  # the same runs say what the program's own thresholds are worth
    assert found.program.settings.upper == 0.5


def test_of_equal_cells_the_programs_own_is_best(gridded: Any) -> None:
    found, _ = gridded({"top_n": [1, 3, 5], "strip_size": [2, 1]})
    assert found.best == (5, 1)


def test_bad_axes_are_named_before_any_run(gridded: Any) -> None:
    with pytest.raises(ConfigError, match="a grid has two axes, got top_n"):
        gridded({"top_n": [1]})
    with pytest.raises(ConfigError, match="axis top_n has no values"):
        gridded({"top_n": [], "k": [1]})
    with pytest.raises(ConfigError, match="unknown setting 'top_m': did you mean 'top_n'"):
        gridded({"top_m": [1], "k": [1]})
    with pytest.raises(ConfigError, match="k must be a whole number, at least 1, got 0"):
        gridded({"top_n": [1], "k": [1, 0]})
    with pytest.raises(ConfigError, match="in every cell lower is above upper"):
        gridded({"upper": [-0.5], "lower": [0.5]})
