"""What the README shows is what there is."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

from crag_dspy.commands import cli, table
from crag_dspy.config.reading import read_config

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "README.zh-CN.md", "CONTRIBUTING.md", "data/README.md")
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def test_the_first_screen_has_the_two_commands() -> None:
    """What it is, then the command that installs and shows it, then the one that installs and tests it."""
    first_screen = README.splitlines()[:25]
    commands = [line for line in first_screen if line.startswith("pip install ")]
    assert [line.rpartition(" && ")[2] for line in commands] == ["crag-dspy demo", "python -m pytest"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for line in commands:
        named = re.search(r"\.\[([\w,]+)\]", line)
        assert named is not None
        assert set(named[1].split(",")) <= set(project["optional-dependencies"])
        assert "-c constraints.txt" in line
    assert (ROOT / "constraints.txt").is_file()


@pytest.mark.parametrize("page", PAGES)
def test_links_inside_the_project_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = {link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link}
    assert [link for link in sorted(links) if not (ROOT / page).parent.joinpath(link).exists()] == []


def test_every_command_is_in_the_table_and_the_other_way_round() -> None:
    assert re.findall(r"^\| `([\w -]+)` \|", README, re.M) == list(table.COMMANDS)


def test_command_lines_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is parsed by the command it names, as it stands."""
    import shlex

    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("crag-dspy ")]
    assert len(lines) > 5
    for line in lines:
        cli.parsed(shlex.split(line)[1:])


def test_the_configuration_is_valid() -> None:
    (example,) = blocks("toml")
    config = read_config(tomllib.loads(example), ROOT / "crag.toml")
    assert set(config.parts) == {"retriever", "grader", "search", "lm", "generate"}


def test_what_the_examples_import_is_there() -> None:
    for block in blocks("python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module or "")
                for alias in node.names:
                    assert getattr(module, alias.name) is not None


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"^```(?:sh|python|toml)\n.*?^```$", id="blocks"),
        pytest.param(r"^\| `([\w -]+)` \|", id="commands"),
        pytest.param(r"^(#+) ", id="headings"),
        pytest.param(r"^\[\w+\]: \S+$", id="references"),
    ],
)
def test_the_chinese_page_follows_the_english_one(pattern: str) -> None:
    """Code, commands, levels of headings and sources are the same, so that the tests above hold for both pages."""
    english = re.findall(pattern, README, re.M | re.S)
    assert len(english) > 3
    assert re.findall(pattern, CHINESE, re.M | re.S) == english
