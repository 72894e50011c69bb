"""Which package may import which (CONTRIBUTING.md, "Layout"), read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# folder -> (its import name, the packages of this project that it may import)
PACKAGES = {
    "signatures": ("crag_dspy.signatures", {"crag_dspy.signatures"}),
    "crag_dspy/commands": (
        "crag_dspy.commands",
        {
            "crag_dspy",
            "crag_dspy.commands",
            "crag_dspy.signatures",
            "crag_dspy.sample",
            "crag_dspy.optimize",
            "crag_dspy.evaluator_train",
        },
    ),
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


def sources(folder: str) -> list[Path]:
    """The files of a package, without those of another package of the table that lies in its folder."""
    inner = [ROOT / other for other in PACKAGES if other.startswith(f"{folder}/")]
    return sorted(
        path
        for path in (ROOT / folder).rglob("*.py")
        if not any(path.is_relative_to(other) for other in inner)
    )


def modules() -> dict[str, Path]:
    """Dotted name -> file of everything in the four folders."""
    found = {}
    for folder, (name, _) in PACKAGES.items():
        for path in sources(folder):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([name, *parts]).removesuffix(".__init__")] = path
    return found


def test_no_module_imports_itself_in_a_circle() -> None:
    """At run time, inside functions too; what is imported for types alone runs nothing."""
    known = modules()
    edges: dict[str, set[str]] = {}
    for name, path in known.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        typing = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for inner in ast.walk(node)
        }
        edges[name] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and id(node) not in typing:
                targets = {f"{node.module}.{alias.name}" for alias in node.names} & set(known)
                edges[name] |= targets or ({node.module} & set(known))
        edges[name].discard(name)
    assert list(circles(edges)) == []


def circles(edges: dict[str, set[str]]) -> Iterator[list[str]]:
    """Groups of nodes that reach each other (Tarjan's strongly connected components, larger than one)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> Iterator[list[str]]:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(edges.get(node, ())):
            if target not in index:
                yield from visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                yield sorted(group)

    for node in sorted(edges):
        if node not in index:
            yield from visit(node)


def test_a_circle_is_found() -> None:
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == [["a", "b", "c"]]


@pytest.mark.parametrize("folder", PACKAGES)
def test_imports_go_one_way(folder: str) -> None:
    _, allowed = PACKAGES[folder]
    # `from crag_dspy import sample` names the package crag_dspy as well, which holds nothing of its own but names.
    lazily = {"crag_dspy"}
    entrance = ROOT / "crag_dspy" / "__main__.py"  # `python -m crag_dspy` is the command line
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources(folder)
        if path != entrance
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


def test_only_the_commands_name_what_is_above() -> None:
    above = ("crag_dspy.optimize", "crag_dspy.evaluator_train")
    naming = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "crag_dspy").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(above)
    }
    assert {name for name in naming if not name.startswith("crag_dspy/commands/")} == set()


def test_every_folder_with_code_is_a_package_of_the_wheel() -> None:
    """A folder that pyproject.toml does not list is not installed."""
    import tomllib

    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {path.parent for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")}
    folders -= {ROOT / "evaluator_train" / "mini"}  # how the shipped grader was made: runs from a checkout
    names = set()
    for path in folders:
        first, *rest = path.relative_to(ROOT).parts
        names.add(".".join([PACKAGES[first][0], *rest]))
    assert names == set(setuptools["packages"])
    mapped = {name: folder for folder, (name, _) in PACKAGES.items() if "/" not in folder}
    assert mapped == setuptools["package-dir"]


def test_no_folder_is_flatter_than_a_reader_can_hold() -> None:
    """A room is known by its folder: about 25 files at most (the entrance of `crag_dspy/` included)."""
    folders = {path.parent for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")}
    assert {folder.name: n for folder in folders if (n := len(list(folder.glob("*.py")))) > 25} == {}


@pytest.mark.parametrize("module", ["argparse"])
def test_only_the_commands_know_the_command_line(module: str) -> None:
    allowed = (ROOT / "crag_dspy" / "commands", ROOT / "evaluator_train" / "mini")
    wrong = [
        path.relative_to(ROOT).as_posix()
        for folder in PACKAGES
        for path in sources(folder)
        if not any(path.is_relative_to(folder) for folder in allowed)
        and module in {name for _, name in imported(path)}
    ]
    assert wrong == []
