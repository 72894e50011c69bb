"""Self-RAG by prompting: retrieval on demand, one judged continuation a passage, the best supported one wins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import dspy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crag_dspy import Passage, SelfCRAG, SelfRAG
from crag_dspy.errors import ConfigError
from crag_dspy.self_rag.reflection import Reflection, ReflectionSettings, winner
from crag_dspy.self_rag.reflective import SelfReflective
from crag_dspy.text.replies import is_abstention

QUESTION = "When did the Ardent Bridge open?"
PASSAGES = [
    Passage("Cats sleep when the day is warm.", id="a", title="Cats"),
    Passage("The Ardent Bridge was begun in 1929. It opened soon.", id="b"),
    Passage("The Ardent Bridge opened in 1931. It is green.", id="c"),
]


class Grader:
    name, fingerprint = "words", "words-1"

    def score(self, question: str, texts: list[str]) -> list[float | None]:
        return [0.9 if "opened" in text else -1.0 for text in texts]


# What the model says of each passage, by a word of the passage.
OPINIONS: dict[str, dict[str, str]] = {
    "Cats": {"verdict": "no", "answer": "cats", "support": "no", "rating": "1"},
    "1929": {"verdict": "Yes.", "answer": "1929", "support": "[Partially supported]", "rating": "3"},
    "1931": {"verdict": "yes", "answer": "1931", "support": "fully", "rating": "5"},
}


def playing(opinions: Mapping[str, Mapping[str, Any]], demand: str = "no") -> Callable[..., Any]:
    """A script that judges each passage by its own opinion; without a passage it is asked for the demand."""

    def reply(name: str, request: Any) -> Any:
        text = request.inputs.get("passage") or request.inputs.get("context")
        if text is None and name != "rating":
            return demand if name == "verdict" else "from memory"
        if name == "rating":
            known = next(o for o in opinions.values() if o["answer"] == request.inputs["answer"])
        else:
            known = next(opinion for word, opinion in opinions.items() if word in text)
        return known[name]

    return reply


def found(passages: list[Passage] = PASSAGES) -> Callable[..., list[Passage]]:
    """A retriever that keeps the order given."""
    return lambda query, k: passages[:k]


def asked(lm: Any) -> list[str]:
    return [request.fields[0] for request in lm.requests]


def test_the_best_supported_continuation_wins_with_its_passage(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm(playing(OPINIONS))
    with dspy.context(lm=lm):
        prediction = SelfRAG(found())(question=QUESTION)
    assert (prediction.answer, prediction.grounded, prediction.action) == ("1931", True, None)
    assert [strip.passage.id for strip in prediction.evidence] == ["c"]
    assert prediction.knowledge == "[1] The Ardent Bridge opened in 1931. It is green."
    assert "Cats sleep" in prediction.read
    assert "1929" in prediction.read
    assert prediction.trace.to_json()["reflections"] == prediction.reflections
    # Weights of 1, 1 and 1/2: 0 for the cats, 1 + 0.5 + 0 for 1929, 1 + 1 + 0.5 for 1931.
    assert [each["score"] for each in prediction.reflections] == [0.0, 1.5, 2.5]
    assert prediction.trace.lm_calls == len(lm.requests)


def test_sync_and_async_give_the_same(scripted_lm: Callable[..., Any]) -> None:
    program = SelfRAG(found())
    with dspy.context(lm=scripted_lm(playing(OPINIONS))):
        here, there = program(question=QUESTION), asyncio.run(program.acall(question=QUESTION))
    assert (there.answer, there.reflections, there.knowledge) == (
        here.answer,
        here.reflections,
        here.knowledge,
    )


@pytest.mark.parametrize(
    ("retrieval", "demand", "answer", "first"),
    [
        ("on_demand", "no", "1931", "verdict"),
        ("on_demand", "Yes, it can.", "from memory", "verdict"),
        ("on_demand", "hard to say", "1931", "verdict"),  # what cannot be read is looked up
        ("always", "yes", "1931", "verdict"),
        ("never", "no", "from memory", "answer"),
    ],
)
def test_retrieval_is_on_demand(
    scripted_lm: Callable[..., Any], retrieval: str, demand: str, answer: str, first: str
) -> None:
    searched: list[str] = []

    def retrieve(query: str, k: int) -> list[Passage]:
        searched.append(query)
        return PASSAGES[:k]

    lm = scripted_lm(playing(OPINIONS, demand))
    with dspy.context(lm=lm):
        prediction = SelfRAG(retrieve, retrieval=retrieval)(question=QUESTION)
    assert (prediction.answer, asked(lm)[0]) == (answer, first)
    from_memory = answer == "from memory"
    assert (searched == [], prediction.evidence == [], not prediction.grounded) == (from_memory,) * 3
    assert not from_memory or "context" not in lm.requests[-1].inputs


@pytest.mark.parametrize("support", ["no", "[No support / Contradictory]", "banana"])
def test_what_no_passage_supports_is_not_answered(scripted_lm: Callable[..., Any], support: str) -> None:
    opinions = {word: {**opinion, "support": support} for word, opinion in OPINIONS.items()}
    with dspy.context(lm=scripted_lm(playing(opinions))):
        careful = SelfRAG(found())(question=QUESTION)
        bold = SelfRAG(found(), unsupported="answer")(question=QUESTION)
    assert is_abstention(careful.answer)
    assert (careful.grounded, careful.evidence, careful.knowledge) == (False, [], "")
    assert (bold.answer, bold.grounded) == ("1931", False)


def test_a_continuation_that_declines_is_not_judged_and_cannot_win(scripted_lm: Callable[..., Any]) -> None:
    opinions = {**OPINIONS, "1931": {**OPINIONS["1931"], "answer": "I don't know."}}
    lm = scripted_lm(playing(opinions))
    with dspy.context(lm=lm):
        assert SelfRAG(found())(question=QUESTION).answer == "1929"
    assert not any(request.inputs.get("answer") == "I don't know." for request in lm.requests)


def test_no_call_is_made_that_could_not_matter(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm(playing(OPINIONS))
    with dspy.context(lm=lm):
        SelfRAG(found(PASSAGES[::-1]), retrieval="always")(question=QUESTION)
    assert asked(lm) == ["verdict", "answer", "support", "rating"]  # the first passage is as good as can be


@pytest.mark.parametrize("failing", ["verdict", "answer", "support", "rating"])
def test_a_call_that_fails_costs_its_passage_only(scripted_lm: Callable[..., Any], failing: str) -> None:
    opinions = {**OPINIONS, "1929": {**OPINIONS["1929"], failing: ConnectionError("down")}}
    with dspy.context(lm=scripted_lm(playing(opinions))):
        prediction = SelfRAG(found(), exhaustive=True)(question=QUESTION)
    assert prediction.answer == "1931"
    assert len(prediction.warnings) == 1
    assert "passage 2" in prediction.warnings[0]


def test_nothing_that_fails_leaves_the_question(scripted_lm: Callable[..., Any]) -> None:
    def down(query: str) -> list[str]:
        raise ConnectionError("index is down")

    with dspy.context(lm=scripted_lm(raw="nothing that parses")):
        assert is_abstention(SelfRAG(down)(question=QUESTION).answer)
        prediction = SelfRAG(found())(question=QUESTION)
    assert is_abstention(prediction.answer)
    assert not prediction.grounded
    assert prediction.warnings


def test_without_a_language_model_it_says_so() -> None:
    for program in (SelfRAG(found()), SelfRAG(found(), exhaustive=True, retrieval="always")):
        with dspy.context(lm=None), pytest.raises(ConfigError, match="no language model is configured"):
            program(question=QUESTION)


WORDS = {
    "verdict": ["yes", "no", "?"],
    "support": ["fully", "partially", "no", "?"],
    "rating": ["1", "3", "5"],
}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(list(product(*WORDS.values(), ["x", "y"]))), min_size=1, max_size=4),
    st.sampled_from(["abstain", "answer"]),
)
def test_judging_one_after_the_other_gives_the_answer_of_judging_all(
    scripted_lm: Callable[..., Any], drawn: list[tuple[str, str, str, str]], rule: str
) -> None:
    opinions = {
        f"P{i}": {"verdict": v, "support": s, "rating": r, "answer": f"{a}{i}"}
        for i, (v, s, r, a) in enumerate(drawn)
    }
    passages = [Passage(f"P{i} is a passage.") for i in range(len(drawn))]
    answers = []
    for exhaustive in (False, True):
        lm = scripted_lm(playing(opinions))
        program = SelfRAG(found(passages), retrieval="always", exhaustive=exhaustive, unsupported=rule)
        with dspy.context(lm=lm):
            prediction = program(question=QUESTION)
        answers.append((prediction.answer, prediction.grounded, prediction.knowledge))
    assert answers[0] == answers[1]


def test_weights_that_say_the_same_can_add_up() -> None:
    one = Reflection(0, "False.", 1.0, 1.0, 1.0, True)
    two = [Reflection(i, "true", 1.0, 0.5, 0.0, True) for i in (1, 2)]
    assert winner([one, *two], ReflectionSettings()) is one  # 2.5 against 1.5
    assert winner([one, *two], ReflectionSettings(combine="sum")) is two[0]  # 2.5 against 1.5 + 1.5
    assert winner([], ReflectionSettings(combine="sum")) is None


@pytest.mark.parametrize(
    ("setting", "value"),
    [("w_support", -1), ("retrieval", "sometimes"), ("retreival", "always"), ("tokens", 1)],
)
@pytest.mark.parametrize("system", [SelfRAG, SelfCRAG])
def test_a_bad_setting_is_refused(system: Any, setting: str, value: Any) -> None:
    with pytest.raises(ConfigError, match="retrieval" if setting == "retreival" else setting):
        system(found(), **({"grader": Grader()} if system is SelfCRAG else {}), **{setting: value})


# Self-CRAG


def test_its_evidence_is_one_paragraph(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm(playing(OPINIONS))
    with dspy.context(lm=lm):
        prediction = SelfCRAG(found(), Grader(), upper=0.5)(question=QUESTION)
        again = asyncio.run(SelfCRAG(found(), Grader(), upper=0.5).acall(question=QUESTION))
    assert (prediction.answer, prediction.action, prediction.grounded) == ("1931", "correct", True)
    assert (again.answer, again.knowledge) == (prediction.answer, prediction.knowledge)
    assert [strip.text for strip in prediction.evidence] == [
        "It opened soon.",
        "The Ardent Bridge opened in 1931.",
    ]
    assert lm.requests[1].inputs["passage"] == prediction.knowledge
    assert asked(lm)[:5] == ["verdict", "verdict", "answer", "support", "rating"]
    assert prediction.trace.lm_calls == 5


def test_only_its_retrieval_differs_from_self_rag() -> None:
    corrected, plain = SelfCRAG(found(), Grader()), SelfRAG(found())
    names = {name for name, _ in plain.named_predictors()}
    assert {name for name, _ in corrected.named_predictors()} - names == {"corrective.rewrite"}
    assert names == {
        f"generate.{name}"
        for name in ("generate", "recall.predict", "decide", "relevance", "support", "usefulness")
    }


def test_a_given_action_is_a_demand(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm(playing(OPINIONS, demand="yes"))
    with dspy.context(lm=lm):
        program = SelfCRAG(found(), Grader())
        assert program(question=QUESTION).answer == "from memory"
        forced = program(question=QUESTION, action="correct")
    assert (forced.answer, forced.action) == ("1931", "correct")
    with pytest.raises(ConfigError, match="action must be one of"):
        program(question=QUESTION, action="maybe")


@pytest.mark.parametrize(("rule", "answer"), [("abstain", None), ("answer", "from memory")])
def test_without_evidence_its_rule_holds(
    scripted_lm: Callable[..., Any], rule: str, answer: str | None
) -> None:
    with dspy.context(
        lm=scripted_lm({**OPINIONS["1931"], "answer": "from memory", "query": "q", "verdict": "no"})
    ):
        prediction = SelfCRAG(found(PASSAGES[:1]), Grader(), no_evidence=rule)(question=QUESTION)
    assert is_abstention(prediction.answer) if answer is None else prediction.answer == answer
    assert not prediction.grounded
    assert prediction.evidence == []


# The generator alone


def test_as_a_generator_it_reads_one_context(scripted_lm: Callable[..., Any]) -> None:
    with dspy.context(lm=scripted_lm(playing(OPINIONS))):
        one = SelfReflective()(context=PASSAGES[2].text, question=QUESTION)
        none = SelfReflective()(context="", question=QUESTION)
    assert (one.answer, one.paragraph, one.grounded) == ("1931", 0, True)
    assert is_abstention(none.answer)
    assert none.reflections == []


def test_an_empty_paragraph_does_not_shift_the_others(scripted_lm: Callable[..., Any]) -> None:
    with dspy.context(lm=scripted_lm(playing(OPINIONS))):
        found = SelfReflective()(context=["", " ", PASSAGES[2].text], question=QUESTION)
    assert (found.answer, found.paragraph) == ("1931", 2)
    assert [each["paragraph"] for each in found.reflections] == [2]
