"""Compiling: every optimizer, a budget that holds, and an honest answer to whether it helped. The model is scripted."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.lm15 import Usage

from crag_dspy import CRAG, Passage, SelfCRAG, SelfRAG
from crag_dspy.errors import BudgetSpentError, ConfigError, OptimizerError, StaleOutcomesError
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.prompts.compiling import compile_program, estimate
from crag_dspy.optimize.prompts.optimizers import OPTIMIZERS
from crag_dspy.optimize.prompts.predictors import predictors_of, prompts_of
from crag_dspy.optimize.runs.cap import Cap, capped
from crag_dspy.optimize.runs.folder import read_rows

CAPITALS = {
    "France": "Paris",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Peru": "Lima",
    "Cuba": "Havana",
    "Chad": "Ndjamena",
    "Japan": "Tokyo",
    "Kenya": "Nairobi",
    "Norway": "Oslo",
    "Egypt": "Cairo",
    "Iran": "Tehran",
    "Iraq": "Baghdad",
    "Oman": "Muscat",
    "Fiji": "Suva",
    "Mali": "Bamako",
    "Laos": "Vientiane",
    "Qatar": "Doha",
    "Nepal": "Kathmandu",
    "Greece": "Athens",
    "Poland": "Warsaw",
}
PASSAGES = [Passage(f"{city} is the capital of {country}.", id=country) for country, city in CAPITALS.items()]


class CountryGrader:
    """Relevant is what names the country that is asked about."""

    name, fingerprint = "countries", "countries-1"

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        country = question.split()[-1].rstrip("?")
        return [0.9 if country in text else -0.9 for text in texts]


def find(query: str, k: int) -> list[Passage]:
    country = query.split()[-1].rstrip("?")
    return [passage for passage in PASSAGES if passage.id == country][:k]


def crag(**settings: Any) -> CRAG:
    return CRAG(find, CountryGrader(), **settings)


def examples() -> list[dspy.Example]:
    return [
        dspy.Example(question=f"What is the capital of {country}?", answers=[city]).with_inputs("question")
        for country, city in CAPITALS.items()
    ]


@pytest.fixture
def lm(scripted_lm: Any) -> Any:
    """Knows five-letter countries; the others only with a demonstration, or when told to answer "carefully"."""

    def reply(field: str, request: Any) -> Any:
        if field == "answer":
            country = request.inputs["question"].split()[-1].rstrip("?")
            demos = any(role == "assistant" for role, _ in request.messages)
            knows = demos or "carefully" in request.text or len(country) == 5
            return CAPITALS[country] if knows else "I am not sure"
        if field == "query":
            return request.inputs["question"]
        if field == "module_advice":
            return {"generate": "Answer carefully."}
        return "Answer carefully, with the name of the city."

    return scripted_lm(reply)


# Small enough that no test takes long.
SMALL: dict[str, dict[str, Any]] = {
    "simba": {"bsize": 6, "max_steps": 2, "num_candidates": 3},
    "copro": {"breadth": 2, "depth": 1},
    "mipro": {"num_candidates": 2, "num_trials": 2},
    "gepa": {"max_metric_calls": 30},
    "random_search": {"num_candidate_programs": 1},
}


def compiled_by(name: Any, program: dspy.Module | None = None, **arguments: Any) -> Any:
    given = {
        "optimizer": name,
        "predictors": ["generate"],
        "threads": 1,
        "options": SMALL.get(name),
        **arguments,
    }
    return compile_program(program or crag(), given.pop("trainset", examples()), contains_word, **given)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_every_optimizer_by_name(name: str, lm: Any) -> None:
    """On twenty examples, each ends with a program that is better on questions it has not seen."""
    program = crag()
    before = program.dump_state()
    with dspy.context(lm=lm):
        compiled = compiled_by(name, program)
    assert compiled.before.mean < 0.8
    assert compiled.after.mean == 1.0
    assert program.dump_state() == before
    with dspy.context(lm=lm):
        assert compiled.candidate(question="What is the capital of Cuba?").answer == "Havana"
    # What was foreseen is an upper bound of what was spent, and everything that was spent was counted.
    assert len(lm.requests) - 1 == sum(compiled.lm_calls.values()) <= compiled.estimate.lm_calls


OBJECTS: dict[str, Callable[[Any], Any]] = {
    "LabeledFewShot": lambda lm: dspy.LabeledFewShot(k=2),
    "BootstrapFewShot": lambda lm: dspy.BootstrapFewShot(max_labeled_demos=0),
    "MIPROv2": lambda lm: dspy.MIPROv2(
        contains_word, prompt_model=lm, task_model=lm, auto=None, num_candidates=2, max_labeled_demos=0
    ),
    "SIMBA": lambda lm: dspy.SIMBA(
        metric=contains_word, prompt_model=lm, bsize=6, max_steps=5, num_candidates=3
    ),
    "GEPA": lambda lm: dspy.GEPA(metric=contains_word, reflection_lm=lm, max_metric_calls=30),
}


@pytest.mark.parametrize("name", list(OBJECTS))
def test_every_optimizer_by_object(name: str, lm: Any) -> None:
    """Small data sets work here too: a ready-made MIPROv2 would ask for 35 examples and a number of trials."""
    with dspy.context(lm=lm):
        compiled = compiled_by(OBJECTS[name](lm), budget=400)
        unbounded = estimate(crag(), examples(), contains_word, optimizer=OBJECTS[name](lm))
    assert compiled.after.mean == 1.0
    assert len(lm.requests) == sum(compiled.lm_calls.values()) <= compiled.estimate.lm_calls == 400
    assert unbounded.lm_calls is None  # its size is its own: only a budget bounds it


@pytest.mark.parametrize("name", ["bootstrap", "gepa", "simba"])
def test_an_optimizer_gets_the_same_data_by_name_and_ready_made(name: str, lm: Any, monkeypatch: Any) -> None:
    kind = OPTIMIZERS[name].type
    given: list[Any] = []

    def compile(self: Any, student: Any, *, trainset: Any, valset: Any = None, **options: Any) -> Any:
        given.append((trainset, valset))
        return student

    ready = {
        "bootstrap": lambda: kind(metric=contains_word),
        "simba": lambda: kind(metric=contains_word, bsize=6),
        "gepa": lambda: kind(metric=contains_word, reflection_lm=lm, max_metric_calls=30),
    }[name]()
    monkeypatch.setattr(kind, "compile", compile)
    with dspy.context(lm=lm):
        compiled_by(name, options=None)
        compiled_by(ready, options=None)
    assert given[0] == given[1]


@pytest.mark.parametrize("name", ["MIPROv2", "BootstrapFewShotWithRandomSearch", "gepa", "LabeledFewShot"])
def test_dspys_own_names_are_names_too(name: str) -> None:
    told = estimate(crag(), examples(), contains_word, optimizer=name)
    assert OPTIMIZERS[told.optimizer].kind.lower() == name.lower()


# The budget


@pytest.mark.parametrize("budget", [70, 90, 150])
@pytest.mark.parametrize("name", ["bootstrap", "random_search", "mipro", "gepa"])
def test_a_budget_is_never_exceeded(name: str, budget: int, lm: Any) -> None:
    with dspy.context(lm=lm):
        compiled = compiled_by(name, budget=budget, options=None, threads=3)
    assert len(lm.requests) <= budget
    assert compiled.after is not None
    assert compiled.estimate.lm_calls <= budget


def test_a_model_that_reports_no_usage_is_counted_too(lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = lm.engine.complete
    monkeypatch.setattr(
        lm.engine, "complete", lambda request: dataclasses.replace(complete(request), usage=Usage())
    )
    with dspy.context(lm=lm):
        compiled = compiled_by("random_search", options=None, budget=60)
    assert len(lm.requests) == sum(compiled.lm_calls.values()) <= 60


def test_sizes_follow_the_budget() -> None:
    small, large = (
        estimate(
            crag(),
            examples(),
            contains_word,
            optimizer="random_search",
            predictors=["generate"],
            budget=budget,
        )
        for budget in (60, 400)
    )
    assert small.sizes["num_candidate_programs"] < large.sizes["num_candidate_programs"]


def test_an_optimizer_that_spends_more_than_it_said_is_stopped(lm: Any) -> None:
    """A ready-made optimizer keeps its own size: the calls beyond the budget are refused, the judging still happens."""
    greedy = dspy.BootstrapFewShotWithRandomSearch(
        metric=contains_word, max_labeled_demos=0, num_candidate_programs=16, num_threads=1
    )
    with dspy.context(lm=lm):
        compiled = compiled_by(greedy, budget=60)
    assert len(lm.requests) <= 60
    assert compiled.after is not None
    assert any("budget was spent before the optimizer was done" in note for note in compiled.notes)


def test_a_budget_that_cannot_suffice_is_refused_before_any_call(lm: Any) -> None:
    with dspy.context(lm=lm):
        with pytest.raises(
            ConfigError, match="judging 8 held-out questions before and after takes up to 16 LM calls"
        ):
            compiled_by("bootstrap", budget=40)
        with pytest.raises(ConfigError, match=r"mipro takes up to \d+ LM calls even at its smallest"):
            compiled_by("mipro", budget=50, options=None)
    assert lm.requests == []


def test_replies_from_the_cache_are_free(tmp_path: Path, scripted_lm: Any) -> None:
    dspy.configure_cache(enable_disk_cache=True, disk_cache_dir=str(tmp_path), enable_memory_cache=False)
    lm = scripted_lm({"answer": "Paris"}, cache=True)
    try:
        with dspy.context(lm=lm):
            compiled_by("bootstrap")
            calls = len(lm.requests)
            again = compiled_by("bootstrap")
    finally:
        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    assert len(lm.requests) == calls
    assert sum(again.lm_calls.values()) == 0


# The estimate


def test_an_estimate_calls_nothing(lm: Any) -> None:
    web: list[str] = []
    program = CRAG(find, CountryGrader(), lambda query, max_results: web.append(query) or ["page"])
    with dspy.context(lm=lm):
        told = estimate(program, examples(), contains_word, optimizer="bootstrap")
    assert (lm.requests, web) == ([], [])
    assert told.lm_calls == 8 + 12 + 8  # judging twice, and every other question once
    assert "at most 28 LM calls" in str(told)
    assert told.searches == 0  # every passage is relevant
    assert told.tokens > 28 * 50


def test_an_estimate_needs_no_model() -> None:
    with dspy.context(lm=None):
        assert estimate(crag(), examples(), contains_word).parts["judging before"] == 8


def test_an_estimate_counts_the_rewrite_of_a_question_that_goes_to_the_web() -> None:
    program = CRAG(lambda query, k: [], CountryGrader(), lambda query, max_results: ["page"])
    told = estimate(program, examples(), contains_word)
    assert told.parts["judging before"] == 2 * 8
    assert told.searches == told.lm_calls / 2


def test_an_estimate_calls_no_judge_and_no_metric_that_is_one(scripted_lm: Any, lm: Any) -> None:
    """Examples are checked with the metric before any work, and it may be a language model's."""
    judge = scripted_lm({"right": "yes"})
    asks = dspy.Predict("question, answer -> right")
    asks.lm = judge

    def judged(example: dspy.Example, pred: dspy.Prediction, trace: Any = None) -> bool:
        return asks(question=example.question, answer=pred.get("answer", "")).right == "yes"

    with dspy.context(lm=lm):
        estimate(crag(), examples(), judged)
        assert (lm.requests, judge.requests) == ([], [])
        compiled = compile_program(crag(), examples(), judged, predictors=["generate"], budget=100, threads=1)
    # Every call of the judge judged an answer, and all of them were counted and held to the budget.
    assert all(request.inputs["answer"] for request in judge.requests)
    assert len(lm.requests) + len(judge.requests) == sum(compiled.lm_calls.values()) <= 100


def test_a_teacher_is_counted_and_held_to_the_budget(scripted_lm: Any, lm: Any) -> None:
    teacher = scripted_lm({"answer": lambda r: CAPITALS[r.inputs["question"].split()[-1][:-1]], "query": "q"})
    ready = dspy.BootstrapFewShot(metric=contains_word, max_labeled_demos=0, teacher_settings={"lm": teacher})
    with dspy.context(lm=lm):
        compiled = compiled_by(ready, budget=60)
        assert teacher.requests
        assert len(lm.requests) + len(teacher.requests) == sum(compiled.lm_calls.values())
        by_name = compiled_by("bootstrap", options={"teacher_settings": {"lm": teacher}}, budget=60)
    assert by_name.lm_calls["optimizing"] > 0


@pytest.mark.parametrize("name", ["random_search", "mipro"])
@pytest.mark.parametrize("budget", [None, 300])
def test_the_size_of_an_optimizer_does_not_depend_on_the_held_out_questions(
    name: str, budget: int | None
) -> None:
    def sizes(held: int) -> Any:
        return estimate(
            crag(),
            examples()[:8],
            contains_word,
            optimizer=name,
            predictors=["generate"],
            heldout=examples()[8 : 8 + held],
            budget=budget,
        ).sizes

    assert sizes(2) == sizes(12)


@pytest.mark.parametrize("name", ["bootstrap", "mipro", "gepa", "simba"])
def test_dspys_own_metrics_are_metrics(name: str, lm: Any) -> None:
    """`answer_exact_match(example, pred, trace=None, frac=1.0)`: GEPA's fourth argument is no fraction."""
    data = [dspy.Example(**example, answer=example.answers).with_inputs("question") for example in examples()]
    with dspy.context(lm=lm):
        compiled = compile_program(
            crag(),
            data,
            dspy.evaluate.answer_exact_match,
            optimizer=name,
            predictors=["generate"],
            options=SMALL.get(name),
            threads=1,
        )
    assert compiled.after.mean == 1.0


def test_a_language_model_that_goes_down_leaves_no_candidate(
    tmp_path: Path, scripted_lm: Any, lm: Any
) -> None:
    """The questions that failed judge no prompt, and the run goes on once the model is there again."""
    down = {n: ConnectionError("refused") for n in range(10, 400)}
    dying = scripted_lm(lm.engine.script, raises=down)
    with dspy.context(lm=dying), pytest.raises(OptimizerError, match="failed in a row"):
        compiled_by("random_search", run=tmp_path / "run", options=None)
    assert not (tmp_path / "run" / "candidate.json").exists()
    with dspy.context(lm=lm):
        compiled = compiled_by("random_search", run=tmp_path / "run", options=None)
    assert compiled.after.mean == 1.0
    assert compiled.lm_calls["judging before"] == 0


def test_questions_that_failed_before_make_no_program_better(
    tmp_path: Path, scripted_lm: Any, lm: Any
) -> None:
    """Seven of eight fail before, and all are right after: the model was there again, and nothing else is better."""

    def run(model: Any) -> Any:
        with dspy.context(lm=model):
            return compiled_by("bootstrap", run=tmp_path / "run")

    refused = {n: ConnectionError("refused") for n in (0, 1, 2, 3, 5, 6, 7)}
    compiled = run(scripted_lm(lm.engine.script, raises=refused))
    assert compiled.failures == {"before": 7, "after": 0}
    assert (compiled.before.mean, compiled.after.mean) == (
        0,
        1,
    )  # or 1 of 8 by luck: what counts is the change
    assert (compiled.change.n, compiled.improved) == (1, False)
    assert "failed: before 7, after 0; these questions count as not right" in str(compiled)
    assert "intervals are over 8 questions" in compiled.to_json()["note"]
    again = run(lm)  # the same run asks them again
    assert again.failures == {"before": 0, "after": 0}
    assert again.change.n == 8
    assert "failed:" not in str(again)


@pytest.mark.parametrize("limit", [{"calls": 5}, {"calls": 12}, {"tokens": 1500}])
def test_a_cap_around_it_stops_it_and_a_second_run_goes_on(tmp_path: Path, lm: Any, limit: Any) -> None:
    with dspy.context(lm=lm):
        with capped(Cap(**limit)), pytest.raises(BudgetSpentError):
            compiled_by("random_search", run=tmp_path / "run", options=None)
        paid = len(read_rows(tmp_path / "run" / "before" / "results.jsonl"))
        compiled = compiled_by("random_search", run=tmp_path / "run", options=None)
    assert 0 < paid <= 8
    assert compiled.lm_calls["judging before"] == 8 - paid
    assert compiled.after.mean == 1.0


# What may change


def test_only_the_chosen_predictors_change(lm: Any) -> None:
    program = CRAG(lambda query, k: [], CountryGrader(), find)
    with dspy.context(lm=lm):
        compiled = compile_program(program, examples(), contains_word, predictors=["rewrite"], threads=1)
    assert compiled.predictors == ("corrective.rewrite",)
    before, after = (
        {name: predictor.dump_state() for name, predictor in predictors_of(p).items()}
        for p in (program, compiled.candidate)
    )
    assert after["corrective.rewrite"]["demos"]
    assert after["generate"] == before["generate"]


def test_reflections_can_be_compiled_alone(lm: Any) -> None:
    """Self-RAG's judgements are four predictors; "reflect" means them."""
    program = SelfCRAG(find, CountryGrader())
    before = {name: predictor.dump_state() for name, predictor in predictors_of(program).items()}
    with dspy.context(lm=lm):
        compiled = compiled_by("copro", program, predictors=["reflect"], trainset=examples()[:8])
    assert [name.split(".")[-1] for name in compiled.predictors] == [
        "decide",
        "relevance",
        "support",
        "usefulness",
    ]
    after = {name: predictor.dump_state() for name, predictor in predictors_of(compiled.candidate).items()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed
    assert changed <= set(compiled.predictors)
    with pytest.raises(ConfigError, match="no predictor is called 'reflect'"):
        compiled_by("copro", crag(), predictors=["reflect"])


@pytest.mark.parametrize(
    ("make", "most"), [(lambda: SelfCRAG(find, CountryGrader()), 5), (lambda: SelfRAG(PASSAGES, k=3), 13)]
)
def test_an_estimate_of_a_reflecting_program_is_an_upper_bound(
    make: Callable[[], Any], most: int, scripted_lm: Any
) -> None:
    """A model that is never quite content is asked whether to retrieve, and then four times a paragraph."""
    program = make()
    with dspy.context(lm=None):
        told = estimate(program, examples(), contains_word)
    halfway = scripted_lm(
        {"verdict": ["no", *["yes"] * 9], "answer": "Paris", "support": "partially", "rating": "3"}
    )
    with dspy.context(lm=halfway):
        program(question="What is the capital of France?")
    assert len(halfway.requests) == most
    assert told.parts["judging before"] == 8 * most


def test_a_wrong_name_is_told() -> None:
    with pytest.raises(
        ConfigError, match=r"did you mean 'generate'\? There are: corrective.rewrite, generate"
    ):
        compile_program(crag(), examples(), contains_word, predictors=["generat"])


def test_a_compiled_program_is_compiled_further(lm: Any) -> None:
    with dspy.context(lm=lm):
        first = dspy.BootstrapFewShot(metric=contains_word, max_labeled_demos=0).compile(
            crag(), trainset=examples()[:3]
        )
        assert first._compiled
        second = compiled_by("bootstrap", first)
        third = compiled_by("mipro", second.candidate)
    assert second.before.mean == 1.0  # with the demonstrations of the first
    assert not second.improved
    assert third.before.n == 8


def test_predictors_keep_their_own_language_model(lm: Any, tmp_path: Path) -> None:
    """Optimizers reset it, the budget counts it, and a file, which cannot hold it, does not take it away."""
    program = crag()
    program.generate.lm = lm
    with dspy.context(lm=None):
        compiled = compiled_by("bootstrap", program, budget=60, run=tmp_path / "run")
        calls = len(lm.requests)
        again = compiled_by("bootstrap", program, budget=60, run=tmp_path / "run")
    assert compiled.candidate.generate.lm is lm
    assert again.candidate.generate.lm is lm
    assert len(lm.requests) == calls == sum(compiled.lm_calls.values())


def test_what_was_compiled_is_saved_with_a_program_around_it(lm: Any) -> None:
    class Around(dspy.Module):
        def __init__(self, inner: dspy.Module) -> None:
            super().__init__()
            self.inner = inner

    with dspy.context(lm=lm):
        compiled = compiled_by("bootstrap")
    assert Around(compiled.candidate).dump_state()["inner.generate"]["demos"]


def test_live_parts_that_cannot_be_copied_do_no_harm(lm: Any) -> None:
    """Field case 21."""
    import threading

    lock = threading.Lock()

    def locked(query: str, k: int) -> list[Passage]:
        with lock:
            return find(query, k)

    with dspy.context(lm=lm):
        assert compiled_by("mipro", CRAG(locked, CountryGrader())).after.mean == 1.0


def test_retrieval_and_grades_are_worked_out_once_for_all_candidates(lm: Any) -> None:
    asked: list[str] = []
    graded: list[str] = []

    def counted(query: str, k: int) -> list[Passage]:
        asked.append(query)
        return find(query, k)

    class Counted(CountryGrader):
        def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
            graded.append(question)
            return super().score(question, texts)

    with dspy.context(lm=lm):
        compiled = compiled_by(
            "random_search", CRAG(counted, Counted()), options={"num_candidate_programs": 4}
        )
    held, others = compiled.before.n, 20 - compiled.before.n
    # Once for the estimate, of either kind, once to learn; the held-out questions before and after.
    assert len(asked) <= 12 + held + others + 2 * held
    assert len(graded) <= 2 * (12 + held + others + 2 * held)  # a passage, and then its strips


# Honesty


def test_a_program_that_is_not_better_is_not_kept(scripted_lm: Any) -> None:
    program = crag()
    with dspy.context(
        lm=scripted_lm({"answer": lambda request: CAPITALS[request.inputs["question"].split()[-1][:-1]]})
    ):
        compiled = compiled_by("bootstrap", program)
    assert (compiled.before.mean, compiled.after.mean) == (1.0, 1.0)
    assert compiled.program is program
    assert "Not better beyond noise" in compiled.verdict
    assert "the old program is kept" in str(compiled)


def test_a_few_lucky_questions_are_noise(lm: Any) -> None:
    """Eight held-out questions, of which a few become right: no certainty, so the old program stays."""
    with dspy.context(lm=lm):
        compiled = compiled_by("bootstrap", trainset=examples()[:10])
    assert compiled.after.mean > compiled.before.mean
    assert not compiled.improved
    assert compiled.program is not compiled.candidate


def test_a_clear_improvement_is_kept(lm: Any) -> None:
    learn, held = examples()[:4], [e for e in examples()[4:] if len(e.question.split()[-1]) != 6]
    with dspy.context(lm=lm):
        compiled = compiled_by("bootstrap", trainset=learn, heldout=held)
    assert compiled.improved
    assert compiled.program is compiled.candidate
    assert compiled.change.low > 0


def test_questions_that_belong_together_are_judged_as_one(lm: Any) -> None:
    """The user's `by` tells the documents apart where examples are divided and where the change is judged."""
    held = [example for example in examples() if example.answers[0][0] in "ABCDH"]
    apart = [example for example in examples() if example not in held]
    initial = {"by": lambda example: example.answers[0][0], "trainset": apart, "heldout": held}
    with dspy.context(lm=lm):
        compiled = compiled_by("labeled", **initial)
    assert compiled.change.groups == len({example.answers[0][0] for example in held}) < len(held)


@pytest.mark.parametrize("name", ["mipro", "copro"])
def test_a_proposal_that_cannot_be_read_does_not_end_the_optimizer(
    name: str, scripted_lm: Any, lm: Any
) -> None:
    """Small models give empty replies, and DSPy's optimizers end at the first of them."""
    mute = scripted_lm(raw="")
    with dspy.context(lm=lm):
        compiled = compiled_by(name, prompt_lm=mute)
    assert mute.requests
    assert not any("failed" in note for note in compiled.notes)


def test_an_optimizer_that_fails_is_an_error_with_its_cause_and_nothing_is_lost(
    lm: Any, tmp_path: Path
) -> None:
    class Broken:
        def compile(self, student: dspy.Module, *, trainset: Any) -> dspy.Module:
            raise RuntimeError("no candidate left")

    with dspy.context(lm=lm):
        with pytest.raises(
            OptimizerError, match="the optimizer failed: RuntimeError: no candidate left"
        ) as raised:
            compiled_by(Broken(), run=tmp_path / "run")
        assert isinstance(raised.value.__cause__, RuntimeError)
        assert len(read_rows(tmp_path / "run" / "before" / "results.jsonl")) == 8
        assert not (tmp_path / "run" / "program.json").exists()


def test_a_question_must_not_be_learned_from_and_judged_on() -> None:
    with pytest.raises(ConfigError, match="both to learn from and held out"):
        compile_program(crag(), examples(), contains_word, heldout=examples()[:5])


@pytest.mark.parametrize("name", ["bootstrap", "random_search"])
def test_a_falsy_score_never_makes_a_demonstration(name: str, scripted_lm: Any) -> None:
    """Field case 19, for a metric of one's own that returns DSPy's plain Prediction."""

    def metric(example: dspy.Example, pred: dspy.Prediction, trace: Any = None) -> dspy.Prediction:
        return dspy.Prediction(score=float(example.answers[0] in pred.answer), feedback="")

    right = {"Paris", "Rome"}
    reply = {
        "answer": lambda r: (
            c if (c := CAPITALS[r.inputs["question"].split()[-1][:-1]]) in right else "no idea"
        )
    }
    with dspy.context(lm=scripted_lm(reply)):
        compiled = compile_program(
            crag(),
            examples()[:-1],
            metric,
            optimizer=name,
            predictors=["generate"],
            heldout=examples()[-1:],
            options=SMALL.get(name),
            threads=1,
        )
    demos = compiled.candidate.generate.demos if compiled.candidate else []
    assert {demo["answer"] for demo in demos} <= right
    assert demos or name == "random_search"


def test_labelled_demonstrations_have_the_context_that_answers(lm: Any) -> None:
    """Without context they would teach to answer without one."""
    with dspy.context(lm=lm):
        compiled = compiled_by("labeled")
    demos = compiled.candidate.generate.demos
    assert len(demos) == 4
    assert all(demo["answer"] in demo["context"] and "[1]" in demo["context"] for demo in demos)
    assert set(demos[0].keys()) == {"augmented", "context", "question", "answer"}
    assert compiled.lm_calls["optimizing"] == 0


def test_labels_that_fit_no_predictor_are_told(lm: Any) -> None:
    with dspy.context(lm=lm), pytest.raises(ConfigError, match="no labelled demonstration can be made"):
        compile_program(
            crag(), examples(), contains_word, optimizer="labeled", predictors=["rewrite"], threads=1
        )


# Wrong arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"optimizer": "mirpo"}, "optimizer must be one of labeled, bootstrap"),
        ({"optimizer": object()}, "must have compile"),
        ({"optimizer": dspy.BootstrapFewShot}, r"pass BootstrapFewShot\(\.\.\.\), or its name"),
        ({"options": {"max_demos": 3}}, "BootstrapFewShot has no option 'max_demos'"),
        (
            {"options": {"max_bootstrapped_demos": 0}},
            "max_bootstrapped_demos must be a whole number, at least 1",
        ),
        ({"optimizer": "simba", "options": {"bsize": 32}}, "bsize must be at most 12"),
        ({"optimizer": "mipro", "options": {"minibatch_size": 32}}, "minibatch_size must be at most 6"),
        ({"budget": 0}, "budget must be a whole number, at least 1"),
        ({"seed": -1}, "seed"),
        ({"level": 95}, "level"),
        ({"predictors": []}, "predictors must name at least one"),
        ({"trainset": []}, "trainset is empty"),
        ({"trainset": examples()[:3]}, "3 examples are too few"),
        ({"trainset": [dspy.Example(question="q", answers=["a"])] * 9}, "must be a dspy.Example with inputs"),
        ({"heldout": []}, "heldout is empty"),
    ],
)
def test_wrong_arguments_are_named_before_any_call(arguments: dict[str, Any], message: str, lm: Any) -> None:
    given = {"trainset": examples(), **arguments}
    with dspy.context(lm=lm), pytest.raises(ConfigError, match=message):
        compile_program(crag(), given.pop("trainset"), contains_word, **given)
    assert lm.requests == []


def test_no_language_model_is_told() -> None:
    with dspy.context(lm=None), pytest.raises(ConfigError, match="no language model is configured"):
        compile_program(crag(), examples(), contains_word)


# Runs


def test_a_run_keeps_everything_and_is_not_repeated(tmp_path: Path, lm: Any) -> None:
    with dspy.context(lm=lm):
        first = compiled_by("bootstrap", run=tmp_path / "run")
        calls = len(lm.requests)
        again = compiled_by("bootstrap", run=tmp_path / "run")
    assert len(lm.requests) == calls
    assert again.to_json()["change"] == first.to_json()["change"]
    assert again.candidate.dump_state() == crag().load(tmp_path / "run" / "candidate.json").dump_state()
    assert crag().load(tmp_path / "run" / "program.json").dump_state() == again.program.dump_state()
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "config.json",
        "results.jsonl",
        "metrics.json",
        "candidate.json",
        "program.json",
        "report.html",
        "before",
        "after",
    }


def test_a_run_of_another_kind_of_work_is_refused(tmp_path: Path, lm: Any) -> None:
    with dspy.context(lm=lm):
        compiled_by("bootstrap", run=tmp_path / "run")
        with pytest.raises(StaleOutcomesError, match=r"seed \(0 -> 1\)"):
            compiled_by("bootstrap", run=tmp_path / "run", seed=1)


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, scripted_lm: Any, lm: Any) -> None:
    """Interrupted while it is judged again: what was judged before, and the new program, are not made twice."""

    class Interrupted(KeyboardInterrupt):
        pass

    whole = len(lm.requests)
    with dspy.context(lm=lm):
        compiled_by("bootstrap", run=tmp_path / "whole")
    whole = len(lm.requests)
    dying = scripted_lm(lm.engine.script, raises={whole - 3: Interrupted()})
    with dspy.context(lm=dying), pytest.raises(Interrupted):
        compiled_by("bootstrap", run=tmp_path / "run")
    rest = scripted_lm(lm.engine.script)
    with dspy.context(lm=rest):
        resumed = compiled_by("bootstrap", run=tmp_path / "run")
    assert len(rest.requests) == 3
    assert resumed.after.mean == 1.0


def test_an_optimizer_that_was_interrupted_repeats_no_call_that_is_cached(
    tmp_path: Path, scripted_lm: Any, lm: Any
) -> None:
    dspy.configure_cache(
        enable_disk_cache=True, disk_cache_dir=str(tmp_path / "cache"), enable_memory_cache=False
    )
    try:
        dying = scripted_lm(lm.engine.script, raises={14: KeyboardInterrupt()}, cache=True)
        with dspy.context(lm=dying), pytest.raises(KeyboardInterrupt):
            compiled_by("random_search", run=tmp_path / "run")
        rest = scripted_lm(lm.engine.script, cache=True)
        with dspy.context(lm=rest):
            resumed = compiled_by("random_search", run=tmp_path / "run")
        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
        fresh = scripted_lm(lm.engine.script, cache=False)
        with dspy.context(lm=fresh):
            whole = compiled_by("random_search")
    finally:
        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    assert resumed.candidate.dump_state() == whole.candidate.dump_state()
    assert resumed.after == whole.after
    asked = [request.text for request in [*dying.requests[:14], *rest.requests]]
    assert len(asked) == len(set(asked))  # nothing was asked twice


@pytest.mark.parametrize("name", ["mipro", "simba", "gepa", "copro"])
def test_who_proposes_instructions_must_be_there(name: str, lm: Any) -> None:
    program = crag()
    program.generate.lm = lm
    with (
        dspy.context(lm=None),
        pytest.raises(ConfigError, match=f"{name} needs a language model that proposes"),
    ):
        compiled_by(name, program)
    assert lm.requests == []


# Prompts and thresholds in turns


class RoughGrader:
    """Everything is half relevant, so thresholds decide: -0.2 for what names the country, -0.6 for the rest."""

    name, fingerprint = "rough", "rough-1"

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        country = question.split()[-1].rstrip("?")
        return [-0.2 if country in text else -0.6 for text in texts]


def test_prompts_and_thresholds_in_turns(tmp_path: Path, lm: Any) -> None:
    """The web knows nothing here, and the thresholds send every question to it; the prompts are poor as well."""
    program = CRAG(
        find,
        RoughGrader(),
        lambda query, max_results: ["Nothing."],
        upper=0.9,
        lower=0.0,
        strip_threshold=-0.5,
    )
    with dspy.context(lm=lm):
        compiled = compiled_by("bootstrap", program, alternate=True, run=tmp_path / "run", budget=600)
    settings = compiled.candidate.settings
    assert settings.upper <= -0.2
    assert (settings.grader, settings.grader_fingerprint) == ("rough", "rough-1")
    assert compiled.candidate.generate.demos
    assert compiled.after.mean == 1.0
    assert len(lm.requests) == sum(compiled.lm_calls.values()) <= 600
    assert compiled.lm_calls["thresholds"] > 0


def test_a_step_of_a_turn_that_makes_it_worse_is_taken_back(tmp_path: Path, scripted_lm: Any) -> None:
    """Prompts that spoil every answer are left out of the next step; the thresholds of the same turn are kept."""

    class Spoiling:
        def compile(self, student: dspy.Module, *, trainset: Any) -> dspy.Module:
            student.generate.signature = student.generate.signature.with_instructions("Never answer.")
            return student

    def reply(request: Any) -> str:
        country = request.inputs["question"].split()[-1].rstrip("?")
        known = "Never answer" not in request.text and CAPITALS[country] in request.text
        return CAPITALS[country] if known else "no idea"

    program = CRAG(find, RoughGrader(), lambda query, max_results: ["Nothing."], upper=0.9, lower=0.0)
    with dspy.context(lm=scripted_lm({"answer": reply, "query": "q"})):
        compiled = compiled_by(Spoiling(), program, alternate=True, run=tmp_path / "run")
    first, *_ = read_rows(tmp_path / "run" / "results.jsonl")
    assert first["prompts"] <= first["before"]
    assert prompts_of(compiled.candidate) == prompts_of(program)
    assert compiled.candidate.settings.upper <= -0.2
    assert compiled.after.mean == 1.0


def test_prompts_that_are_better_only_where_they_were_chosen_are_not_taken(
    tmp_path: Path, scripted_lm: Any
) -> None:
    class Lucky:
        """Prompts that know the questions they are chosen by, and no other."""

        def compile(self, student: dspy.Module, *, trainset: Any, valset: Any) -> dspy.Module:
            known = ", ".join(example.question for example in valset)
            signature = student.generate.signature.with_instructions(f"Answer nothing but: {known}")
            student.generate.signature = signature
            return student

    def reply(request: Any) -> str:
        question = request.inputs["question"]
        country = question.split()[-1].rstrip("?")
        memorised = "Answer nothing but" in request.text
        knows = request.text.count(question) > 1 if memorised else country < "J"
        return CAPITALS[country] if knows else "no idea"

    with dspy.context(lm=scripted_lm({"answer": reply, "query": "q"})):
        compiled = compiled_by(Lucky(), crag(), alternate=True, run=tmp_path / "run")
    first, *_ = read_rows(tmp_path / "run" / "results.jsonl")
    assert first["prompts"] < first["before"]
    assert compiled.candidate is None or prompts_of(compiled.candidate) == prompts_of(crag())
    assert compiled.estimate.questions["to judge turns by"] == 4


def test_thresholds_that_are_better_only_where_they_were_chosen_are_not_taken(
    tmp_path: Path, scripted_lm: Any
) -> None:
    class Guessing:
        """Scores without information."""

        name, fingerprint = "guessing", "guessing-1"

        def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
            return [random.Random(f"{question} 1").uniform(-1, 1) for _ in texts]

    def web(query: str, max_results: int) -> list[Passage]:
        return find(query, 1) if sum(map(ord, query)) % 2 else [Passage("Nothing.")]

    def half(query: str, k: int) -> list[Passage]:
        return find(query, k) if sum(map(ord, query)) % 3 else [Passage("Nothing.")]

    class Same:
        def compile(self, student: dspy.Module, *, trainset: Any) -> dspy.Module:
            return student

    def reply(request: Any) -> str:
        city = CAPITALS[request.inputs["question"].split()[-1].rstrip("?")]
        return city if city in request.text else "no idea"

    cuts = {"strip_threshold": -1.0, "evidence_threshold": -1.0}  # to decline by such scores only loses
    program = CRAG(half, Guessing(), web, upper=0.4, lower=-0.4, **cuts)
    scripted = {"answer": reply, "query": lambda request: request.inputs["question"]}
    with dspy.context(lm=scripted_lm(scripted)):
        compiled = compiled_by(Same(), program, alternate=True, run=tmp_path / "run")
    first, *_ = read_rows(tmp_path / "run" / "results.jsonl")
    assert first["thresholds"]["value"] > first["value_before"]  # in-sample
    assert (first["moved"], compiled.candidate) == (False, None)


@pytest.mark.parametrize("budget", [150, 220, 330])
def test_turns_stay_within_their_budget(budget: int, tmp_path: Path, lm: Any) -> None:
    program = CRAG(find, RoughGrader(), lambda query, max_results: ["Nothing."], upper=0.9, lower=0.0)
    with dspy.context(lm=lm):
        compiled = compiled_by("bootstrap", program, alternate=True, run=tmp_path / "run", budget=budget)
    assert len(lm.requests) <= budget
    assert all(not row["error"] for row in read_rows(tmp_path / "run" / "before" / "results.jsonl"))
    answers = [row["answer"] for path in tmp_path.glob("run/*/results.jsonl") for row in read_rows(path)]
    warnings = [
        w for path in tmp_path.glob("run/*/results.jsonl") for row in read_rows(path) for w in row["warnings"]
    ]
    assert answers
    assert not any("budget" in warning for warning in warnings)  # no refusal is kept as an answer
    assert compiled.after is None or compiled.after.n == 8


def test_turns_need_thresholds() -> None:
    with pytest.raises(ConfigError, match="has 0 `Settings`"):
        estimate(dspy.Predict("question -> answer"), examples(), contains_word, alternate=True)
