"""Evaluating: the same scores as dspy.Evaluate, kept, resumed, and never ended by one question."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import dspy
import pytest

from crag_dspy.errors import ConfigError, StaleOutcomesError
from crag_dspy.optimize.metrics.answers import choice_accuracy, contains_word, grounded, token_f1
from crag_dspy.optimize.runs.evaluation import evaluate

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def asked(capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any) -> Any:
    """evaluate() on the capitals, with the language model it used."""

    def run(metrics: Any = contains_word, program: Any = None, script: Any = None, **options: Any) -> Any:
        lm = scripted_lm(script or capitals_script)
        with dspy.context(lm=lm):
            options = {"threads": 1, **options}
            found = evaluate(
                program or capitals_program(), options.pop("devset", capitals_devset), metrics, **options
            )
        return found, lm

    return run


def test_it_gives_the_scores_of_dspy_evaluate(
    asked: Any, capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any
) -> None:
    found, _ = asked(threads=3)
    with dspy.context(lm=scripted_lm(capitals_script)):
        theirs = dspy.Evaluate(devset=capitals_devset, metric=contains_word, num_threads=1)(
            capitals_program()
        )
    assert found.scores() == [float(score) for _, _, score in theirs.results]
    assert found.score * 100 == pytest.approx(theirs.score, abs=0.01)
    assert found.interval().low <= found.score <= found.interval().high


def test_rows_say_what_happened(asked: Any) -> None:
    found, lm = asked({"right": contains_word, "supported": grounded}, traces=True)
    assert [row["action"] for row in found.rows] == [
        "correct",
        "correct",
        "ambiguous",
        "incorrect",
        "ambiguous",
        "incorrect",
    ]
    row = found.rows[3]
    assert row["question"] == "What is the capital of Peru?"
    assert row["answer"] == "Lima"
    assert row["scores"] == {"right": 1.0, "supported": 1.0}
    assert row["cost"]["searches"] == 1
    assert row["cost"]["lm_calls"] == 2  # rewrite and generate
    assert row["trace"]["queries"] == ["What is the capital of Peru?"]
    assert found.cost.lm_calls == len(lm.requests)
    summary = found.to_json()
    assert summary["actions"] == {"correct": 2, "ambiguous": 2, "incorrect": 2}
    assert summary["metrics"]["right"]["mean"] == 1.0


def test_a_second_evaluation_asks_nothing_again(asked: Any, tmp_path: Path) -> None:
    first, lm = asked(run=tmp_path)
    assert first.answered_now == 6
    assert lm.requests
    again, lm = asked(run=tmp_path)
    assert again.answered_now == 0
    assert not lm.requests
    assert again.rows == first.rows
    assert json.loads((tmp_path / "metrics.json").read_text())["questions"] == 6


def test_only_new_questions_are_asked(asked: Any, capitals_devset: Any, tmp_path: Path) -> None:
    asked(run=tmp_path, devset=capitals_devset[:4])
    found, _ = asked(run=tmp_path)
    assert found.answered_now == 2
    assert [row["question"] for row in found.rows] == [example.question for example in capitals_devset]
    relabelled = [capitals_devset[0].copy(answers=["Lyon"]).with_inputs("question"), *capitals_devset[1:]]
    found, _ = asked(run=tmp_path, devset=relabelled)
    assert found.answered_now == 1
    assert found.rows[0]["scores"]["contains_word"] == 0


def test_a_repeated_question_is_asked_once_and_counts_twice(asked: Any, capitals_devset: Any) -> None:
    found, lm = asked(devset=[capitals_devset[0]] * 3)
    assert len(found.rows) == 3
    assert len(lm.requests) == 1


def test_another_program_may_not_use_the_results(asked: Any, capitals_program: Any, tmp_path: Path) -> None:
    asked(run=tmp_path)
    with pytest.raises(StaleOutcomesError, match=r"settings.upper \(0.5 -> 0.7\)"):
        asked(run=tmp_path, program=capitals_program(upper=0.7))
    with pytest.raises(StaleOutcomesError, match="metric token_f1"):
        asked(token_f1, run=tmp_path)
    found, _ = asked(token_f1, run=tmp_path, fresh=True)
    assert found.answered_now == 6


def test_one_question_never_ends_the_batch_and_is_asked_again(asked: Any, tmp_path: Path) -> None:
    def broken(example: Any, pred: Any, trace: Any = None) -> float:
        if "Peru" in example.question:
            raise RuntimeError("no opinion on Peru")
        return float("nan") if "Chad" in example.question else 1.0

    found, _ = asked(broken, run=tmp_path, failure_score=0.25)
    assert found.scores() == [1, 1, 1, 0.25, 1, 0.25]
    assert [row["error"] for row in found.failures] == [
        "broken failed: RuntimeError: no opinion on Peru",
        "broken gave nan",
    ]
    assert found.to_json()["failures"] == 2
    again, _ = asked(broken, run=tmp_path, failure_score=0.25)
    assert again.answered_now == 2


def test_a_program_that_raises_gets_the_failure_score(asked: Any) -> None:
    class Broken(dspy.Module):
        def forward(self, question: str) -> dspy.Prediction:
            if "Peru" in question:
                raise ValueError("cannot")
            return dspy.Prediction(answer="Paris")

    found, _ = asked([contains_word, token_f1], program=Broken())
    assert found.scores() == [1, 0, 0, 0, 0, 0]
    assert found.failures[0]["error"] == "ValueError: cannot"
    assert found.failures[0]["feedback"]["contains_word"] == "The program failed: ValueError: cannot"


def test_an_interruption_keeps_what_is_done(asked: Any, capitals_script: Any, tmp_path: Path) -> None:
    replies = iter([None, None, KeyboardInterrupt()])

    def answer(request: Any) -> str:
        error = next(replies, None)
        if error is not None:
            raise error
        return str(capitals_script["answer"](request))

    with pytest.raises(KeyboardInterrupt):
        asked(run=tmp_path, script={**capitals_script, "answer": answer})
    found, _ = asked(run=tmp_path)
    assert found.answered_now == 4
    assert found.score == 1


def test_before_and_after_are_compared_in_pairs(
    asked: Any, capitals_devset: Any, capitals_program: Any
) -> None:
    careless, _ = asked(program=capitals_program(upper=-1.0, lower=-1.0))
    careful, _ = asked()
    change = careful.compared_with(careless)
    assert (change.better, change.worse, change.equal) == (4, 0, 2)
    assert change.difference == pytest.approx(4 / 6)
    other, _ = asked(devset=capitals_devset[:3])
    with pytest.raises(ConfigError, match="the same questions, got 3 before and 6 after"):
        careful.compared_with(other)
    with pytest.raises(ConfigError, match="no metric 'accuracy' in this evaluation: use contains_word"):
        careful.scores("accuracy")


def test_bad_data_is_found_before_any_question_is_asked(asked: Any, capitals_devset: Any) -> None:
    def none_asked(**options: Any) -> Any:
        def refuse(request: Any) -> str:
            raise AssertionError("a question was asked")

        return asked(script={"answer": refuse, "query": refuse}, **options)

    unlabelled = [*capitals_devset, dspy.Example(question="Where?").with_inputs("question")]
    with pytest.raises(ConfigError, match=r"devset\[6\]: an example needs `answers`"):
        none_asked(devset=unlabelled)
    with pytest.raises(ConfigError, match=r"devset\[0\]: an example needs `choices`"):
        none_asked(metrics=choice_accuracy)
    with pytest.raises(ConfigError, match=r"devset\[0\] has no inputs"):
        none_asked(devset=[dspy.Example(question="Where?", answers=[])])
    with pytest.raises(ConfigError, match="devset is empty"):
        none_asked(devset=[])
    with pytest.raises(ConfigError, match="metrics is empty"):
        none_asked(metrics=[])
    with pytest.raises(ConfigError, match="two metrics have one name"):
        none_asked(metrics=[contains_word, contains_word])
    with pytest.raises(ConfigError, match="metric 'x' must be callable, got 3"):
        none_asked(metrics={"x": 3})


def test_progress_goes_to_stderr_and_nothing_to_stdout(
    asked: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "evaluate" in captured.err
