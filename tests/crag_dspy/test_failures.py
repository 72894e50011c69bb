"""README's table of what happens when things go wrong, row by row and in pairs: sync, async, batch and Evaluate.

One question never ends a batch.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import dspy
import pytest

from crag_dspy import CRAG, RAG, NoRetrieval, Passage, SelfCRAG, SelfRAG
from crag_dspy.actions import Action
from crag_dspy.errors import GraderError, SearchAuthError, SearchQuotaError, SearchTimeoutError
from crag_dspy.graders.lm import LMGrader
from crag_dspy.self_rag.reflective import SelfReflective
from crag_dspy.text.replies import is_abstention

QUESTION = "When did the Ardent Bridge open?"
INSIDE = Passage("The Ardent Bridge opened in 1931. It is green.", id="in")
OUTSIDE = {"url": "https://web/1", "title": "Bridges", "content": "The Ardent Bridge opened on 5 May 1931."}


class Grader:
    name, fingerprint = "words", "words-1"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def score(self, question: str, texts: list[str]) -> list[float | None]:
        if self.error:
            raise self.error
        return [0.9 if "opened" in text else -1.0 for text in texts]


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


def retriever(query: str, k: int) -> list[Passage]:
    return [INSIDE]


def search(query: str, max_results: int) -> list[dict[str, str]]:
    return [OUTSIDE]


FAILURES: dict[str, dict[str, Any]] = {
    "retriever": {"retrieve": failing(ConnectionError("index is down"))},
    "retriever timeout": {"retrieve": failing(TimeoutError("10 s"))},
    "grader": {"grader": Grader(GraderError("no verdict"))},
    "grader crash": {"grader": Grader(RuntimeError("CUDA"))},
    "search": {"search": failing(SearchTimeoutError("10 s"))},
    "no key": {"search": failing(SearchAuthError("set TAVILY_API_KEY"))},
    "quota": {"search": failing(SearchQuotaError("429", retry_after=1.0))},
    "no search": {"search": None},
    "rewrite": {"query": ValueError("garbage")},
    "answer": {"answer": ValueError("garbage")},
    "empty answer": {"answer": "  "},
    "unreadable reply": {"raw": "no fields here"},
    "no strip": {"strip_threshold": 0.95},
}
HOW = ["sync", "async", "batch", "evaluate"]
# What a prediction must say of a failure, whichever path it took: the parts that every question meets.
SAID = {
    "retriever": "retrieval failed",
    "retriever timeout": "retrieval failed",
    "grader": "grader failed",
    "grader crash": "grader failed",
}


def build(*names: str) -> tuple[CRAG, dict[str, Any]]:
    """A program in which these parts fail, and the arguments of its scripted language model."""
    changes = {key: value for name in names for key, value in FAILURES[name].items()}
    script = {"answer": changes.pop("answer", "1931"), "query": changes.pop("query", "ardent bridge")}
    lm = {"raw": changes.pop("raw")} if "raw" in changes else {"script": script}
    parts = {"retrieve": retriever, "grader": Grader(), "search": search, **changes}
    return CRAG(**parts), lm


def run(program: CRAG, lm: Any, how: str, **inputs: Any) -> dspy.Prediction:
    with dspy.context(lm=lm):
        if how == "sync":
            return program(**inputs)
        if how == "async":
            return asyncio.run(program.acall(**inputs))
        examples = [dspy.Example(**inputs).with_inputs(*inputs)] * 2
        if how == "batch":
            return program.batch(examples, num_threads=2, disable_progress_bar=True)[1]
        # One error would end it: a failing item must not become an empty prediction.
        evaluate = dspy.Evaluate(
            devset=examples,
            metric=lambda gold, pred, trace=None: bool(pred.answer),
            max_errors=1,
            display_progress=False,
        )
        result = evaluate(program)
        assert result.score == 100.0
        return result.results[1][1]


def holds(prediction: dspy.Prediction, failed: tuple[str, ...], action: Action | None = None) -> None:
    """What is true of every prediction, whatever failed."""
    assert isinstance(prediction.answer, str)
    assert prediction.answer
    judged = any(strip.score is not None for strip in prediction.evidence)
    assert prediction.grounded is (judged and not is_abstention(prediction.answer))
    assert prediction.trace.warnings == prediction.warnings
    for name in failed:
        if name in SAID and not (
            name.startswith("grader") and any(n.startswith("retriever") for n in failed)
        ):
            assert any(SAID[name] in warning for warning in prediction.warnings)
            assert action is not None or prediction.action is not Action.CORRECT


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("action", [None, *Action])
@pytest.mark.parametrize("failure", FAILURES)
def test_one_failure_is_a_warning_and_a_path(
    scripted_lm: Callable[..., Any], failure: str, action: Action | None, how: str
) -> None:
    program, lm = build(failure)
    given = {} if action is None else {"action": action}
    holds(run(program, scripted_lm(**lm), how, question=QUESTION, **given), (failure,), action)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pair", itertools.combinations(FAILURES, 2), ids=" + ".join)
def test_failures_in_pairs(scripted_lm: Callable[..., Any], pair: tuple[str, str], how: str) -> None:
    program, lm = build(*pair)
    last = {key: name for name in pair for key in FAILURES[name]}  # of two of one part, the second
    holds(run(program, scripted_lm(**lm), how, question=QUESTION), tuple(dict.fromkeys(last.values())))


def outcome(scripted_lm: Callable[..., Any], failure: str, action: Action | None = None) -> dspy.Prediction:
    program, lm = build(failure)
    return run(program, scripted_lm(**lm), "sync", question=QUESTION, action=action)


@pytest.mark.parametrize("failure", ["retriever", "retriever timeout"])
def test_a_failing_retriever_goes_to_the_web(scripted_lm: Callable[..., Any], failure: str) -> None:
    prediction = outcome(scripted_lm, failure)
    assert prediction.action == "incorrect"
    assert [strip.origin for strip in prediction.evidence] == ["web"]
    assert any("retrieval failed" in warning for warning in prediction.warnings)


@pytest.mark.parametrize("failure", ["grader", "grader crash"])
def test_a_failing_grader_is_ambiguous_never_correct(scripted_lm: Callable[..., Any], failure: str) -> None:
    """Field case 9: its own state in the trace."""
    prediction = outcome(scripted_lm, failure)
    assert prediction.action == "ambiguous"
    assert prediction.trace.scores == [None]
    assert {strip.origin for strip in prediction.evidence} == {"internal", "web"}
    assert len([warning for warning in prediction.warnings if "grader failed" in warning]) == 1


@pytest.mark.parametrize("failure", ["search", "no key", "quota", "no search"])
def test_a_failing_search_falls_back_to_internal_evidence(
    scripted_lm: Callable[..., Any], failure: str
) -> None:
    """Field cases 11 and 12."""
    prediction = outcome(scripted_lm, failure, Action.INCORRECT)
    assert prediction.answer == "1931"
    assert [strip.origin for strip in prediction.evidence] == ["internal"]
    assert any("search" in warning for warning in prediction.warnings)


def test_nothing_inside_and_no_search_abstains(scripted_lm: Callable[..., Any]) -> None:
    program = CRAG(lambda query: ["Cats sleep."], Grader(), failing(SearchTimeoutError("10 s")))
    prediction = run(program, scripted_lm({"query": "q"}), "sync", question=QUESTION)
    assert is_abstention(prediction.answer)
    assert prediction.grounded is False


def test_no_strip_that_is_relevant_enough_abstains_or_asks_the_model_when_told_to(
    scripted_lm: Callable[..., Any],
) -> None:
    prediction = outcome(scripted_lm, "no strip")
    assert (prediction.grounded, is_abstention(prediction.answer)) == (False, True)
    program, lm = build("no strip")
    program.settings.no_evidence = "answer"
    prediction = run(program, scripted_lm(**lm), "sync", question=QUESTION)
    assert (prediction.grounded, prediction.answer) == (False, "1931")


def test_an_unreadable_rewrite_searches_with_the_question(scripted_lm: Callable[..., Any]) -> None:
    prediction = outcome(scripted_lm, "rewrite", Action.INCORRECT)
    assert prediction.queries == [QUESTION]
    assert [strip.origin for strip in prediction.evidence] == ["web"]


def test_an_unparsable_answer_is_tried_once_more_then_abstains(scripted_lm: Callable[..., Any]) -> None:
    program, _ = build()
    lm = scripted_lm(raw="no fields here")
    prediction = run(program, lm, "sync", question=QUESTION, action=Action.CORRECT)
    assert is_abstention(prediction.answer)
    assert len(lm.requests) == 2  # DSPy's own fallback from chat to JSON, and no more
    assert any("no answer that can be read" in warning for warning in prediction.warnings)


@pytest.mark.parametrize("scores", [[float("nan")], [None], [], [0.1, 0.2, 0.3]])
def test_a_grader_that_breaks_its_contract_is_not_believed(
    scripted_lm: Callable[..., Any], scores: list[Any]
) -> None:
    program = CRAG(retriever, lambda question, texts: scores, search)
    prediction = run(program, scripted_lm({"answer": "1931", "query": "q"}), "sync", question=QUESTION)
    assert prediction.action == "ambiguous"
    assert prediction.trace.scores == [None]


def test_scores_of_another_scale_are_not_believed_and_the_remedy_is_named(
    scripted_lm: Callable[..., Any],
) -> None:
    """Field case 7: raw outputs. Cut to the scale, 8.5 and 7.5 would be the same."""

    def logits(question: str, texts: list[str]) -> list[float]:
        return [8.5 if "opened" in text else 7.5 for text in texts]

    program = CRAG(retriever, logits, search)
    prediction = run(program, scripted_lm({"answer": "1931", "query": "q"}), "sync", question=QUESTION)
    assert prediction.trace.scores == [None]
    assert prediction.action == "ambiguous"
    [told] = [warning for warning in prediction.warnings if "grader" in warning]
    assert "gave 8.5" in told
    assert "math.tanh(x / 2)" in told


def test_rounding_beyond_the_scale_is_cut_to_it(scripted_lm: Callable[..., Any]) -> None:
    program = CRAG(retriever, lambda question, texts: [1.0000002] * len(texts), search)
    prediction = run(program, scripted_lm({"answer": "1931"}), "sync", question=QUESTION)
    assert (prediction.trace.scores, prediction.action) == ([1.0], "correct")
    assert prediction.warnings == []


def test_true_and_false_are_read_as_the_ends_of_the_scale(scripted_lm: Callable[..., Any]) -> None:
    program = CRAG(retriever, lambda question, texts: ["opened" in text for text in texts], search)
    prediction = run(program, scripted_lm({"answer": "1931"}), "sync", question=QUESTION)
    assert (prediction.trace.scores, prediction.action) == ([1.0], "correct")
    assert [strip.score for strip in prediction.trace.dropped] == [-1.0]
    [told] = prediction.warnings
    assert "2 * probability - 1" in told


def test_thresholds_of_another_grader_are_said(scripted_lm: Callable[..., Any]) -> None:
    """Field case 7."""
    program = CRAG(retriever, Grader(), search, grader_fingerprint="another", upper=0.2)
    program.settings.grader = "t5-large"
    prediction = run(program, scripted_lm({"answer": "1931"}), "sync", question=QUESTION)
    assert any("tuned on grader 't5-large'" in warning for warning in prediction.warnings)


# What `failed` says, where the part is what stood between the question and its answer.
CAUSES = {
    "answer": "language model: LMUnexpectedError: [scripted/by-field] garbage",
    "empty answer": "language model: an empty answer",
    "unreadable reply": "language model: AdapterParseError",
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("failure", CAUSES)
def test_a_language_model_that_fails_is_not_a_refusal(
    scripted_lm: Callable[..., Any], failure: str, how: str
) -> None:
    program, lm = build(failure)
    prediction = run(program, scripted_lm(**lm), how, question=QUESTION)
    assert prediction.failed is not None
    assert prediction.failed.startswith(CAUSES[failure])
    assert prediction.failed == prediction.trace.failed == prediction.trace.to_json()["failed"]
    assert is_abstention(prediction.answer)  # a batch still has an answer for it
    assert prediction.grounded is False


@pytest.mark.parametrize("reply", ["I do not know.", "Not enough information."])
def test_declining_is_not_failing(scripted_lm: Callable[..., Any], reply: str) -> None:
    program, _ = build()
    prediction = run(program, scripted_lm({"answer": reply, "query": "q"}), "sync", question=QUESTION)
    assert (prediction.failed, prediction.trace.faults) == (None, {})
    nothing = CRAG(lambda query: ["Cats sleep."], Grader(), lambda query, max_results: [])
    assert run(nothing, scripted_lm({"query": "q"}), "sync", question=QUESTION).failed is None


@pytest.mark.parametrize("failure", [name for name in FAILURES if name not in CAUSES])
def test_an_answer_that_was_found_all_the_same_is_one(scripted_lm: Callable[..., Any], failure: str) -> None:
    """Whatever else did not work is a warning, and stands in the trace's faults."""
    program, lm = build(failure)
    program.settings.no_evidence = "answer"
    prediction = run(program, scripted_lm(**lm), "sync", question=QUESTION)
    assert (prediction.answer, prediction.failed) == ("1931", None)
    for cause in prediction.trace.faults.values():
        assert any(cause in warning for warning in prediction.warnings)


def test_no_evidence_because_a_part_is_down_is_a_failure_of_that_part(
    scripted_lm: Callable[..., Any],
) -> None:
    down = failing(ConnectionError("index is down"))
    program = CRAG(down, Grader(), failing(SearchTimeoutError("10 s")), rewrite=False)
    prediction = run(program, scripted_lm({}), "sync", question=QUESTION)
    assert is_abstention(prediction.answer)
    assert prediction.failed == (
        "retriever: ConnectionError: index is down; web search: SearchTimeoutError: 10 s"
    )


def test_a_refusal_without_the_part_that_would_have_found_it_is_no_refusal(
    scripted_lm: Callable[..., Any],
) -> None:
    lm = scripted_lm({"answer": "The context does not mention it."})
    prediction = run(RAG(failing(ConnectionError("index is down"))), lm, "sync", question=QUESTION)
    assert prediction.failed == "retriever: ConnectionError: index is down"


@pytest.mark.parametrize("kind", [RAG, NoRetrieval, CRAG, SelfRAG, SelfCRAG])
def test_every_program_says_that_its_language_model_was_not_there(kind: Any, model_server: Any) -> None:
    few = {NoRetrieval: (), RAG: (retriever,), SelfRAG: (retriever,)}
    program = kind(*few.get(kind, (retriever, Grader(), search)))
    outage = run(program, model_server.lm(), "sync", question=QUESTION)
    assert outage.failed.startswith("language model: LMTransportError: ")
    assert (is_abstention(outage.answer), outage.grounded) == (True, False)
    assert outage.failed == outage.trace.failed


def test_a_key_that_is_refused_and_a_rate_limit_are_named(model_server: Any) -> None:
    program, _ = build()
    model_server.open()
    for status, said in ((401, "Auth"), (429, "RateLimit"), (500, "Server")):
        model_server.status = status
        prediction = run(program, model_server.lm(), "sync", question=QUESTION)
        assert said in prediction.failed


class TestSelfRAG:
    """A reply that cannot be read fails the question only where an answer may have hung on it."""

    SCRIPT: ClassVar[dict[str, Any]] = {"answer": "1931", "rating": "5"}

    def asked(self, scripted_lm: Callable[..., Any], passages: list[str], **script: Any) -> dspy.Prediction:
        def verdict(request: Any) -> str:
            return "yes" if "passage" in request.inputs else "no"

        lm = scripted_lm({**self.SCRIPT, "verdict": verdict, **script})
        return run(SelfRAG(passages, exhaustive=True), lm, "sync", question=QUESTION)

    def test_an_unreadable_judgement_of_the_only_answer(self, scripted_lm: Callable[..., Any]) -> None:
        found = self.asked(scripted_lm, ["The Ardent Bridge did open in 1931."], support="perhaps")
        assert found.failed == "language model: the support of passage 1 cannot be read from 'perhaps'"

    def test_one_that_another_answer_did_not_need(self, scripted_lm: Callable[..., Any]) -> None:
        def support(request: Any) -> str:
            return "perhaps" if "spring" in request.inputs["context"] else "fully"

        passages = ["The Ardent Bridge did open in 1931.", "The Ardent Bridge did open one spring."]
        found = self.asked(scripted_lm, passages, support=support)
        assert (found.answer, found.failed, found.trace.faults) == ("1931", None, {})

    def test_no_support_is_declining(self, scripted_lm: Callable[..., Any]) -> None:
        found = self.asked(scripted_lm, ["The Ardent Bridge did open in 1931."], support="no")
        assert (is_abstention(found.answer), found.failed) == (True, None)

    def test_as_the_generator_of_another_program(self, scripted_lm: Callable[..., Any]) -> None:
        program = RAG(retriever, generate=SelfReflective())
        lm = scripted_lm({"verdict": "yes", "answer": ConnectionError("gone")})
        assert (
            run(program, lm, "sync", question=QUESTION).failed
            == "language model: LMUnexpectedError: [scripted/by-field] gone"
        )


def test_a_grader_that_could_not_ask_about_some_texts_is_at_fault(scripted_lm: Callable[..., Any]) -> None:
    """The other texts count, and an evaluation knows that this was not what the grader thinks of them."""

    def verdict(request: Any) -> str:
        if "Cats" in request.inputs["passage"]:
            raise ConnectionError("unplugged")
        return "yes"

    passages = [INSIDE, Passage("Cats sleep.", id="cats")]
    program = CRAG(lambda query: passages, LMGrader(), None)
    lm = scripted_lm({"verdict": verdict, "answer": "1931"})
    found = run(program, lm, "sync", question=QUESTION, action=Action.CORRECT)
    assert (found.answer, found.failed) == ("1931", None)
    assert "failed on 1 of 2 texts: LMUnexpectedError" in found.trace.faults["grader"]
    assert found.trace.faults["grader"] in found.warnings
