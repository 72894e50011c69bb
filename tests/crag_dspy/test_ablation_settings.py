"""Actions and selection that can be left away by a setting: how the paper takes its method apart (section 5.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy import CRAG, Passage
from crag_dspy.actions import ALLOWED, POLICIES, Action, Thresholds, decide
from crag_dspy.errors import ConfigError
from crag_dspy.settings import Settings

score = st.one_of(st.none(), st.floats(-1, 1))
scores = st.lists(score, max_size=4)
cuts = st.tuples(st.floats(-1, 1), st.floats(-1, 1)).map(lambda pair: Thresholds(max(pair), min(pair)))
policies = st.sampled_from(POLICIES)


@given(scores, cuts, policies)
def test_without_an_action_it_is_never_taken_and_the_others_stand(
    given_scores: list[float | None], thresholds: Thresholds, policy: str
) -> None:
    whole = decide(given_scores, thresholds, policy)
    for action in (Action.CORRECT, Action.INCORRECT):
        without = decide(given_scores, thresholds, policy, f"no_{action.value}")
        assert without is (Action.AMBIGUOUS if whole is action else whole)


@given(scores, cuts, policies)
def test_without_ambiguous_one_cut_in_the_middle_decides(
    given_scores: list[float | None], thresholds: Thresholds, policy: str
) -> None:
    action = decide(given_scores, thresholds, policy, "no_ambiguous")
    middle = (thresholds.upper + thresholds.lower) / 2
    known = [value for value in given_scores if value is not None]
    sure = any(value >= middle for value in known) and (policy == "max" or len(known) == len(given_scores))
    assert action is (Action.CORRECT if sure else Action.INCORRECT)


@given(scores, cuts, policies, st.sampled_from(Action))
def test_one_action_alone_is_always_taken(
    given_scores: list[float | None], thresholds: Thresholds, policy: str, action: Action
) -> None:
    assert decide(given_scores, thresholds, policy, action.value) is action


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(ConfigError, match="allowed must be one of all, no_correct"):
        decide([0.1], Thresholds(), "max", "never")
    with pytest.raises(ConfigError, match="actions must be one of all, no_correct"):
        Settings(actions="never")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="select must be one of both, internal, web, none"):
        Settings(select="all")  # type: ignore[arg-type]


def test_a_file_of_before_these_settings_is_as_it_was() -> None:
    state = Settings(upper=0.2, lower=0.1).dump_state()
    older = {name: value for name, value in state.items() if name not in ("actions", "select")}
    settings = Settings(actions="no_correct", select="none")
    settings.load_state(older)
    assert settings.dump_state() == state


class Grader:
    """The bridge asked for is relevant; everything graded is kept in `graded`."""

    name, fingerprint = "bridges", "1"

    def __init__(self, worth: float) -> None:
        self.worth, self.graded = worth, []

    def __deepcopy__(self, memo: dict[int, Any]) -> Grader:
        return self

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        self.graded += texts
        return [self.worth if "Ardent" in text else -self.worth for text in texts]


INSIDE = Passage("The Ardent Bridge opened in 1931. It is green. Cats sleep.", id="a")
PAGE = {"url": "https://web/1", "content": "The Ardent Bridge is long. Dogs bark."}


def answered(**settings: Any) -> tuple[dspy.Prediction, Grader]:
    grader = Grader(settings.pop("worth", 1.0))
    crag = CRAG([INSIDE], grader, lambda query, max_results: [PAGE], upper=0.5, lower=-0.5, **settings)
    return crag(question="When did the Ardent Bridge open?"), grader


@pytest.mark.parametrize("actions", ALLOWED)
@pytest.mark.parametrize("worth", [1.0, -1.0])
def test_a_program_takes_only_what_is_allowed(actions: str, worth: float, scripted_lm: Any) -> None:
    """Also where the score is at the end of the scale, and thresholds alone could not say so."""
    with dspy.context(lm=scripted_lm({"answer": "1931", "query": "bridge"})):
        prediction, _ = answered(actions=actions, worth=worth)
    whole = Action.CORRECT if worth > 0 else Action.INCORRECT
    expected = {"all": whole, "no_ambiguous": whole, f"no_{whole.value}": Action.AMBIGUOUS}
    assert prediction.action is expected.get(actions, Action(actions) if actions in list(Action) else whole)
    assert not prediction.trace.forced


@pytest.mark.parametrize(
    ("select", "kept"),
    [("both", (1, 0)), ("internal", (1, 2)), ("web", (3, 1)), ("none", (3, 2))],
)
@pytest.mark.parametrize("grade_by", ["passage", "strips"])
def test_selection_can_be_left_away_for_each_source(
    select: str, kept: tuple[int, int], grade_by: str, scripted_lm: Any
) -> None:
    with dspy.context(lm=scripted_lm({"answer": "1931", "query": "bridge"})):
        prediction, grader = answered(
            select=select, actions="ambiguous", top_n=1, strip_threshold=0.0, grade_by=grade_by
        )
    origins = [strip.origin for strip in prediction.evidence]
    assert (origins.count("internal"), origins.count("web")) == kept
    texts = [strip.text.strip() for strip in prediction.evidence if strip.origin == "internal"]
    assert texts == ["The Ardent Bridge opened in 1931.", "It is green.", "Cats sleep."][: kept[0]]
    web_was_graded = any("Dogs" in text for text in grader.graded)
    assert web_was_graded == (select in ("both", "web"))  # what is kept anyway costs no grading


def test_thresholds_are_not_searched_for_a_program_without_an_action(scripted_lm: Any) -> None:
    from crag_dspy.optimize.metrics.answers import contains_word
    from crag_dspy.optimize.thresholds.search import search_thresholds

    lm = scripted_lm({})
    crag = CRAG([INSIDE], Grader(1.0), actions="no_correct")
    devset = [dspy.Example(question="When?", answers=["1931"]).with_inputs("question")]
    with dspy.context(lm=lm), pytest.raises(ConfigError, match=r"settings.actions is 'no_correct'"):
        search_thresholds(crag, devset, contains_word)
    assert lm.requests == []
