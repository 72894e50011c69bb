"""Every public name leads to its object, and importing the package loads none of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import crag_dspy


@pytest.mark.parametrize("name", crag_dspy.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(crag_dspy, name).__name__ == name


def test_names_are_listed_before_they_are_loaded() -> None:
    code = (
        "import crag_dspy, sys; assert 'CRAG' in dir(crag_dspy); assert 'crag_dspy.crag' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Crag'"):
        crag_dspy.Crag  # noqa: B018
