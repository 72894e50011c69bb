"""`crag-dspy compare` on a configuration whose parts are Python objects: systems, tasks, limits, estimate, graders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest
from command_line import run_command

from crag_dspy.errors import ConfigError, OutageError
from crag_dspy.optimize.comparison.comparing import compare
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.runs.folder import RESULTS, read_rows

TESTS = Path(__file__).parents[2]
TABLES = {"retriever": "retrieve", "grader": "grader", "search": "search", "lm": "lm"}
SETTINGS = "[settings]\nk = 1\nweb_results = 1\nstrip_threshold = -1.0\nevidence_threshold = -1.0\n"
CLAIMS = (("Paris is the capital of France.", "true"), ("Lyon is the capital of France.", "false"))


@pytest.fixture
def command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capitals_program: Any,
    capitals_devset: Any,
    capitals_script: Any,
    scripted_lm: Any,
) -> Callable[..., Any]:
    """Run the command in a folder with crag.toml, dev.jsonl and claims.jsonl; gives back the language model."""
    corrective = capitals_program().corrective

    def answer(request: Any) -> str:
        if "claim" in request.text:
            return "true" if "Paris" in request.inputs["question"] else "false"
        return str(capitals_script["answer"](request))

    parts = types.ModuleType("compared_parts")
    vars(parts).update(
        retrieve=corrective.retrieve.part,
        grader=corrective.grade.part,
        search=corrective.search.part,
        lm=scripted_lm({**capitals_script, "answer": answer, "verdict": "yes"}, temperature=0.0),
    )
    monkeypatch.setitem(sys.modules, "compared_parts", parts)
    monkeypatch.chdir(tmp_path)
    tables = "".join(f'[{table}]\nkind = "python:compared_parts:{name}"\n' for table, name in TABLES.items())
    Path("crag.toml").write_text(tables + SETTINGS)
    rows = [json.dumps(example.toDict()) for example in capitals_devset]
    Path("dev.jsonl").write_text("\n".join(rows))
    Path("claims.jsonl").write_text("\n".join(json.dumps({"claim": c, "answers": [a]}) for c, a in CLAIMS))

    def invoke(*arguments: str, questions: str = "dev.jsonl") -> Any:
        assert run_command("compare", questions, "--config", "crag.toml", *arguments) == 0
        return parts.lm  # type: ignore[attr-defined]

    return invoke


def names_of(markdown: str) -> list[str]:
    """The systems of the first table."""
    table = markdown.split("\n\n")[1].splitlines()
    return [line.split("|")[1].strip() for line in table[2:]]


def test_it_prints_tables_and_keeps_them(command: Any, capsys: Any) -> None:
    command("--systems", "none,rag,rag:3,crag,selfrag,selfcrag,ablations", "--markdown")
    said = capsys.readouterr()
    names = names_of(said.out)
    assert names[:6] == ["no retrieval", "RAG", "RAG (3 passages)", "CRAG", "SelfRAG", "SelfCRAG"]
    assert "without correct" in names
    assert said.err.startswith("estimate: ")
    assert Path("runs/compare/report.html").exists()
    assert Path("runs/compare/comparison.md").read_text().strip() == said.out.strip()
    with pytest.raises(ConfigError, match="systems must be of none, rag"):
        command("--systems", "crag,graphrag")
    with pytest.raises(ConfigError, match="--systems is empty"):
        command("--systems", ",")


def test_a_dry_run_calls_no_language_model(command: Any, capsys: Any) -> None:
    lm = command("--systems", "rag,crag", "--dry-run", "--json")
    told = json.loads(capsys.readouterr().out)["questions"]
    assert (told["answers"], told["minutes"]) == (12, None)
    assert told["lm_calls"] >= 12
    assert lm.requests == []
    assert not Path("runs").exists()


def test_the_estimate_is_measured_on_questions_that_count(command: Any, capsys: Any) -> None:
    lm = command("--systems", "rag", "--dry-run", "--probe", "2")
    assert len(lm.requests) == 2
    assert "4 answers to make, 2 are there; about 4 LM calls, 0 minutes" in capsys.readouterr().out
    assert len(command("--systems", "rag").requests) == 6
    assert len(command("--systems", "rag").requests) == 6  # all is there
    capsys.readouterr()
    command("--systems", "rag", "--fresh", "--dry-run")
    assert "6 answers to make, 0 are there" in capsys.readouterr().out  # not what is thrown away
    assert len(command("--systems", "rag", "--fresh").requests) == 12


def test_a_probe_does_not_take_the_place_of_a_finished_comparison(command: Any, capsys: Any) -> None:
    command("--systems", "rag")
    before = {name: Path("runs/compare", name).read_bytes() for name in ("comparison.json", "report.html")}
    command("--systems", "rag", "--dry-run", "--probe", "2")
    assert {name: Path("runs/compare", name).read_bytes() for name in before} == before


def test_slow_systems_are_asked_fewer_questions(command: Any, capsys: Any) -> None:
    command("--systems", "rag,crag,selfcrag", "--limit", "4", "--limit-slow", "2", "--json")
    found = json.loads(capsys.readouterr().out)
    assert [system["name"] for system in found["systems"]] == ["RAG", "CRAG"]
    assert found["questions"] == 4
    assert [system["name"] for system in found["few"]["systems"]] == ["RAG", "CRAG", "SelfCRAG"]
    assert found["few"]["questions"] == 2


def test_every_task_has_its_generator_and_metric(command: Any, capsys: Any) -> None:
    lm = command("--systems", "none,rag", "--task", "short", "--task", "claim:claims.jsonl", "--json")
    found = json.loads(capsys.readouterr().out)
    assert {name: one["metric"] for name, one in found.items()} == {
        "short": "contains_word",
        "claim-claims": "claim_accuracy",
    }
    assert found["claim-claims"]["systems"][1]["quality"]["mean"] == 1.0
    assert (
        found["claim-claims"]["systems"][1]["hallucination"]["mean"] == 0.0
    )  # "true" need not stand in a text
    assert any("Say whether the claim is true" in request.text for request in lm.requests)
    assert Path("runs/compare/claim-claims/report.html").exists()
    assert "### short" in Path("runs/compare/comparison.md").read_text()


def test_long_answers_are_judged_by_their_facts_where_there_is_a_judge(command: Any, capsys: Any) -> None:
    rows = [
        {
            "question": "Tell me about France.",
            "answers": ["Paris"],
            "context": "Paris is the capital of France.",
        }
    ]
    Path("lives.jsonl").write_text(json.dumps(rows[0]))
    lm = sys.modules["compared_parts"].lm
    lm.engine.script = {
        **lm.engine.script,
        "facts": "Paris is the capital of France.",
    }
    command("--systems", "rag", "--task", "long", "--judge", "local", "--json", questions="lives.jsonl")
    found = json.loads(capsys.readouterr().out)
    assert found["metric"] == "factscore"
    assert any("facts" in request.fields for request in lm.requests)
    command("--systems", "rag", "--task", "long", "--json", "--run", "runs/plain", questions="lives.jsonl")
    assert json.loads(capsys.readouterr().out)["metric"] == "grounded"


def test_evidence_alone_needs_no_language_model(command: Any, capsys: Any) -> None:
    """The cheap baselines come by default; with other questions to tune on, sentences also decline."""
    row = {"question": "What is the capital of Chile?", "answers": []}
    Path("others.jsonl").write_text(json.dumps(row))
    lm = command("--no-lm", "--json", "--systems", "words:3,both:1,crag", "--tune-on", "others.jsonl")
    found = json.loads(capsys.readouterr().out)
    assert not lm.requests
    assert found["metric"] == "answer_in_evidence"
    assert [one["name"] for one in found["systems"]] == [
        "3 best sentences (BM25)",
        "3 best sentences (BM25), declining",
        "RAG (1 passages, 1 pages)",
        "CRAG",
    ]


def test_what_needs_a_language_model_is_refused_without_one(command: Any) -> None:
    with pytest.raises(ConfigError, match="selfrag"):
        command("--no-lm", "--systems", "crag,selfrag")
    with pytest.raises(ConfigError, match="--task"):
        command("--no-lm", "--task", "short")


def test_seeds_need_a_temperature(command: Any, capsys: Any) -> None:
    with pytest.raises(ConfigError, match="2 seeds at temperature 0"):
        command("--systems", "rag", "--seeds", "0,1")
    command("--systems", "rag", "--seeds", "0,1", "--temperature", "0.7", "--run", "runs/warm", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["seeds"], len(found["systems"][0]["by_seed"])) == ([0, 1], 2)


def test_graders_by_the_actions_they_trigger(
    command: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "python:compared_parts:grader"
    command("--graders", f"{own},lm", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["questions"], found["relevant"]) == (6, 2)
    assert [one["name"] for one in found["graders"]] == [own, "lm"]
    rows = Path("dev.jsonl").read_text().splitlines()
    Path("others.jsonl").write_text("\n".join(rows[3:]))
    command("--graders", "mini", "--tune-on", "others.jsonl", "--limit", "3", "--run", "runs/tuned")
    assert "(tuned)" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="--tune-on has 3 of the questions that are compared"):
        command("--graders", "mini", "--tune-on", "others.jsonl")
    with pytest.raises(ConfigError, match="--tune-on has 3 of the questions that are compared"):
        command("--systems", "crag,lm-grader", "--tune-on", "others.jsonl")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "clam"), "claim"),
        (("--task", "short", "--task", "claim"), "write --task claim:FILE"),
        (("--task", "claim:claims.jsonl", "--metric", "contains"), "each has its own metric"),
        (
            ("--task", "claim:claims.jsonl", "--task", "claim:./claims.jsonl"),
            "two files would be kept as 'claim-claims'",
        ),
        (("--seeds", "one"), "--seeds must be whole numbers"),
        (("--probe", "-1"), "--probe must be at least 0"),
        (("--temperature", "3"), "--temperature must be between 0 and 2"),
        (("--graders", ""), "--graders is empty"),
    ],
)
def test_what_is_wrong_is_told(arguments: tuple[str, ...], message: str, command: Any) -> None:
    with pytest.raises(ConfigError, match=message):
        command(*arguments)


# A process that compares two systems and kills itself instead of serving call number `killed_at`.
CHILD = """
    import importlib.util, os, signal, sys
    from pathlib import Path

    def module(name, path):
        spec = importlib.util.spec_from_file_location(name, path)
        found = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    folder, killed_at, tests = sys.argv[1:]
    sys.path.insert(0, tests)
    shared = module("shared", Path(tests) / "conftest.py")
    capitals = module("capitals", Path(tests) / "capitals.py")

    import dspy
    from crag_dspy import RAG
    from crag_dspy.optimize.comparison.comparing import compare
    from crag_dspy.optimize.metrics.answers import contains_word

    class Deadly(shared.ScriptedEngine):
        def complete(self, request):
            if self.calls + 1 == int(killed_at):
                os.kill(os.getpid(), signal.SIGKILL)
            response = super().complete(request)
            with open(Path(folder) / "calls", "a") as file:
                file.write("call\\n")
            return response

    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    lm = dspy.LM("scripted/by-field", engine=Deadly(capitals.SCRIPT), num_retries=0, cache=False)
    systems = {
        "RAG": RAG(capitals.retrieve_by_country, k=1),
        "CRAG": capitals.capitals_program.__wrapped__()(),
    }
    with dspy.context(lm=lm):
        compare(systems, capitals.capitals_devset.__wrapped__(), contains_word, run=Path(folder) / "run", threads=1)
"""


def child(folder: Path, killed_at: int) -> int:
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(folder), str(killed_at), str(TESTS)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_comparison_that_was_killed_goes_on_in_the_system_it_was_in(
    tmp_path: Path, capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any
) -> None:
    from crag_dspy import RAG

    assert child(tmp_path, 9) == -signal.SIGKILL  # RAG is done, CRAG has begun
    rag = read_rows(tmp_path / "run" / "rag" / RESULTS)
    begun = read_rows(tmp_path / "run" / "crag" / RESULTS)
    assert (len(rag), 0 < len(begun) < 6) == (6, True)
    assert not (tmp_path / "run" / "comparison.json").exists()

    assert child(tmp_path, 0) == 0
    assert read_rows(tmp_path / "run" / "rag" / RESULTS) == rag
    assert read_rows(tmp_path / "run" / "crag" / RESULTS)[: len(begun)] == begun
    resumed = json.loads((tmp_path / "run" / "comparison.json").read_text())

    lm = scripted_lm(capitals_script)
    retrieve = capitals_program().corrective.retrieve.part
    with dspy.context(lm=lm):
        whole = compare(
            {"RAG": RAG(retrieve, k=1), "CRAG": capitals_program()}, capitals_devset, contains_word, threads=1
        )
    for one, other in zip(resumed["systems"], whole.to_json()["systems"], strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    made = (tmp_path / "calls").read_text().count("call")
    assert len(lm.requests) <= made <= len(lm.requests) + 1  # no more than the question that was in flight


def test_an_outage_ends_it_with_its_cause_and_is_gone_when_it_is_over(
    command: Callable[..., Any],
    model_server: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules["compared_parts"], "lm", model_server.lm(temperature=0.0))
    arguments = ["compare", "dev.jsonl", "--config", "crag.toml", "--run", "out"]
    with pytest.raises(
        OutageError, match="5 questions in a row failed, the last by language model: LMTransport"
    ):
        run_command(*arguments)
    assert run_command(*arguments, "--stop-after", "0") == 1
    printed = capsys.readouterr().out
    assert "failed: no retrieval 6, RAG 6, CRAG 6; these questions count as not right" in printed
    model_server.open()
    assert run_command(*arguments) == 0
    assert "failed:" not in capsys.readouterr().out
