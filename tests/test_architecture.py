"""Which package may import which (DESIGN, section 3), read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# folder -> (its import name, the packages of this project that it may import)
PACKAGES = {
    "signatures": ("crag_dspy.signatures", {"crag_dspy.signatures"}),
    "crag_dspy": ("crag_dspy", {"crag_dspy", "crag_dspy.signatures", "crag_dspy.sample"}),
    "optimize": (
        "crag_dspy.optimize",
        {"crag_dspy", "crag_dspy.signatures", "crag_dspy.sample", "crag_dspy.optimize"},
    ),
    "evaluator_train": (
        "crag_dspy.evaluator_train",
        {"crag_dspy", "crag_dspy.signatures", "crag_dspy.sample", "crag_dspy.evaluator_train"},
    ),
    "data": ("crag_dspy.sample", set()),
}
MAPPED = {name for name, _ in PACKAGES.values()} - {"crag_dspy"}


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def owner(name: str) -> str | None:
    """The package of this project that a dotted name belongs to."""
    found = [package for package in MAPPED if name == package or name.startswith(f"{package}.")]
    if found:
        return found[0]
    return "crag_dspy" if name == "crag_dspy" or name.startswith("crag_dspy.") else None


@pytest.mark.parametrize("folder", PACKAGES)
def test_imports_go_one_way(folder: str) -> None:
    _, allowed = PACKAGES[folder]
    # `from crag_dspy import sample` names the package crag_dspy as well, which holds nothing of its own but names.
    lazily = {"crag_dspy"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, name in imported(path)
        if (package := owner(name)) is not None and package not in allowed | lazily
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", PACKAGES)
def test_imports_are_absolute(folder: str) -> None:
    """The mapping of folders to one import name breaks relative imports between them."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in (ROOT / folder).rglob("*.py")
        for line, name in imported(path)
        if name.startswith(".")
    ]
    assert wrong == []


def test_only_the_table_of_commands_names_what_is_above(monkeypatch: pytest.MonkeyPatch) -> None:
    above = ("crag_dspy.optimize", "crag_dspy.evaluator_train")
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "crag_dspy").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(above)
    }
    assert naming <= {"crag_dspy/cli.py"}


def test_every_folder_with_code_is_a_package_of_the_wheel() -> None:
    """A folder that pyproject.toml does not list is not installed."""
    import tomllib

    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {path.parent for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")}
    names = set()
    for path in folders:
        first, *rest = path.relative_to(ROOT).parts
        names.add(".".join([PACKAGES[first][0], *rest]))
    assert names == set(setuptools["packages"])
    assert {name: folder for folder, (name, _) in PACKAGES.items()} == setuptools["package-dir"]
