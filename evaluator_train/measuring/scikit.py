"""scikit-learn, imported where a figure is computed: training and measuring need it, answering does not."""

from __future__ import annotations

import importlib
from typing import Any

from crag_dspy.errors import MissingPackageError


def scikit(part: str) -> Any:
    """`sklearn.PART`; MissingPackageError saying what to install."""
    try:
        return importlib.import_module(f"sklearn.{part}")
    except ImportError as error:
        raise MissingPackageError(
            'measuring and calibrating a grader need scikit-learn: pip install ".[train]"'
        ) from error
