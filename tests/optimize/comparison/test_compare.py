"""Comparing systems: the same questions, one language model, and what each one cost."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest

from crag_dspy import CRAG, RAG, Passage, SelfCRAG
from crag_dspy.actions import Thresholds
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.comparison.ablations import GRADERS, NAMES, ablations, with_grader
from crag_dspy.optimize.comparison.comparing import compare, folder_of
from crag_dspy.optimize.comparison.estimating import estimate_comparison
from crag_dspy.optimize.comparison.systems import systems_of
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.metrics.measures import never_unsupported, unsupported
from crag_dspy.optimize.runs.folder import RESULTS, read_rows

OPENED = Passage("The Ardent Bridge opened in 1931. It is green.", id="a", title="Ardent Bridge")
CATS = Passage("Cats sleep most of the day.", id="b", title="Cats")
PAGE = {"title": "Bridges", "url": "https://web/1", "content": "The Borel Bridge opened in 1950."}


class WordGrader:
    name, fingerprint = "words", "words-1"

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        bridge = question.split()[3]
        return [0.9 if bridge in text and "opened" in text else -0.9 for text in texts]


def web(query: str, max_results: int) -> list[dict[str, str]]:
    return [PAGE]


def crag(**settings: Any) -> CRAG:
    return CRAG([OPENED, CATS], WordGrader(), web, upper=0.5, lower=-0.5, **settings)


def devset() -> list[dspy.Example]:
    asked = {"Ardent": ["1931"], "Borel": ["1950"], "Corbu": []}
    return [
        dspy.Example(question=f"When did the {name} Bridge open?", answers=answers).with_inputs("question")
        for name, answers in asked.items()
    ]


@pytest.fixture
def lm(scripted_lm: Any) -> Any:
    """Reads the year that the context gives for the bridge, and else guesses 1900."""

    def answer(request: Any) -> str:
        bridge = request.inputs["question"].split()[3]
        found = re.search(rf"{bridge} Bridge opened in (\d+)", request.inputs.get("context", ""))
        return found[1] if found else "1900"

    return scripted_lm(
        {"answer": answer, "query": lambda request: request.inputs["question"], "verdict": "yes"}
    )


def test_quality_actions_abstention_support_and_cost(lm: Any) -> None:
    systems = {"no retrieval": RAG([], k=0), "RAG": RAG([OPENED, CATS], k=2), "CRAG": crag()}
    with dspy.context(lm=lm):
        compared = compare(systems, devset(), contains_word, threads=1)
    alone, rag, corrected = compared.systems
    assert (alone.quality.mean, rag.quality.mean) == (0.0, pytest.approx(1 / 3))
    assert corrected.quality.mean == 1.0  # Ardent from the passages, Borel from the web, none for Corbu
    assert corrected.actions == {"correct": 1, "incorrect": 2}
    assert rag.actions == {}
    assert (alone.abstained, corrected.abstained) == (0.0, pytest.approx(1 / 3))
    assert (alone.unsupported, rag.unsupported, corrected.unsupported) == (1.0, pytest.approx(2 / 3), 0.0)
    assert alone.context_tokens == 0
    assert corrected.context_tokens < rag.context_tokens
    assert (rag.lm_calls, corrected.lm_calls) == (1.0, pytest.approx(4 / 3))  # two rewrites, two answers
    assert (rag.searches, corrected.searches) == (0.0, pytest.approx(2 / 3))
    assert corrected.seconds > 0
    assert alone.change is None
    assert (corrected.change.better, corrected.change.worse) == (3, 0)


def test_coverage_hallucination_and_what_they_are_against_the_first(lm: Any) -> None:
    """Ardent is in the knowledge base, Borel only in the web, Corbu nowhere; RAG guesses where it finds nothing."""
    with dspy.context(lm=lm):
        compared = compare(
            {"RAG": RAG([OPENED, CATS], k=2), "CRAG": crag()}, devset(), contains_word, threads=1
        )
    rag, corrected = compared.systems
    assert compared.unanswerable == 1
    assert rag.answerable is not None
    assert corrected.answerable is not None
    assert (rag.answerable.mean, corrected.answerable.mean) == (0.5, 1.0)  # the paper's accuracy
    assert corrected.answerable_change is not None
    assert corrected.answerable_change.difference == 0.5
    assert (rag.coverage.mean, corrected.coverage.mean) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (rag.hallucination.mean, corrected.hallucination.mean) == (pytest.approx(2 / 3), 0.0)
    assert (rag.declined_rightly, corrected.declined_rightly) == (0.0, 1.0)
    assert corrected.relative["coverage"] == pytest.approx(1.0)
    assert corrected.relative["hallucination"] == pytest.approx(-1.0)
    assert corrected.relative["context_tokens"] == pytest.approx(
        corrected.context_tokens / rag.context_tokens - 1
    )
    assert rag.relative == {"coverage": None, "hallucination": None, "context_tokens": None}


def test_a_right_answer_from_memory_is_covered_and_hallucinated(scripted_lm: Any) -> None:
    with dspy.context(lm=scripted_lm({"answer": "1931"})):
        alone = compare({"alone": RAG([], k=0)}, devset()[:1], contains_word, threads=1).systems[0]
        trusted = compare(
            {"alone": RAG([], k=0)}, devset()[:1], contains_word, support=never_unsupported, threads=1
        ).systems[0]
    assert (alone.quality.mean, alone.coverage.mean, alone.hallucination.mean) == (1.0, 1.0, 1.0)
    assert (trusted.coverage.mean, trusted.hallucination.mean) == (1.0, 0.0)


def test_the_tables_name_every_system(lm: Any) -> None:
    with dspy.context(lm=lm):
        compared = compare({"RAG": RAG([OPENED], k=1), "CRAG": crag()}, devset(), contains_word, threads=1)
    text = str(compared)
    title, answers, *rest = text.splitlines()
    assert title == "contains_word on 3 questions (1 of them without an answer in any document), against RAG"
    assert answers.split()[:4] == ["system", "right", "difference", "p"]
    table, notes = [line for line in rest if line][:6], [line for line in rest if line][6:]
    assert [line.split()[0] for line in table] == ["RAG", "CRAG", "system", "RAG", "CRAG", "context"]
    assert notes[0].startswith(
        "intervals are over 3 questions, as if no two were of one document: nothing says"
    )
    assert notes[1].startswith("not shown to be better: CRAG; 3 questions find a difference of ")
    assert "1/2/0" in text
    _, first, second, *said = compared.markdown().split("\n\n")
    assert first.splitlines()[3].startswith("| CRAG | 1.000 [0.439, 1.000] | +0.667")
    assert said[0].startswith("Intervals are over 3 questions")
    assert said[1].endswith("with 80% power.")
    for table in (first, second):
        assert len({line.count("|") for line in table.splitlines()}) == 1
        assert len(table.splitlines()[0]) < 150  # a README can show it
    assert json.loads(json.dumps(compared.to_json()))["systems"][1]["unsupported"] == 0.0


def test_ablations_are_settings(lm: Any) -> None:
    program = crag()
    before = program.dump_state()
    with dspy.context(lm=lm):
        compared = compare({"CRAG": program, **ablations(program)}, devset(), contains_word, threads=1)
    by_name = {system.name: system for system in compared.systems}
    assert by_name["without correct"].actions == {"ambiguous": 1, "incorrect": 2}
    assert by_name["without incorrect"].actions == {"correct": 1, "ambiguous": 2}
    assert by_name["without ambiguous"].actions == {"correct": 1, "incorrect": 2}
    assert by_name["internal only"].actions == {"correct": 3}
    assert by_name["internal only"].searches == 0
    assert by_name["web only"].actions == {"incorrect": 3}
    assert by_name["always both"].actions == {"ambiguous": 3}
    whole = by_name["CRAG"].context_tokens
    assert by_name["without refinement"].context_tokens > whole
    assert by_name["without selection"].context_tokens > whole
    assert by_name["without rewriting"].lm_calls < by_name["CRAG"].lm_calls
    assert program.dump_state() == before


def test_without_refinement_reads_whole_passages_and_without_selection_every_strip(lm: Any) -> None:
    programs = ablations(crag(top_n=1, actions="correct"))
    question = "When did the Ardent Bridge open?"
    with dspy.context(lm=lm):
        strips = {
            name: [strip.text.strip() for strip in programs[name](question=question).evidence]
            for name in ("without refinement", "without selection", "without web selection")
        }
    first, second = "The Ardent Bridge opened in 1931.", "It is green."
    assert strips["without refinement"] == [f"{first} {second}", CATS.text]
    assert strips["without selection"] == [first, second, CATS.text]
    assert strips["without web selection"] == [first]


def test_another_grader_comes_with_its_own_thresholds() -> None:
    class Sure(WordGrader):
        name, fingerprint = "sure", "sure-1"
        thresholds = Thresholds(0.8, 0.1)

    program = crag(k=3)
    other = with_grader(program, Sure())
    assert (other.settings.upper, other.settings.lower, other.settings.k) == (0.8, 0.1, 3)
    assert other.corrective.grade.part.name == "sure"
    assert with_grader(program, Sure(), upper=0.9).settings.upper == 0.9
    assert program.corrective.grade.part.name == "words"


def test_every_system_by_its_name(lm: Any) -> None:
    program = crag(k=2)
    names = [
        "none",
        "rag",
        "crag",
        "selfrag",
        "selfcrag",
        *(name.lower().replace(" ", "-") for name in NAMES),
    ]
    assert set(systems_of(program, ["ablations"])) == set(NAMES)
    with pytest.raises(ConfigError, match=next(iter(GRADERS)).replace(" ", "-")):
        systems_of(program, ["grader"])
    systems = systems_of(program, [*names, "rag:1"])
    assert len(systems) == len(names) + 1
    with dspy.context(lm=lm):
        predictions = {
            name: system(question="When did the Ardent Bridge open?") for name, system in systems.items()
        }
    assert predictions["no retrieval"].answer == "1900"
    assert predictions["RAG"].knowledge != predictions["RAG (1 passages)"].knowledge
    assert predictions["RAG"].answer == predictions["CRAG"].answer == "1931"
    with pytest.raises(ConfigError, match=r"systems must be of none, rag, .*without-correct.*got 'graphrag'"):
        systems_of(program, ["rag", "graphrag"])
    with pytest.raises(ConfigError, match="got 'rag:0'"):
        systems_of(program, ["rag:0"])


def test_slow_systems_are_compared_on_the_first_questions(lm: Any) -> None:
    systems = {"RAG": RAG([OPENED, CATS], k=2), "CRAG": crag(), "slow": crag(rewrite=False)}
    with dspy.context(lm=lm):
        compared = compare(systems, devset(), contains_word, limits={"slow": 2}, threads=1)
        small = compare(systems, devset()[:2], contains_word, threads=1)
    assert [system.name for system in compared.systems] == ["RAG", "CRAG"]
    assert compared.few is not None
    assert [system.name for system in compared.few.systems] == ["RAG", "CRAG", "slow"]
    assert (compared.questions, compared.few.questions) == (3, 2)
    for one, other in zip(compared.few.systems, small.systems, strict=True):
        assert (one.quality, one.change, one.coverage) == (other.quality, other.change, other.coverage)
    assert "on 2 questions, against RAG" in str(compared)
    assert "on 2 questions, against RAG" in compared.markdown()
    assert json.loads(json.dumps(compared.to_json()))["few"]["systems"][2]["name"] == "slow"


def test_seeds_are_samples_of_the_language_model(scripted_lm: Any, tmp_path: Path) -> None:
    """Values are means over seeds; the questions, and so the intervals, are no more than they were."""
    asked: list[int] = []

    def answer(request: Any) -> str:
        asked.append(1)
        return "1931" if len(asked) % 2 else "1900"

    lm = scripted_lm({"answer": answer}, temperature=0.7)
    with dspy.context(lm=lm):
        compared = compare(
            {"RAG": RAG([OPENED], k=1)}, devset()[:1], contains_word, seeds=(0, 1), run=tmp_path, threads=1
        )
        before = len(asked)
        again = compare(
            {"RAG": RAG([OPENED], k=1)}, devset()[:1], contains_word, seeds=(0, 1), run=tmp_path, threads=1
        )
    system = compared.systems[0]
    assert system.by_seed == (1.0, 0.0)
    assert (system.quality.mean, system.quality.n, system.coverage.mean) == (0.5, 1, 0.5)
    assert "2 seeds" in compared.title
    assert len(asked) == before == 2
    assert again.systems == compared.systems


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": (0, 1)}, "2 seeds at temperature 0 would all say the same"),
        ({"seeds": (0, 0)}, "seeds must be distinct"),
        ({"limits": {"RAG": 1}}, "'RAG' is what the others are compared with"),
        ({"limits": {"CRAGG": 1}}, "no system 'CRAGG'"),
        ({"limits": {"CRAG": 0}}, "at least 1 question, got 0"),
    ],
)
def test_what_cannot_be_compared_is_told_before_any_question(
    options: dict[str, Any], message: str, scripted_lm: Any
) -> None:
    lm = scripted_lm({"answer": "1931"}, temperature=0.0)
    systems = {"RAG": RAG([OPENED], k=1), "CRAG": crag()}
    with dspy.context(lm=lm), pytest.raises(ConfigError, match=message):
        compare(systems, devset(), contains_word, **options)
    assert lm.requests == []


def test_the_estimate_is_what_is_left(lm: Any, tmp_path: Path) -> None:
    systems = {"RAG": RAG([OPENED], k=1), "CRAG": crag()}
    with dspy.context(lm=lm):
        before = estimate_comparison(systems, devset(), run=tmp_path)
        assert lm.requests == []
        compare(systems, devset()[:2], contains_word, run=tmp_path, threads=1)
        made = len(lm.requests)
        after = estimate_comparison(systems, devset(), limits={"CRAG": 2}, run=tmp_path)
    assert (before.left, before.minutes) == (6, None)
    assert before.lm_calls is not None
    assert before.lm_calls >= 6
    assert "unknown minutes (--probe 2 measures)" in str(before)
    assert (after.left, after.lm_calls) == (1, 1)
    assert after.minutes is not None
    assert after.systems[1].lm_calls == (made - 2) / 2
    assert "1 answers to make, 4 are there; about 1 LM calls" in str(after)


def test_a_system_that_fails_does_not_end_the_comparison(lm: Any) -> None:
    class Broken(dspy.Module):
        def forward(self, question: str) -> dspy.Prediction:
            raise RuntimeError("down")

    with dspy.context(lm=lm):
        compared = compare({"CRAG": crag(), "broken": Broken()}, devset(), contains_word, threads=1)
    assert compared.systems[1].failures == 3
    assert compared.systems[1].quality.mean == 0.0


def test_other_programs_are_measured_by_what_they_say(lm: Any) -> None:
    class Plain(dspy.Module):
        def forward(self, question: str) -> dspy.Prediction:
            return dspy.Prediction(answer="in 1931", context="It opened in 1931.")

    systems = {"plain": Plain(), "SelfCRAG": SelfCRAG([OPENED], WordGrader(), web)}
    with dspy.context(lm=lm):
        compared = compare(systems, devset(), contains_word, threads=1, count_tokens=len, unit="characters")
    assert compared.systems[0].unsupported == 0.0
    assert compared.systems[0].context_tokens == len("It opened in 1931.")
    assert compared.systems[1].lm_calls > 1


def test_a_program_that_reads_more_than_it_answers_from_is_measured_by_all_of_it(lm: Any) -> None:
    class Chooses(dspy.Module):
        def forward(self, question: str) -> dspy.Prediction:
            return dspy.Prediction(
                answer="1931", knowledge="It opened.", read="It opened in 1931. It is green."
            )

    with dspy.context(lm=lm):
        found = compare({"chooses": Chooses()}, devset(), contains_word, threads=1, count_tokens=len).systems[
            0
        ]
    assert found.context_tokens == len("It opened in 1931. It is green.")
    assert found.unsupported == 0.0


def test_an_interrupted_comparison_goes_on(lm: Any, scripted_lm: Any, tmp_path: Path) -> None:
    def systems() -> dict[str, Any]:
        return {"RAG": RAG([OPENED], k=1), "CRAG": crag()}

    dying = scripted_lm(lm.engine.script, raises={4: KeyboardInterrupt()})
    with dspy.context(lm=dying), pytest.raises(KeyboardInterrupt):
        compare(systems(), devset(), contains_word, threads=1, run=tmp_path)
    rest = scripted_lm(lm.engine.script)
    with dspy.context(lm=rest):
        resumed = compare(systems(), devset(), contains_word, threads=1, run=tmp_path)
    with dspy.context(lm=lm):
        whole = compare(systems(), devset(), contains_word, threads=1)
    assert len(rest.requests) < len(lm.requests)
    assert [s.quality for s in resumed.systems] == [s.quality for s in whole.systems]
    assert json.loads((tmp_path / "comparison.json").read_text())["questions"] == 3


@pytest.mark.parametrize(
    ("names", "message"), [([], "systems is empty"), (["CRAG", "crag!"], "kept in one folder, 'crag'")]
)
def test_wrong_systems_are_told(names: list[str], message: str, lm: Any, tmp_path: Path) -> None:
    with dspy.context(lm=lm), pytest.raises(ConfigError, match=message):
        compare({name: crag() for name in names}, devset(), contains_word, run=tmp_path)
    assert lm.requests == []


def test_replies_from_the_cache_are_calls_all_the_same(scripted_lm: Any) -> None:
    """Two systems with one prompt need as many calls, whichever is asked first."""
    lm = scripted_lm({"answer": "1931"}, cache=True)
    systems = {"first": RAG([OPENED], k=1), "second": RAG([OPENED], k=1)}
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    try:
        with dspy.context(lm=lm):
            compared = compare(systems, devset(), contains_word, threads=1)
    finally:
        dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    first, second = compared.systems
    assert len(lm.requests) == 3
    assert (first.lm_calls, second.lm_calls, first.cached, second.cached) == (1.0, 1.0, 0.0, 1.0)
    told = "came from DSPy's cache (second 100%)"
    assert told in str(compared)
    assert told in compared.markdown()


def test_a_failure_is_no_answer_that_could_be_unsupported(lm: Any) -> None:
    class Unsteady(dspy.Module):
        def forward(self, question: str) -> dspy.Prediction:
            if "Ardent" in question:
                raise RuntimeError("down")
            return dspy.Prediction(answer="1800", knowledge="It opened in 1931.")

    with dspy.context(lm=lm):
        found = compare({"unsteady": Unsteady()}, devset(), contains_word, threads=1).systems[0]
    assert (found.failures, found.unsupported) == (1, 1.0)


def test_a_seed_keeps_its_answers_in_whatever_order_seeds_are_given(scripted_lm: Any, tmp_path: Path) -> None:
    lm = scripted_lm({"answer": lambda request: str(1900 + len(lm.requests))}, temperature=0.7)

    def by_seed(*seeds: int) -> dict[int, str]:
        compare(
            {"RAG": RAG([OPENED], k=1)}, devset()[:1], contains_word, seeds=seeds, run=tmp_path, threads=1
        )
        return {
            seed: read_rows(folder_of(tmp_path, "RAG", seed or None) / RESULTS)[0]["answer"] for seed in seeds
        }

    with dspy.context(lm=lm):
        one, other = by_seed(0, 1), by_seed(2, 0)
    assert one[0] == other[0]
    assert len({*one.values(), *other.values()}) == 3


def test_a_citation_is_no_part_of_what_must_stand_in_the_evidence() -> None:
    read = "[1] Ardent Bridge: It opened in 1931."
    values = [
        unsupported(None, dspy.Prediction(answer=said, knowledge=read)) for said in ("1931 [1]", "1932 [1]")
    ]
    assert values == [0.0, 1.0]


def in_documents(documents: int, each: int) -> list[dspy.Example]:
    """Questions on bridges that a document answers, and in half of the documents on one that only the web has."""
    return [
        dspy.Example(
            question=f"When did the {'Ardent' if number % 2 else 'Borel'} Bridge open? ({number}.{i})",
            answers=["1931" if number % 2 else "1950"],
            document=f"guide {number}",
        ).with_inputs("question")
        for number in range(documents)
        for i in range(each)
    ]


def test_documents_are_what_differences_are_over(lm: Any) -> None:
    """Sixty questions of six documents: three documents gained, which is no evidence, though thirty questions did."""
    systems = {"RAG": RAG([OPENED, CATS], k=2), "CRAG": crag()}
    with dspy.context(lm=lm):
        grouped = compare(systems, in_documents(6, 10), contains_word, threads=1)
        alone = compare(systems, in_documents(6, 10), contains_word, threads=1, by="question")
    (_, one), (_, other) = grouped.systems, alone.systems
    assert one.change is not None
    assert other.change is not None
    assert (one.change.groups, other.change.groups) == (6, 60)
    assert one.change.difference == other.change.difference == 0.5
    assert (one.verdict, other.verdict) == ("not better", "better")
    assert one.quality.high - one.quality.low > other.quality.high - other.quality.low
    assert "the 6 documents of 60 questions; with fewer than 8 they lean on every single one" in str(grouped)
    assert "not shown to be better: CRAG; 60 questions of 6 documents find a difference of" in str(grouped)
    assert "not shown to be better" not in str(alone)
    plain = json.loads(json.dumps(grouped.to_json()))
    assert plain["note"] in str(grouped)
    assert plain["systems"][1]["verdict"] == "not better"


def test_several_comparisons_have_their_p_values_raised(lm: Any) -> None:
    """Of the ablations one or another will look different by chance: the table's own numbers know."""
    program = crag()
    systems = {
        "RAG": RAG([OPENED, CATS], k=2),
        "CRAG": program,
        "without": ablations(program)["without rewriting"],
    }
    with dspy.context(lm=lm):
        compared = compare(systems, in_documents(12, 2), contains_word, threads=1)
        alone = compare({name: systems[name] for name in ("RAG", "CRAG")}, in_documents(12, 2), contains_word)
    first, *others = compared.systems
    assert first.p_holm is None
    assert first.verdict == ""
    for one in others:
        assert one.change is not None
        assert one.change.p_value == 2 / 2**6
        assert one.p_holm == 2 * one.change.p_value
        assert one.verdict == "not better"  # 0.0625, where each alone has 0.031
    assert alone.systems[1].p_holm == 2 / 2**6
    assert alone.systems[1].verdict == "better"
    assert "p (Holm)" in str(compared)
    assert "he p-values are raised for 2 comparisons with one system (Holm)" in compared.markdown()
    assert "Holm" not in str(alone)
    assert [one["p_holm"] for one in compared.to_json()["systems"]] == [None, 0.0625, 0.0625]
