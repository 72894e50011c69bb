"""`crag-dspy doctor`: it finds what is missing, names the fix, and sends nothing."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from crag_dspy.commands import cli, doctor_checks
from crag_dspy.retrievers.local import LocalIndex

KEY = "planted-key-1a2b3c4d"
GRADER = "[grader]\nkind = 'python:operator:length_hint'\n"  # any callable will do: doctor asks it nothing
LM = "[lm]\nmodel = 'openai/gpt-4o-mini'\n"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*doctor_checks.PROVIDER_KEYS.values(), "TAVILY_API_KEY", "WEAVIATE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every attempt to resolve a name or to connect, each of which fails."""
    attempts: list[Any] = []

    def refused(*args: Any, **kwargs: Any) -> Any:
        attempts.append(args)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket.socket, "connect_ex", refused)
    return attempts


def doctor(
    folder: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, dict[str, str]]]:
    (folder / "crag.toml").write_text(text, encoding="utf-8")
    status = cli.main(["doctor", "--config", str(folder / "crag.toml"), "--json"])
    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return status, {finding["name"]: finding for finding in findings}


@pytest.fixture
def index(tmp_path: Path) -> str:
    LocalIndex.create(tmp_path / "docs", embedder=None).add(["One text.", "Another."])
    return "[retriever]\npath = 'docs'\n"


def test_a_whole_configuration_is_ok_and_its_keys_are_not_shown(
    tmp_path: Path,
    index: str,
    sent: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    status, found = doctor(tmp_path, f"{index}{GRADER}{LM}[search]\nkind = 'tavily'\n", capsys)
    assert status == 0
    assert "2 passages, text, embedder none" in found["retriever"]["says"]
    assert found["search"]["says"] == "Tavily, key in TAVILY_API_KEY; not contacted"
    assert found["OPENAI_API_KEY"]["says"] == "set"
    assert KEY not in json.dumps(found)
    assert cli.main(["doctor", "--config", str(tmp_path / "crag.toml")]) == 0
    shown = capsys.readouterr().out
    assert "nothing is missing" in shown
    assert KEY not in shown
    assert sent == []


def test_what_is_missing_comes_with_its_fix(
    tmp_path: Path, sent: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"[retriever]\npath = 'docs'\n{GRADER}{LM}[search]\nkind = 'tavily'\nkey_env = 'MY_TAVILY'\n"
    status, found = doctor(tmp_path, "program = 'crag.json'\n" + text, capsys)
    assert status == 1
    assert {name for name, finding in found.items() if finding["state"] == "missing"} == {
        "retriever",
        "search",
        "OPENAI_API_KEY",
        "program",
    }
    assert "docs holds no index" in found["retriever"]["says"]
    assert found["search"]["fix"] == "export MY_TAVILY=..."
    assert found["OPENAI_API_KEY"]["fix"] == "export OPENAI_API_KEY=..."
    assert sent == []


def test_services_and_the_hub_are_not_contacted(
    tmp_path: Path, sent: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "[retriever]\nkind = 'weaviate'\nurl = 'http://weaviate.example:8080'\ncollection = 'Docs'\n"
        "[grader]\nsource = 'some-body/some-grader'\n[search]\nkind = 'tavily'\nkeyless = true\n"
        "[lm]\nmodel = 'hosted_vllm/some-model'\napi_base = 'http://models.example/v1'\n"
    )
    status, found = doctor(tmp_path, text, capsys)
    assert (status, sent) == (1, [])
    assert found["retriever"]["says"] == "http://weaviate.example:8080, no key; not contacted"
    assert found["search"]["says"] == "keyless, no key; not contacted"
    assert found["lm"]["says"] == "hosted_vllm/some-model at http://models.example/v1; not contacted"
    assert found["grader"]["state"] == "missing"
    assert "hub" in found["grader"]["says"]


def test_an_index_of_another_embedder_is_found_before_the_first_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LocalIndex.create(tmp_path / "docs", lambda texts: [[1.0, 0.0]] * len(texts))
    _, found = doctor(tmp_path, f"[retriever]\npath = 'docs'\n{GRADER}{LM}", capsys)
    assert "which only you can pass" in found["retriever"]["says"]


def test_a_configuration_that_cannot_be_read_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = doctor(tmp_path, "[retreiver]\n", capsys)
    assert status == 1
    assert "did you mean 'retriever'" in found["configuration"]["says"]


def test_a_program_without_retriever_or_language_model_cannot_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = doctor(tmp_path, GRADER, capsys)
    assert (status, found["retriever"]["state"], found["lm"]["state"]) == (1, "missing", "missing")
    assert found["search"]["state"] == "note"


def test_a_faulty_part_of_the_users_own_is_a_finding(
    tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_parts_for_doctor.py").write_text("def broken(**options): return 1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    own = "[search]\nkind = 'python:own_parts_for_doctor:broken'\n[search.arguments]\nsites = 3\n"
    status, found = doctor(tmp_path, f"{index}{GRADER}{LM}{own}", capsys)
    assert status == 1
    assert found["search"]["says"] == "ZeroDivisionError: division by zero"


def test_a_package_that_is_not_there_is_missing_only_where_it_is_needed() -> None:
    core = doctor_checks._package("no-such-distribution", "")
    assert (core.state, core.fix) == ("missing", "pip install no-such-distribution")
    extra = doctor_checks._package("no-such-distribution", "train")
    assert (extra.state, extra.fix) == ("optional", 'pip install ".[train]" in the checkout')


def test_the_packages_are_those_that_the_distribution_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "dspy<3.5,>=3.4",
        'optuna>=4.5; extra == "train"',
        "mypy; extra == 'dev'",
        'dspy; extra == "local"',
    ]
    monkeypatch.setattr(doctor_checks.metadata, "requires", {doctor_checks.PROJECT: lines}.get)
    assert doctor_checks.required() == {"dspy": "", "optuna": "train"}


def test_every_extra_that_users_have_is_explained() -> None:
    import tomllib

    text = (Path(__file__).resolve().parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    extras = set(tomllib.loads(text)["project"]["optional-dependencies"])
    assert extras - {"dev"} == set(doctor_checks.EXTRAS)
