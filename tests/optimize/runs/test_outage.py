"""An outage in an evaluation: counted as what it is, stopped soon, and gone without a trace when it is over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy import RAG, NoRetrieval
from crag_dspy.errors import BudgetSpentError, OutageError, SearchQuotaError
from crag_dspy.optimize.comparison.comparing import compare
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.metrics.same import SameAnswer
from crag_dspy.optimize.prompts.compiling import compile_program
from crag_dspy.optimize.runs.cap import Cap, capped
from crag_dspy.optimize.runs.evaluation import evaluate
from crag_dspy.optimize.runs.failing import InARow, failure_in
from crag_dspy.optimize.runs.folder import read_rows
from crag_dspy.optimize.thresholds.outcomes import collect_outcomes

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = dspy.Example(question="What is the capital of Atlantis?", answers=[]).with_inputs("question")


def kept(folder: Path) -> list[dict[str, Any]]:
    """What a run says of its questions, without the seconds they took; of several rows of a question the last."""
    rows = {(row["key"], row.get("runs"), row["action"]): row for row in read_rows(folder / "results.jsonl")}
    for row in rows.values():
        row["cost"].pop("seconds")
        (row["trace"] or {}).pop("seconds", None)
    return list(rows.values())


def test_a_closed_port_and_then_the_same_run_with_the_port_open(
    capitals_program: Any, capitals_devset: Any, model_server: Any, tmp_path: Path
) -> None:
    """Nothing of the outage is left: not a number, not a row, not a warning."""
    crag = capitals_program()
    systems = {"none": NoRetrieval(), "RAG": RAG(crag.corrective.retrieve.part, k=1), "CRAG": crag}
    asked = [*capitals_devset, NOWHERE]

    def run(folder: str, **options: Any) -> Any:
        return compare(
            systems, asked, contains_word, run=tmp_path / folder, threads=1, progress=False, **options
        )

    with dspy.context(lm=model_server.lm()):
        outage = run("outage", stop_after=None)
        for system in outage.systems:
            assert (system.quality.mean, system.coverage.mean, system.failures) == (0, 0, 7)
            # No rate of answers that were never given: not "0% hallucinated", not "100% declined, and rightly".
            assert (system.hallucination, system.abstained, system.declined_rightly) == (None, None, None)
        assert "failed: none 7, RAG 7, CRAG 7; these questions count as not right" in str(outage)
        assert json.loads((tmp_path / "outage/crag/metrics.json").read_text())["failures"] == 7

        model_server.open()
        after, never = run("outage"), run("never")
    for late, first in zip(after.systems, never.systems, strict=True):
        late, first = late.to_json(), first.to_json()
        assert late.pop("seconds") > 0 < first.pop("seconds")
        assert late == first
    assert after.systems[2].failures == 0
    assert "failed:" not in str(after)
    for name in ("none", "rag", "crag"):
        assert sorted(map(str, kept(tmp_path / "outage" / name))) == sorted(
            map(str, kept(tmp_path / "never" / name))
        )
        summary = json.loads((tmp_path / "outage" / name / "metrics.json").read_text())
        assert (summary["failures"], summary["causes"], summary["warnings"]) == (0, {}, {})


def test_thresholds_on_a_closed_port_and_then_on_the_open_one(
    capitals_program: Any, capitals_devset: Any, model_server: Any, tmp_path: Path
) -> None:
    with dspy.context(lm=model_server.lm()):
        outage = collect_outcomes(
            capitals_program(), capitals_devset, contains_word, run=tmp_path / "a", threads=1, stop_after=None
        )
        assert len(outage.failures()) == outage.runs == 18
        assert outage.qualities() == [dict.fromkeys(each, 0.0) for each in outage.rows]
        model_server.open()
        after, never = (
            collect_outcomes(
                capitals_program(), capitals_devset, contains_word, run=tmp_path / folder, threads=1
            )
            for folder in ("a", "b")
        )
    assert (after.failures(), after.warnings(), after.runs_now) == ([], {}, 18)
    assert after.qualities() == never.qualities()
    assert after.scores == never.scores


def test_compiling_on_a_closed_port_and_then_on_the_open_one(
    capitals_program: Any, capitals_devset: Any, model_server: Any, tmp_path: Path
) -> None:
    asked = [*capitals_devset, NOWHERE]
    learned = [example.copy(question=f"{example.question} Say it.") for example in capitals_devset]

    def run(folder: str) -> Any:
        options = {"predictors": ["generate"], "heldout": asked, "run": tmp_path / folder, "threads": 1}
        return compile_program(capitals_program(), learned, contains_word, optimizer="bootstrap", **options)

    with dspy.context(lm=model_server.lm()):
        with pytest.raises(OutageError, match="5 questions in a row failed"):
            run("outage")
        assert not (tmp_path / "outage" / "candidate.json").exists()
        assert not (tmp_path / "outage" / "program.json").exists()
        model_server.open()
        after, never = run("outage"), run("never")
    assert after.failures == never.failures == dict.fromkeys(after.failures, 0)
    assert (after.before, after.after, after.change) == (never.before, never.after, never.change)
    for name in ("before", "after"):
        assert sorted(map(str, kept(tmp_path / "outage" / name))) == sorted(
            map(str, kept(tmp_path / "never" / name))
        )


def test_a_judge_that_is_down_is_a_failure_of_the_question_and_asked_again(
    capitals_program: Any,
    capitals_devset: Any,
    capitals_script: Any,
    model_server: Any,
    scripted_lm: Any,
    tmp_path: Path,
) -> None:
    """The program answered; what is missing is the judge's word, and no score is made up for it."""
    judge = SameAnswer(model_server.lm(), tmp_path / "verdicts.jsonl")
    model_server.reply = lambda messages: "[[ ## verdict ## ]]\nYes.\n\n[[ ## completed ## ]]"
    wordy = {**capitals_script, "answer": "That one, of course."}  # rules do not know

    def run(**options: Any) -> Any:
        with dspy.context(lm=scripted_lm(wordy)):
            return evaluate(
                capitals_program(), capitals_devset, judge, run=tmp_path / "run", threads=1, **options
            )

    with pytest.raises(OutageError, match="5 questions in a row failed"):
        run()
    assert len(run(stop_after=None).failures) == 6
    model_server.open()
    found = run()
    assert (found.failures, found.score) == ([], 1.0)


def test_a_grader_that_is_down_fails_the_questions(
    capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any, tmp_path: Path
) -> None:
    class Down:
        name, fingerprint = "down", "down-1"

        def score(self, question: str, texts: Any) -> Any:
            raise ConnectionError("the grader's server is down")

    program = capitals_program()
    program.corrective.grade.part, working = Down(), program.corrective.grade.part
    with dspy.context(lm=scripted_lm(capitals_script)):
        with pytest.raises(OutageError, match="the grader's server is down"):
            evaluate(program, capitals_devset, contains_word, threads=1)
        found = evaluate(program, capitals_devset, contains_word, threads=1, stop_after=None)
        assert len(found.failures) == 6
        program.corrective.grade.part = working
        assert evaluate(program, capitals_devset, contains_word, threads=1).failures == []


def test_several_failures_in_a_row_end_the_evaluation_and_keep_what_was_before(
    capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any, tmp_path: Path
) -> None:
    devset = [*capitals_devset, *(example.copy(hint="again") for example in capitals_devset)]
    answers = (
        [capitals_script["answer"]] * 2 + [ConnectionError("unplugged")] * 5 + [AssertionError("asked on")]
    )

    def answer(request: Any) -> str:
        reply = answers.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return str(reply(request))

    def run(script: Any) -> Any:
        with dspy.context(lm=scripted_lm({**capitals_script, "answer": script})):
            return evaluate(capitals_program(), devset, contains_word, run=tmp_path, threads=1)

    with pytest.raises(OutageError) as stopped:
        run(answer)
    assert len(answers) == 1
    for part in ("5 questions in a row failed", "unplugged", str(tmp_path), "--stop-after 0"):
        assert part in str(stopped.value)
    found = run(capitals_script["answer"])
    assert found.answered_now == 10
    assert found.failures == []


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 6))
def test_it_stops_at_the_first_failure_that_makes_the_row_complete(failed: list[bool], limit: int) -> None:
    complete = next(
        (n for n in range(len(failed)) if n + 1 >= limit and all(failed[n + 1 - limit : n + 1])), None
    )
    counting = InARow(limit, None)
    for number, lost in enumerate(failed):
        row = {"error": "down" if lost else None, "action": None}
        if number == complete:
            with pytest.raises(OutageError, match=f"{limit} questions in a row failed, the last by down"):
                counting.saw(row)
            return
        counting.saw(row)


def test_a_search_that_is_down_fails_the_questions_that_need_it(
    capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any
) -> None:
    """It is no property of the program: what it answers meanwhile is not counted as its answer."""

    def quota(query: str, max_results: int) -> list[Any]:
        raise SearchQuotaError("429")

    with dspy.context(lm=scripted_lm(capitals_script)):
        found = evaluate(capitals_program(search=quota), capitals_devset, contains_word, threads=1)
        assert [row["error"] for row in found.rows] == [None] * 2 + ["web search: SearchQuotaError: 429"] * 4
        assert [row["failed"] for row in found.rows] == [None] * 6  # it answered, from what it had
        assert found.to_json()["causes"] == {"web search: SearchQuotaError: 429": 4}

        # Every other question does not need it, so that five never fail in a row.
        pairs = [capitals_devset[number] for _ in range(6) for number in (0, 2)]
        asked = [example.copy(number=n).with_inputs("question") for n, example in enumerate(pairs)]
        with pytest.raises(OutageError, match="5 questions with the action ambiguous in a row failed"):
            evaluate(capitals_program(search=quota), asked, contains_word, threads=1)


# As the version before wrote them: an answer that declines, no error, and the cause among the warnings.
OUTAGES = [
    "the language model gave no answer that can be read: LMTransportError: [openai/x] failed to connect",
    "the language model gave an empty answer",
    "the query rewrite failed, searching with the question itself: LMRateLimitError: 429",
    "web search failed: SearchAuthError: no key",
    "the grader failed, relevance is unknown: GraderError: the language model failed on every text",
    "retrieval failed, going on without passages: ConnectionError: index is down",
    "no an answer from passage 2: LMTransportError: [openai/x] failed to connect",
    "no an answer from memory: LMAuthError: 401",
    "no relevance of passage 1: LMServerError: 500",
    "no whether to retrieve: LMServerError: 500",
]
NONE = [
    "no web search is configured, so nothing could correct the retrieval: pass search=",
    "the query rewrite failed, searching with the question itself: AdapterParseError: no field",
    "the answer cited [9], but there are 2 sources: dropped",
    "no relevance of passage 1: AdapterParseError: no field",
]


@pytest.mark.parametrize("warning", OUTAGES)
def test_an_outage_is_recognised_in_rows_of_the_version_before(warning: str) -> None:
    assert failure_in({"error": None, "warnings": ["something else", warning]}) == warning
    assert (
        failure_in({"error": None, "failed": None, "warnings": [warning]}) is None
    )  # a new row says it itself


@pytest.mark.parametrize("warning", NONE)
def test_what_is_no_outage_is_not_asked_again(warning: str) -> None:
    assert failure_in({"error": None, "warnings": [warning]}) is None


def test_old_rows_of_an_outage_are_asked_again_and_the_others_are_not(
    capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any, tmp_path: Path
) -> None:
    lm = scripted_lm(capitals_script)
    with dspy.context(lm=lm):
        evaluate(capitals_program(), capitals_devset, contains_word, run=tmp_path, threads=1)
        results = tmp_path / "results.jsonl"
        rows = read_rows(results)
        for number, row in enumerate(rows):
            del row["failed"]
            if number in (1, 4):
                row |= {"answer": "The evidence does not contain the answer.", "warnings": [OUTAGES[0]]}
        results.write_text("".join(json.dumps(row) + "\n" for row in rows))
        found = evaluate(capitals_program(), capitals_devset, contains_word, run=tmp_path, threads=1)
    assert found.answered_now == 2
    assert (found.score, found.to_json()["warnings"]) == (1.0, {})


@pytest.mark.parametrize("threads", [1, 3])
def test_a_cap_ends_the_work_and_leaves_no_failure(
    capitals_program: Any,
    capitals_devset: Any,
    capitals_script: Any,
    scripted_lm: Any,
    tmp_path: Path,
    threads: int,
) -> None:
    """What was paid for is kept, and going on costs only what is missing."""
    lm = scripted_lm(capitals_script)

    def run(cap: Cap) -> Any:
        with dspy.context(lm=lm), capped(cap):
            return evaluate(capitals_program(), capitals_devset, contains_word, run=tmp_path, threads=threads)

    with pytest.raises(BudgetSpentError, match="the limit of 5 LM calls is spent"):
        run(Cap(calls=5))
    assert len(lm.requests) == 5
    before = read_rows(tmp_path / "results.jsonl")
    assert 1 <= len(before) < 6
    assert [row["error"] for row in before] == [None] * len(before)
    found = run(Cap(calls=10))
    assert found.answered_now == 6 - len(before)
    assert found.score == 1
    assert run(Cap(calls=0)).score == 1  # all is there: nothing is called
