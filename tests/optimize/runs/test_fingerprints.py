"""What an answer depends on, by name; and nothing secret in it."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.answers import METRICS, contains_word, grounded
from crag_dspy.optimize.metrics.measures import ContextTokens, count_words, declined, unsupported
from crag_dspy.optimize.metrics.objective import Prices, combine
from crag_dspy.optimize.runs.fingerprints import (
    changes,
    devset_digest,
    example_key,
    metric_identity,
    program_identity,
)


def test_a_copy_has_the_same_identity(capitals_program: Any, scripted_lm: Any) -> None:
    with dspy.context(lm=scripted_lm({})):
        program = capitals_program()
        assert program_identity(program) == program_identity(program.deepcopy())
        assert program_identity(program) == program_identity(capitals_program())


def test_decisions_are_left_out_when_they_do_not_matter(capitals_program: Any) -> None:
    one, other = capitals_program(), capitals_program(upper=0.9, lower=0.1, policy="vote")
    assert program_identity(one, decisions=False) == program_identity(other, decisions=False)
    assert changes(program_identity(one), program_identity(other)) == [
        "settings.lower (-0.5 -> 0.1)",
        "settings.policy (max -> vote)",
        "settings.upper (0.5 -> 0.9)",
    ]


def test_instructions_demos_and_models_count(capitals_program: Any, scripted_lm: Any) -> None:
    program = capitals_program()
    before = program_identity(program)
    rewriter = program.corrective.rewrite
    rewriter.signature = rewriter.signature.with_instructions("Other words.")
    assert [change.split(" (")[0] for change in changes(before, program_identity(program))] == [
        "prompt corrective.rewrite"
    ]
    with dspy.context(lm=scripted_lm({}, temperature=0.3)):
        told = program_identity(program)
    models = {name: text for name, text in told.items() if name.startswith("lm ")}
    assert len(models) == 2
    assert set(models.values()) == {"scripted/by-field(temperature=0.3)"}


def test_parts_count_by_their_fingerprint(capitals_program: Any) -> None:
    before = program_identity(capitals_program(retrieve=["one passage"]))
    after = program_identity(capitals_program(retrieve=["another passage"]))
    assert len(changes(before, after)) == 1
    assert any(text == "capitals@v1" for text in before.values())


def test_a_function_counts_by_its_source(capitals_program: Any) -> None:
    def finder(text: str) -> Any:
        if text == "one":

            def find(query: str) -> list[str]:
                return ["one passage"]
        else:

            def find(query: str) -> list[str]:
                return ["another passage"]

        return find

    identities = [
        program_identity(capitals_program(retrieve=finder(text))) for text in ("one", "other", "one")
    ]
    assert identities[0] == identities[2]
    assert len(changes(identities[0], identities[1])) == 1


def test_a_function_as_grader_counts_by_its_source(capitals_program: Any) -> None:
    """Edited in place, it keeps its name: outcomes and thresholds of the old one must not pass for the new one's."""

    def grader(strict: bool) -> Any:
        if strict:

            def grade(question: str, texts: list[str]) -> list[float]:
                return [-0.5 for _ in texts]
        else:

            def grade(question: str, texts: list[str]) -> list[float]:
                return [0.5 for _ in texts]

        return grade

    lenient, strict, again = (capitals_program(grader=grader(strict)) for strict in (False, True, False))
    told = changes(program_identity(lenient, decisions=False), program_identity(strict, decisions=False))
    assert [change.split(" (")[0] for change in told] == ["part corrective.grade.part"]
    assert program_identity(lenient) == program_identity(again)


def test_thresholds_that_cross_are_told_before_any_question_is_asked(capitals_program: Any) -> None:
    program = capitals_program()
    program.settings.upper = -0.7  # lower is -0.5: not wrong yet, the other one may follow
    with pytest.raises(ConfigError, match="lower must not be above upper"):
        program_identity(program)
    program.settings.lower = -0.9
    assert program_identity(program)["settings.lower"] == "-0.9"


def test_the_configured_retriever_counts(capitals_program: Any) -> None:
    program = capitals_program(retrieve=None)
    with dspy.context(rm=lambda query, k: []):
        configured = program_identity(program)
    assert [change.split(" (")[0] for change in changes(program_identity(program), configured)] == ["rm"]


def test_no_key_is_in_it(capitals_program: Any) -> None:
    secret = "sk-planted-1234567890abcdef"
    lm = dspy.LM(
        "openai/gpt-4o-mini", api_key=secret, extra_headers={"Authorization": secret}, temperature=0.5
    )
    with dspy.context(lm=lm):
        told = program_identity(capitals_program())
    assert secret not in str(told)
    assert any("openai/gpt-4o-mini(temperature=0.5" in text for text in told.values())


def test_another_gold_answer_makes_another_example() -> None:
    one = dspy.Example(question="q", answers=["a"]).with_inputs("question")
    other = dspy.Example(question="q", answers=["b"]).with_inputs("question")
    assert example_key(one) == example_key(one.copy().with_inputs("question"))
    assert example_key(one) != example_key(other)
    assert devset_digest([one, other]) != devset_digest([other, one])


def test_a_metric_counts_by_its_source_and_its_settings() -> None:
    class AtLeast:
        def __init__(self, least: float) -> None:
            self.least = least

        def __call__(self, example: Any, pred: Any, trace: Any = None) -> bool:
            return float(pred.score) >= self.least

    assert metric_identity(AtLeast(0.5)) == metric_identity(AtLeast(0.5))
    assert metric_identity(AtLeast(0.5)) != metric_identity(AtLeast(0.7))
    weighted = combine({contains_word: 2, grounded: 1}, Prices(search=0.1))
    assert list(metric_identity(weighted)) == ["metric contains_word", "metric grounded"]
    assert metric_identity(weighted) == metric_identity(combine({contains_word: 2, grounded: 1}))
    assert metric_identity(weighted) != metric_identity(combine({contains_word: 1, grounded: 1}))


@pytest.mark.parametrize("metric", [lambda example, pred, trace=None: 1.0, len])
def test_any_callable_has_an_identity(metric: Any) -> None:
    assert metric_identity(metric) == metric_identity(metric)


# Of a run of the version before the modules were moved.
BEFORE = {
    "metric contains_word": "1dd1ef1212a01920 x 1",
    "metric declined (abstained)": "c41ae28969311bcc",
    "metric unsupported (unsupported)": "20f7564ecb131c34",
    "metric ContextTokens (context_tokens)": "6eaa1223f69598f4",
}


def test_runs_of_the_version_before_still_open() -> None:
    now = metric_identity(combine(contains_word))
    for name, measure in {
        "abstained": declined,
        "unsupported": unsupported,
        "context_tokens": ContextTokens(count_words),
    }.items():
        now |= {f"{part} ({name})": text for part, text in metric_identity(measure).items()}
    assert changes(BEFORE, now) == []
    # What RAG did not have then, and does not use now.
    assert changes({}, {"part search": "None", "part web_results": "5"}) == []
    assert changes({}, {"part search": "TavilySearch"}) != []


def test_every_metric_of_the_library_is_declared_and_no_two_alike() -> None:
    identities = [metric_identity(metric)[f"metric {name}"] for name, metric in METRICS.items()]
    assert len(set(identities)) == len(identities)
