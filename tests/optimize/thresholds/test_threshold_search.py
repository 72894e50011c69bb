"""Searching a program's thresholds, from the first run to the saved program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import dspy
import pytest

from crag_dspy.actions import Action, Thresholds
from crag_dspy.errors import ConfigError, OutageError
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.metrics.objective import Prices, combine
from crag_dspy.optimize.runs.evaluation import evaluate
from crag_dspy.optimize.thresholds.search import search_thresholds

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def searched(capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any) -> Any:
    """search_thresholds() on the capitals, with the language model it used."""

    def run(program: Any = None, metric: Any = contains_word, **options: Any) -> Any:
        lm = scripted_lm(capitals_script)
        with dspy.context(lm=lm):
            options = {"threads": 1, **options}
            devset = options.pop("devset", capitals_devset)
            return search_thresholds(program or capitals_program(), devset, metric, **options), lm

    return run


def often(devset: list[dspy.Example], times: int) -> list[dspy.Example]:
    """Every question asked in several wordings: enough to tell that thresholds are better."""
    return [
        dspy.Example({**example.toDict(), "question": f"{example.question} ({number})"}).with_inputs(
            "question"
        )
        for example in devset
        for number in range(times)
    ]


def test_it_finds_the_thresholds_and_sets_them_on_a_copy(
    searched: Any, capitals_program: Any, capitals_devset: Any
) -> None:
    program = capitals_program(upper=-0.95, lower=-0.95)
    found, _ = searched(program, devset=often(capitals_devset, 5))
    # France and Italy have the answer inside; all others need the web.
    assert found.best.value == 1
    assert found.best.searches == 4 * 5
    assert found.best.upper == pytest.approx((0.2 + 0.6) / 2)
    assert found.program.settings.thresholds == found.best.thresholds
    assert found.program.settings.grader == "capitals"
    assert found.program.settings.grader_fingerprint == "v1"
    assert program.settings.thresholds == Thresholds(-0.95, -0.95)
    assert found.value_before == pytest.approx(2 / 6)
    assert found.improved
    assert (found.change.better, found.change.worse) == (4 * 5, 0)
    assert "Better beyond noise (+0.6" in str(found)
    assert "p < 0.0001, on questions that did not choose them): the new thresholds are kept." in str(found)
    assert found.always[Action.CORRECT] == pytest.approx(2 / 6)
    assert found.always[Action.INCORRECT] == 1


def test_too_few_questions_change_no_thresholds(searched: Any, capitals_program: Any) -> None:
    """Four of six are better here, which six questions cannot tell from chance; what could be told is said."""
    found, _ = searched(capitals_program(upper=-0.95, lower=-0.95))
    assert found.best.value == 1
    assert not found.improved
    assert found.program.settings.thresholds == found.thresholds == Thresholds(-0.95, -0.95)
    assert found.program.settings.grader_fingerprint == "v1"  # these thresholds were tried on it
    plain = found.to_json()
    assert (plain["improved"], plain["change"]["improved"]) == (False, False)
    assert plain["kept"] == {"upper": -0.95, "lower": -0.95, "evidence_threshold": -1.0, "policy": "max"}
    assert "Not better beyond noise (" in plain["verdict"]
    assert "6 questions find a difference of " in plain["verdict"]
    assert "as if no two were of one document" in str(found)


def test_on_a_tie_the_old_thresholds_stay_and_correction_is_not_switched_off(
    searched: Any, capitals_program: Any
) -> None:
    found, _ = searched(capitals_program(upper=0.31, lower=-0.77), metric=lambda example, pred: 1.0)
    assert found.best.thresholds == found.program.settings.thresholds == Thresholds(0.31, -0.77)
    assert found.best.upper_range == (0.2, 0.6)
    assert found.best.lower_range == (-1.0, 0.31)
    assert "No thresholds are better on these questions: the old ones are kept." in str(found)


def test_documents_are_what_is_resampled_and_folded(
    searched: Any, capitals_program: Any, capitals_devset: Any
) -> None:
    questions = [
        dspy.Example({**example.toDict(), "document": f"atlas {number % 10}"}).with_inputs("question")
        for number, example in enumerate(often(capitals_devset, 10))
    ]
    program = capitals_program(upper=-0.95, lower=-0.95)
    found, _ = searched(program, devset=questions)
    assert found.cross_validated.estimate.groups == found.change.groups == 10
    assert "intervals are over the 10 documents of 60 questions" in str(found)
    by_question, _ = searched(program, devset=questions, by="question")
    assert by_question.change.groups == 60


def test_the_tuned_program_scores_what_the_search_promised(
    searched: Any, capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any
) -> None:
    metric = combine(contains_word, Prices(search=0.3))
    capitals_devset = often(capitals_devset, 5)
    found, _ = searched(capitals_program(upper=-0.95, lower=-0.95), metric=metric, devset=capitals_devset)
    with dspy.context(lm=scripted_lm(capitals_script)):
        measured = evaluate(found.program, capitals_devset, metric, threads=1)
    assert measured.score == pytest.approx(found.best.value)
    assert measured.cost.searches == found.best.searches


def test_a_higher_price_searches_less(searched: Any, tmp_path: Path) -> None:
    cheap, _ = searched(run=tmp_path)
    dear, lm = searched(run=tmp_path, prices=Prices(search=1.5))
    assert not lm.requests
    assert dear.best.searches == 0
    assert dear.quality == pytest.approx(2 / 6)
    assert cheap.frontier[-1].value >= dear.frontier[-1].value  # each at its own cut of the evidence


def test_runs_are_counted_beside_what_a_grid_would_have_taken(searched: Any, tmp_path: Path) -> None:
    found, lm = searched(run=tmp_path)
    assert found.outcomes.runs == 18
    assert found.outcomes.lm_calls == len(lm.requests)
    assert found.grid_runs == 50 * 50 * 6
    told = str(found)
    assert "runs of the program: 18 for 6 questions (18 now)" in told
    assert "a 50 x 50 grid would have taken 15000 runs" in told
    assert "contains_word 1.000 on the 6 questions that chose them, the best of all thresholds" in told
    assert "cross-validated" in told
    again, lm = searched(run=tmp_path, policy="vote")
    assert again.outcomes.runs_now == len(lm.requests) == 0
    assert again.best.policy == "vote"
    assert again.program.settings.policy == "max"  # nothing was better than what there was


def test_another_policy_is_taken_up_with_its_thresholds_where_they_are_better(
    searched: Any, capitals_program: Any, capitals_devset: Any
) -> None:
    program = capitals_program(upper=-0.95, lower=-0.95)
    found, _ = searched(program, devset=often(capitals_devset, 5), policy="vote")
    assert found.improved
    assert found.program.settings.policy == "vote"
    assert found.program.settings.thresholds == found.best.thresholds


def test_the_run_folder_has_the_program_and_the_summary(
    searched: Any, capitals_program: Any, tmp_path: Path
) -> None:
    found, _ = searched(run=tmp_path, config={"note": "x"})
    summary = json.loads((tmp_path / "metrics.json").read_text())
    assert summary == json.loads(json.dumps(found.to_json()))
    assert summary["runs"] == 18
    assert summary["frontier"][0]["searches"] == 0
    loaded = capitals_program()
    loaded.load(str(tmp_path / "program.json"))
    assert loaded.settings.thresholds == found.thresholds


def test_an_outage_changes_no_thresholds(searched: Any, capitals_program: Any, capitals_devset: Any) -> None:
    """A web that is down for some questions makes "never search" look better: that is no reason to stop searching."""

    def shaky(query: str, max_results: int) -> list[str]:
        if "(0)" in query:
            return ["The capital is a secret."]
        raise TimeoutError("no answer")

    program = capitals_program(upper=0.95, lower=0.95, search=shaky)
    found, _ = searched(program, devset=often(capitals_devset, 5), stop_after=None)
    assert found.failures > 0
    assert found.change.improved  # as it would have been called
    assert not found.improved
    assert found.program.settings.thresholds == Thresholds(0.95, 0.95)
    assert "runs failed, so nothing is judged yet: the old thresholds are kept" in found.verdict


def test_what_makes_outcomes_doubtful_is_said(searched: Any, capitals_program: Any) -> None:
    def down(query: str, max_results: int) -> list[Any]:
        raise TimeoutError("no answer")

    with pytest.raises(
        OutageError, match=r"5 questions with the action (ambiguous|incorrect) in a row failed"
    ):
        searched(capitals_program(search=down))
    found, _ = searched(capitals_program(search=down), stop_after=None)
    assert found.failures == found.to_json()["failures"] == 12
    assert "12 runs failed and count as failures; they are tried again the next time" in found.warnings
    assert "12 runs failed by web search: TimeoutError: no answer" in found.warnings
    assert "failed 12," in str(found)
    assert "warning: 12 runs failed by web search" in str(found)


def test_costs_that_the_cache_hid_are_said_where_they_are_priced(
    capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any
) -> None:
    """What another search asked before seems free to this one; what two actions share is counted for both."""
    lm = scripted_lm(capitals_script, cache=True)
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    try:
        with dspy.context(lm=lm):
            program, metric = capitals_program(), combine(contains_word, Prices(kilotoken=0.1))
            first = search_thresholds(program, capitals_devset, metric, threads=1)
            priced = search_thresholds(program, capitals_devset, metric, threads=1)
            plain = search_thresholds(program, capitals_devset, contains_word, threads=1)
    finally:
        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    assert (first.outcomes.cached, first.outcomes.lm_calls) == (0, 6 * (1 + 3))
    assert (priced.outcomes.cached, priced.outcomes.lm_calls) == (6 * (1 + 2 + 2), 0)
    assert plain.outcomes.cached == 6 * (1 + 2 + 2)
    assert "cache" not in " ".join(first.warnings)
    assert f"{priced.outcomes.cached} LM replies came from DSPy's cache" in " ".join(priced.warnings)
    assert "cache" not in " ".join(plain.warnings)  # nothing of it has a price there


def test_one_question_has_no_cross_validation_but_an_answer(searched: Any, capitals_devset: Any) -> None:
    found, _ = searched(devset=capitals_devset[:1])
    assert found.cross_validated is None
    assert found.to_json()["cross_validated"] is None


def test_a_program_without_settings_is_refused_before_any_run(searched: Any) -> None:
    with pytest.raises(ConfigError, match="Predict has 0 `Settings`"):
        searched(dspy.Predict("question -> answer"))
    with pytest.raises(ConfigError, match="policy must be one of max, vote, got 'mean'"):
        searched(policy="mean")


def test_arguments_of_the_wrong_kind_are_named_before_any_run(
    searched: Any, capitals_devset: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"pass metrics\.contains_word, not its name"):
        searched(metric="contains_word")
    with pytest.raises(ConfigError, match=r"devset must be a list of examples, got list_iterator"):
        searched(devset=iter(capitals_devset))
    with pytest.raises(ConfigError, match="threads must be a whole number, at least 1"):
        searched(threads=0)
    (tmp_path / "taken").touch()
    with pytest.raises(ConfigError, match="taken cannot be the folder of a run: File exists"):
        searched(run=tmp_path / "taken")
