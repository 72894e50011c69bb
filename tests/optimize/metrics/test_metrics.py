"""Each metric, on its own: what is right, what is wrong, and what the feedback says about why."""

from __future__ import annotations

from typing import Any

import dspy
import numpy as np
import pytest

from crag_dspy.actions import Action, Thresholds
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics import answers as metrics
from crag_dspy.optimize.metrics.objective import Prices, combine
from crag_dspy.optimize.metrics.score import Score
from crag_dspy.passages import Passage, Strip
from crag_dspy.text.replies import abstention_for as sentence
from crag_dspy.trace import Trace

EVERY_METRIC = [
    metrics.contains,
    metrics.contains_word,
    metrics.exact_match,
    metrics.token_f1,
    metrics.claim_accuracy,
    metrics.grounded,
    metrics.abstention,
]


def example(**fields: Any) -> dspy.Example:
    return dspy.Example(question="Where was she born?", **fields).with_inputs("question")


def strip(text: str, origin: Any = "internal") -> Strip:
    return Strip(text, 0, len(text), 0.5, Passage(text), origin)


def prediction(answer: str, **fields: Any) -> dspy.Prediction:
    return dspy.Prediction(answer=answer, **fields)


def test_art_is_in_party_only_for_the_metric_that_says_substring() -> None:
    gold, pred = example(answers=["art"]), prediction("a party")
    assert metrics.contains(gold, pred) == 1
    assert metrics.contains_word(gold, pred) == 0
    assert metrics.exact_match(gold, pred) == 0
    assert metrics.token_f1(gold, pred) == 0


@pytest.mark.parametrize(
    ("metric", "answers", "answer", "score"),
    [
        (metrics.contains, ["Paris"], "She was born in Paris.", 1),
        (metrics.contains, ["paris"], "She was born in Paris.", 0),  # letter for letter, as in the paper
        (metrics.contains, ["", "Rome"], "She was born in Paris.", 0),  # an empty alias is in every string
        (metrics.contains_word, ["paris"], "She was born in Paris.", 1),
        (metrics.contains_word, ["NYC", "New York"], "in new-york!", 1),
        (metrics.contains_word, ["1,000"], "about 1000 people", 1),
        (metrics.contains_word, ["北京"], "她出生在北京市。", 1),
        (metrics.contains_word, ["no"], "There is no such bridge", 1),
        (metrics.contains_word, ["no"], "There is no answer", 0),
        (metrics.contains_word, ["no"], sentence("x"), 0),
        (metrics.contains_word, ["unknown"], "Unknown", 1),  # a refusal, unless it is the gold answer itself
        (metrics.exact_match, ["The Beatles"], "beatles", 1),
        (metrics.exact_match, ["巴黎"], "巴黎【1】", 1),
        (metrics.exact_match, ["Paris"], "<think>Rome? No.</think>Paris [1]", 1),
        (metrics.exact_match, ["Paris"], "Paris [[ ## completed ## ]]", 1),
        (metrics.exact_match, ["3.5"], "35", 0),
        (metrics.exact_match, ["$15 million"], "$1.5 million", 0),
        (metrics.contains_word, ["3.5"], "35", 0),
        (metrics.contains_word, ["C"], "C++", 0),
        (metrics.contains_word, ["$15 million"], "It cost $1.5 million.", 0),
        (metrics.token_f1, ["3.5"], "35", 0),
        (metrics.token_f1, ["C"], "C++", 0),
        (metrics.token_f1, ["$15 million"], "$1.5 million", 0.5),  # the million
        (metrics.exact_match, ["北京"], "「北京」", 1),
        (metrics.exact_match, ["Paris"], "Paris, France", 0),
        (metrics.exact_match, ["?"], "!", 0),
        (metrics.token_f1, ["the cat sat"], "a cat sat down", 0.8),
        (metrics.token_f1, ["北京大学", "x"], "北京", 2 / 3),
        (metrics.claim_accuracy, ["true"], "The claim is correct.", 1),
        (metrics.claim_accuracy, ["SUPPORTS"], "Yes.", 1),
        (metrics.claim_accuracy, ["false"], "It is not true.", 1),
        (metrics.claim_accuracy, ["false"], "true or false", 0),
        (metrics.claim_accuracy, [False], "No", 1),
        (metrics.claim_accuracy, ["mixture"], "It is a mixture of both.", 1),
        (metrics.claim_accuracy, ["mixture"], "true", 0),
    ],
)
def test_scores(metric: Any, answers: list[Any], answer: str, score: float) -> None:
    result = metric(example(answers=answers), prediction(answer))
    assert float(result) == pytest.approx(score)
    assert bool(result) == (score == 1)
    assert isinstance(result.feedback, str)
    assert result.feedback


@pytest.mark.parametrize(
    "metric", [m for m in EVERY_METRIC if m not in (metrics.claim_accuracy, metrics.grounded)]
)
def test_where_there_is_no_answer_the_right_thing_is_to_say_so(metric: Any) -> None:
    assert metric(example(answers=[]), prediction(sentence("x"))) == 1
    assert metric(example(answers=[]), prediction("Paris")) == 0


def test_declining_where_there_is_an_answer_is_wrong() -> None:
    gold = example(answers=["Paris"])
    assert metrics.abstention(gold, prediction("I don't know.")) == 0
    assert metrics.abstention(gold, prediction("Rome")) == 1  # it answered; whether rightly others say
    assert "Paris" in metrics.abstention(gold, prediction("")).feedback


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("C", 1),
        ("(C) days become shorter", 1),
        ("Planetary days will become shorter.", 1),
        ("B", 0),
        ("B or C", 0),
    ],
)
@pytest.mark.parametrize("gold", ["C", "Planetary days will become shorter."])
def test_choice_accuracy_reads_labels_and_texts(answer: str, score: float, gold: str) -> None:
    choices = {"B": "Planetary years will become longer.", "C": "Planetary days will become shorter."}
    result = metrics.choice_accuracy(example(answers=[gold], choices=choices), prediction(answer))
    assert result == score
    assert score == 1 or "C (Planetary days will become shorter.)" in result.feedback


def test_choice_accuracy_needs_choices_and_a_gold_among_them() -> None:
    with pytest.raises(ConfigError, match=r"needs `choices`, got only question, answers"):
        metrics.choice_accuracy(example(answers=["A"]), prediction("A"))
    with pytest.raises(ConfigError, match="the gold answer 'D' is none of the choices 'A', 'B'"):
        metrics.choice_accuracy(example(answers=["D"], choices=["x", "y"]), prediction("A"))


def test_grounded_is_the_share_of_content_words_in_the_evidence() -> None:
    evidence = [strip("Marie Curie was born in Warsaw."), strip("她出生在华沙。", "web")]
    gold = example(answers=["Warsaw"])

    def score(answer: str, **fields: Any) -> float:
        return float(metrics.grounded(gold, prediction(answer, evidence=evidence, **fields)))

    assert score("Warsaw") == 1
    assert score("She was born in Warsaw.") == 1
    assert score("Warsaw, Krakow") == 0.5
    assert score("华沙") == 1
    assert score("沙华") == 0  # the same characters, not the same word
    assert score("yes") == 1  # nothing but a verdict on what the evidence says
    assert score("I don't know.") == 1
    assert metrics.grounded(gold, prediction("Warsaw", evidence=[])) == 0
    assert metrics.grounded(gold, prediction("yes", evidence=[])) == 0
    missing = metrics.grounded(gold, prediction("Krakow", evidence=evidence))
    assert "'krakow'" in missing.feedback


def test_grounded_reads_a_choice_as_its_text() -> None:
    gold = example(answers=["A"], choices={"A": "Warsaw", "B": "Krakow"})
    evidence = [strip("She was born in Warsaw.")]
    assert metrics.grounded(gold, prediction("A", evidence=evidence)) == 1
    assert metrics.grounded(gold, prediction("B", evidence=evidence)) == 0


def traced(*passages: Passage) -> Trace:
    return Trace("Where was she born?", Thresholds(), "max", passages=list(passages))


@pytest.mark.parametrize(
    ("action", "score"), [(Action.CORRECT, 1), (Action.AMBIGUOUS, 0.5), (Action.INCORRECT, 0), ("correct", 1)]
)
@pytest.mark.parametrize(
    "fields", [{"relevant_ids": ["p2"]}, {"answers": ["Warsaw"]}, {"relevant_ids": ["p2"], "answers": ["x"]}]
)
def test_action_accuracy_looks_for_a_relevant_passage(
    action: Any, score: float, fields: dict[str, Any]
) -> None:
    trace = traced(Passage("Nothing here.", id="p1"), Passage("Born in Warsaw.", id="p2"))
    assert metrics.action_accuracy(example(**fields), prediction("x", action=action, trace=trace)) == score


def test_action_accuracy_without_a_relevant_passage_and_with_a_label() -> None:
    trace = traced(Passage("Nothing here.", id="p1"))
    gold = example(relevant_ids=["p2"])
    assert metrics.action_accuracy(gold, prediction("x", action="incorrect", trace=trace)) == 1
    told = metrics.action_accuracy(gold, prediction("x", action="correct", trace=trace))
    assert told == 0
    assert "INCORRECT is right: no passage is relevant" in told.feedback
    labelled = example(action="ambiguous", relevant_ids=["p2"])
    assert metrics.action_accuracy(labelled, prediction("x", action="ambiguous")) == 1
    assert metrics.action_accuracy(labelled, prediction("x", action="correct")) == 0
    assert metrics.action_accuracy(gold, prediction("x")) == 0


class TestFeedbackNamesTheStepThatLostTheAnswer:
    gold = example(answers=["Warsaw"])

    def told(self, pred_name: str | None = None, **fields: Any) -> str:
        pred = prediction("Krakow", **fields)
        return str(metrics.contains_word(self.gold, pred, None, pred_name, None).feedback)

    def test_it_was_in_the_evidence(self) -> None:
        told = self.told(action="ambiguous", evidence=[strip("She was born in Warsaw.", "web")])
        assert "does not contain 'Warsaw'" in told
        assert "The action was AMBIGUOUS." in told
        assert "It is in the web evidence" in told

    def test_it_was_retrieved_but_dropped(self) -> None:
        trace = traced(Passage("Born in Warsaw."))
        assert "refinement dropped it" in self.told(action="correct", evidence=[strip("x")], trace=trace)
        assert "judged INCORRECT and dropped" in self.told(action="incorrect", evidence=[], trace=trace)

    def test_it_was_never_found(self) -> None:
        trace = traced(Passage("Nothing."))
        told = self.told(
            action="incorrect", evidence=[strip("x", "web")], trace=trace, queries=["curie birth"]
        )
        assert "No retrieved passage has it." in told
        assert "The web search for 'curie birth' did not bring it either." in told
        rewriter = self.told(
            "corrective.rewrite", action="incorrect", evidence=[], trace=trace, queries=["a"]
        )
        assert "Write keywords" in rewriter

    def test_warnings_are_passed_on(self) -> None:
        assert "Warnings: 'the web search failed'." in self.told(warnings=["the web search failed"])


class TestAnyProgramCanBeMeasured:
    @pytest.mark.parametrize("metric", EVERY_METRIC)
    @pytest.mark.parametrize("pred", [None, dspy.Prediction(), dspy.Prediction(answer=None)])
    def test_a_program_that_failed_has_a_score(self, metric: Any, pred: Any) -> None:
        score = metric(example(answers=["Paris"]), pred)
        assert score == (1 if metric is metrics.grounded else 0)

    def test_a_baseline_without_action_or_strips(self) -> None:
        pred = prediction("Warsaw", context=["She was born in Warsaw."])
        assert metrics.grounded(example(answers=["Warsaw"]), pred) == 1
        assert metrics.contains_word(example(answer="Warsaw"), pred) == 1

    def test_an_example_without_a_gold_answer_is_a_mistake_in_the_data(self) -> None:
        with pytest.raises(ConfigError, match=r"needs `answers` .* got only question"):
            metrics.exact_match(example(), prediction("x"))


class TestCombine:
    gold = example(answers=["Warsaw"])
    right = prediction("Warsaw", evidence=[strip("Born in Warsaw.")], action="incorrect")
    half = prediction("Krakow", evidence=[strip("Born in Krakow.")], action="correct")

    def test_is_the_weighted_mean(self) -> None:
        metric = combine({metrics.contains_word: 3, metrics.grounded: 1})
        assert metric(self.gold, self.right) == 1
        score = metric(self.gold, self.half)
        assert score == 0.25
        assert score.objective_scores == {"contains_word": 0.0, "grounded": 1.0}
        assert score.feedback.startswith("contains_word 0.00: 'Krakow' does not contain 'Warsaw'.")
        assert metric.__name__ == "contains_word+grounded"

    def test_prices_are_taken_off_but_do_not_make_a_right_answer_wrong(self) -> None:
        metric = combine([metrics.contains_word, metrics.grounded], Prices(search=0.1))
        score = metric(self.gold, self.right)
        assert float(score) == pytest.approx(0.9)
        assert score.quality == 1
        assert bool(score)
        assert "It cost 0.100 (1 web searches" in score.feedback
        assert metric(self.gold, self.half) == 0.5
        assert not metric(self.gold, self.half)

    def test_tokens_and_seconds_come_from_the_trace(self) -> None:
        trace = traced()
        trace.seconds = {"retrieve": 1.0, "generate": 1.0}
        trace.lm_tokens = {"prompt_tokens": 900, "completion_tokens": 100}
        pred = prediction("Warsaw", action="correct", trace=trace)
        metric = combine(metrics.contains_word, Prices(kilotoken=0.2, second=0.1))
        assert float(metric(self.gold, pred)) == pytest.approx(1 - 0.2 - 0.2)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: combine([]), "at least one metric"),
            (lambda: combine({metrics.contains: 0}), "weight of contains must be a positive number, got 0"),
            (lambda: combine(["contains"]), "a metric must be callable, got 'contains'"),
            (lambda: Prices(search=-1), "price of a search must be a number, at least 0, got -1"),
            (lambda: Prices(second=float("nan")), "price of a second"),
        ],
    )
    def test_bad_arguments_are_named(self, call: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            call()


class TestScore:
    def test_only_full_marks_are_true(self) -> None:
        # A plain prediction with score 0 is true: bootstrapping would take the wrong answer as a demo.
        assert bool(dspy.Prediction(score=0.0))
        assert [bool(Score(score=s, feedback="")) for s in (0.0, 0.5, 1.0)] == [False, False, True]

    def test_it_is_a_number_wherever_optimizers_want_one(self) -> None:
        low, high = Score(score=0.25, feedback="a"), Score(score=0.75, feedback="b")
        assert sum([low, high]) == 1.0
        assert max([low, high]).feedback == "b"
        assert 0.5 * low + 2 * high == 1.625
        assert high - low == low + low == 0.5
        assert 1 - low == high
        assert np.mean([low, high]) == 0.5
        assert np.percentile([low, high], 50) == 0.5
        assert low != high
        assert low == 0.25
        assert low == Score(score=0.25, feedback="a")
        assert low != Score(score=0.25, feedback="b")
        assert len({low, high, Score(score=0.25, feedback="a")}) == 2
