"""`python:package.module:attribute`: an object of your own, named in a configuration or on a command line."""

from __future__ import annotations

import importlib
from typing import Any

from crag_dspy.errors import ConfigError

PREFIX = "python:"


def imported(name: str) -> Any:
    """The object of that name, with or without `python:` before it. Raises ConfigError saying what is missing of it."""
    module, _, attribute = name.removeprefix(PREFIX).partition(":")
    name = PREFIX + name.removeprefix(PREFIX)
    if not module or not attribute:
        raise ConfigError(f'kind must be like "python:package.module:attribute", got {name!r}')
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"kind {name!r}: no module {error.name!r}: install it, or set PYTHONPATH to its folder"
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"kind {name!r}: {module} has no {attribute}")
        found = getattr(found, part)
    return found
