"""Outcomes: at most three runs a question, shared, resumed, and refused when they no longer hold."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import dspy
import pytest

from crag_dspy.actions import Action
from crag_dspy.errors import ConfigError, StaleOutcomesError
from crag_dspy.optimize.metrics.answers import contains_word, token_f1
from crag_dspy.optimize.metrics.objective import Prices, combine
from crag_dspy.optimize.thresholds.outcomes import collect_outcomes

if TYPE_CHECKING:
    from pathlib import Path

COUNTRIES = ["France", "Italy", "Spain", "Peru", "Cuba", "Chad"]


@pytest.fixture
def collected(capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any) -> Any:
    """collect_outcomes() on the capitals, with the language model it used."""

    def run(program: Any = None, metric: Any = contains_word, script: Any = None, **options: Any) -> Any:
        lm = scripted_lm(script or capitals_script, **options.pop("lm", {}))
        with dspy.context(lm=lm):
            options = {"threads": 1, **options}
            devset = options.pop("devset", capitals_devset)
            return collect_outcomes(program or capitals_program(), devset, metric, **options), lm

    return run


def test_every_action_is_run_once(collected: Any) -> None:
    outcomes, _ = collected()
    assert outcomes.runs == outcomes.runs_now == 18
    assert outcomes.scores == [[0.9], [0.6], [-0.3], [-0.8], [0.2], [-0.9]]
    worth = dict(zip(COUNTRIES, outcomes.qualities(), strict=True))
    assert worth["France"] == {Action.CORRECT: 1, Action.AMBIGUOUS: 1, Action.INCORRECT: 1}
    assert worth["Peru"] == {Action.CORRECT: 0, Action.AMBIGUOUS: 1, Action.INCORRECT: 1}


def test_what_the_actions_of_a_question_share_is_done_once(collected: Any, capitals_program: Any) -> None:
    program, count = capitals_program(), {"retrieve": 0, "grade": 0, "search": 0}
    parts = program.corrective
    retrieve, score, search = parts.retrieve.part, parts.grade.part.score, parts.search.part

    def retrieving(query: str, k: int) -> Any:
        count["retrieve"] += 1
        return retrieve(query, k)

    def grading(question: str, texts: Any) -> Any:
        count["grade"] += 1
        return score(question, texts)

    def searching(query: str, max_results: int) -> Any:
        count["search"] += 1
        return search(query, max_results)

    counted = capitals_program(retrieve=retrieving, search=searching, grader=grading)
    outcomes, lm = collected(counted)
    assert outcomes.runs == 18
    # Of each question: its passage, the page, and of the former its one strip, which has another title.
    assert count["retrieve"] == count["search"] == 6
    assert count["grade"] <= 6 * 3
    assert [request.fields for request in lm.requests].count(("query",)) == 6
    assert (
        len(lm.requests) == outcomes.lm_calls == 6 * (1 + 3)
    )  # a rewrite, and three answers from other evidence
    assert len({request.text for request in lm.requests}) == len(lm.requests)


def test_an_action_costs_what_it_would_alone(
    collected: Any, capitals_program: Any, capitals_devset: Any
) -> None:
    def slow(query: str, max_results: int) -> list[Any]:
        until = time.perf_counter() + 0.05
        while time.perf_counter() < until:
            pass
        return [{"id": "web", "text": f"{query} It is a city."}]

    outcomes, _ = collected(capitals_program(search=slow))
    for actions in outcomes.rows:
        lm_calls = {action: row["cost"]["lm_calls"] for action, row in actions.items()}
        assert lm_calls == {Action.CORRECT: 1, Action.AMBIGUOUS: 2, Action.INCORRECT: 2}
        assert actions[Action.AMBIGUOUS]["shared"] + actions[Action.INCORRECT]["shared"] == 1  # the rewrite
        for action in (Action.AMBIGUOUS, Action.INCORRECT):
            assert actions[action]["cost"]["seconds"] >= 0.05
        tokens = {action: row["cost"]["tokens"] for action, row in actions.items()}
        assert tokens[Action.INCORRECT] > tokens[Action.CORRECT]


def test_an_outcome_does_not_depend_on_where_the_thresholds_stand(
    collected: Any, capitals_program: Any
) -> None:
    one, _ = collected()
    other, _ = collected(capitals_program(upper=1.0, lower=0.99, policy="vote"))
    assert one.qualities() == other.qualities()
    assert one.identity == other.identity


def test_later_searches_share_them(collected: Any, capitals_program: Any, tmp_path: Path) -> None:
    first, _ = collected(run=tmp_path)
    again, lm = collected(capitals_program(upper=0.1, policy="vote"), run=tmp_path)
    assert again.runs_now == 0
    assert not lm.requests
    assert again.rows == first.rows


def test_only_actions_that_can_be_reached_are_run(collected: Any, capitals_program: Any) -> None:
    nothing, _ = collected(capitals_program(retrieve=lambda query: []))
    assert [set(actions) for actions in nothing.rows] == [{Action.INCORRECT}] * 6
    assert nothing.runs == 6

    def unsure(question: str, texts: Any) -> list[float | None]:
        return [None] * len(texts)

    unknown, _ = collected(capitals_program(grader=unsure))
    assert [set(actions) for actions in unknown.rows] == [{Action.AMBIGUOUS}] * 6


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"top_n": 2}, r"settings.top_n \(5 -> 2\)"),
        ({"grader": lambda question, texts: [0.0] * len(texts)}, r"part grade.part|grade.part \(capitals@v1"),
        ({"retrieve": ["Another index."]}, r"retrieve.part"),
        ({"search": None}, r"search"),
    ],
)
def test_what_changed_is_named(
    collected: Any, capitals_program: Any, tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    collected(run=tmp_path)
    with pytest.raises(StaleOutcomesError, match=said):
        collected(capitals_program(**settings), run=tmp_path)


def test_another_prompt_model_or_metric_makes_them_stale(
    collected: Any, capitals_program: Any, tmp_path: Path
) -> None:
    collected(run=tmp_path)
    program = capitals_program()
    program.generate.demos = [dspy.Example(context="c", question="q", answer="a")]
    with pytest.raises(StaleOutcomesError, match=r"because this changed: prompt generate \("):
        collected(program, run=tmp_path)
    with pytest.raises(StaleOutcomesError, match=r"lm generate"):
        collected(run=tmp_path, lm={"temperature": 0.7})
    with pytest.raises(StaleOutcomesError, match=r"metric contains_word .* metric token_f1"):
        collected(metric=token_f1, run=tmp_path)


def test_prices_are_applied_to_stored_outcomes(collected: Any, tmp_path: Path) -> None:
    plain, _ = collected(metric=combine(contains_word), run=tmp_path)
    priced, lm = collected(metric=combine(contains_word, Prices(search=0.1)), run=tmp_path)
    assert not lm.requests  # another price does not need another run
    assert priced.qualities() == plain.qualities()
    values = priced.values(Prices(search=0.1))
    assert values[0] == {Action.CORRECT: 1.0, Action.AMBIGUOUS: 0.9, Action.INCORRECT: 0.9}


def test_a_failed_run_scores_the_failure_score_and_is_tried_again(
    collected: Any, capitals_program: Any, tmp_path: Path
) -> None:
    def fails_on_peru(example: Any, pred: Any, trace: Any = None) -> float:
        if "Peru" in example.question and state["broken"]:
            raise RuntimeError("down")
        return 1.0

    state = {"broken": True}
    outcomes, _ = collected(metric=fails_on_peru, run=tmp_path)
    assert outcomes.runs == 18
    assert set(outcomes.qualities()[3].values()) == {0.0}
    assert len(outcomes.failures()) == 3
    state["broken"] = False
    outcomes, _ = collected(metric=fails_on_peru, run=tmp_path)
    assert outcomes.runs_now == 3
    assert set(outcomes.qualities()[3].values()) == {1.0}


def test_a_program_that_always_fails_on_a_question_still_has_an_outcome(
    collected: Any, capitals_program: Any, tmp_path: Path
) -> None:
    program = capitals_program()
    ask, state = type(program).forward, {"broken": True}

    class Fragile(type(program)):  # type: ignore[misc]
        def forward(self, question: str, action: Any = None) -> Any:
            if "Peru" in question and state["broken"]:
                raise ValueError("cannot")
            return ask(self, question, action)

    program.__class__ = Fragile
    outcomes, _ = collected(program, run=tmp_path)
    assert outcomes.scores[3] == [None]
    assert outcomes.qualities()[3] == {Action.AMBIGUOUS: 0.0}
    state["broken"] = False
    outcomes, _ = collected(program, run=tmp_path)
    assert outcomes.scores[3] == [-0.8]
    assert set(outcomes.qualities()[3]) == set(Action)


def test_a_search_that_fails_is_counted(collected: Any, capitals_program: Any) -> None:
    def down(query: str, max_results: int) -> list[Any]:
        raise TimeoutError("no answer")

    outcomes, _ = collected(capitals_program(search=down), stop_after=None)
    assert outcomes.warnings() == {"web search failed: TimeoutError: no answer": 12}
    assert [row["error"] for row in outcomes.failures()] == ["web search: TimeoutError: no answer"] * 12
    assert {row["quality"] for row in outcomes.failures()} == {0.0}  # not what the action would be worth


def test_traces_are_kept_for_the_report_unless_told_not_to(collected: Any, tmp_path: Path) -> None:
    kept, _ = collected()
    assert kept.rows[0][Action.CORRECT]["trace"]["passages"][0]["id"] == "France"
    assert json.loads(json.dumps(kept.rows[0])) == kept.rows[0]
    bare, _ = collected(traces=False)
    assert bare.rows[0][Action.CORRECT]["trace"] is None


def test_threads_give_the_same_outcomes(collected: Any) -> None:
    assert collected(threads=4)[0].qualities() == collected(threads=1)[0].qualities()


def test_a_program_that_cannot_be_forced_is_refused(collected: Any) -> None:
    with pytest.raises(ConfigError, match=r"Predict.forward must take action=, as CRAG does"):
        collected(dspy.Predict("question -> answer"))

    class Plain(dspy.Module):
        def forward(self, question: str, action: Any = None) -> dspy.Prediction:
            return dspy.Prediction(answer="x")

    with pytest.raises(ConfigError, match=r"no trace.scores"):
        collected(Plain())
