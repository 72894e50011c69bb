"""Every public name leads to its object, importing a package loads none of them, and none hides a module."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import crag_dspy

PACKAGES = ("crag_dspy", "crag_dspy.optimize", "crag_dspy.optimize.metrics", "crag_dspy.evaluator_train")
NAMES = [(package, name) for package in PACKAGES for name in importlib.import_module(package).__all__]


@pytest.mark.parametrize("name", crag_dspy.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(crag_dspy, name).__name__ == name


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_a_name_leads_to_what_is_called_and_says_what_it_is(package: str, name: str) -> None:
    found = getattr(importlib.import_module(package), name)
    assert callable(found)
    assert found.__doc__


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_listed_before_they_are_loaded(package: str) -> None:
    module = importlib.import_module(package)
    home = vars(module)["_HOMES"][module.__all__[0]].partition(":")[0]
    code = (
        f"import {package} as package, sys; assert {module.__all__[0]!r} in dir(package); "
        f"assert '{package}.{home}' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_that_of_a_module(package: str) -> None:
    """After `from package import name` one would hold the module or the object, as the case may be."""
    module = importlib.import_module(package)
    inside = {found.name for found in pkgutil.iter_modules(module.__path__)}
    assert inside & set(module.__all__) == set()
    assert set(vars(module)["_HOMES"]) == set(module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match="no attribute 'Crag'"):
        importlib.import_module(package).Crag  # noqa: B018


def packages() -> list[str]:
    import pkgutil

    walked = pkgutil.walk_packages(crag_dspy.__path__, "crag_dspy.")
    return ["crag_dspy", *(found.name for found in walked if found.ispkg)]


@pytest.mark.parametrize("package", packages())
def test_no_exported_name_is_that_of_a_submodule(package: str) -> None:
    """After `from package import name` one must hold what the name says, whatever was imported before."""
    import importlib
    import pkgutil

    module = importlib.import_module(package)
    inside = {found.name for found in pkgutil.iter_modules(module.__path__)}
    exported = set(getattr(module, "__all__", ())) | set(getattr(module, "_HOMES", ()))
    assert exported & inside == set()


def test_the_plug_exports_its_verbs() -> None:
    from crag_dspy import plug

    assert set(plug.__all__) >= {"as_tool", "as_rm", "as_langchain", "as_llama_index", "corrected"}
    assert crag_dspy.corrected is plug.corrected is plug.corrective
