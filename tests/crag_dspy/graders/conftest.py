"""`tiny`: the module tests/tiny_t5.py (tests are no package, so it is loaded by its path)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def tiny() -> Any:
    spec = importlib.util.spec_from_file_location("tiny_t5", Path(__file__).parents[2] / "tiny_t5.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
