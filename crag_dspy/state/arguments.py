"""Checks of arguments. Each message names the field, the value and what it may be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """`value` is one of `allowed`."""
    if value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def check_question(value: Any) -> None:
    """A question says something."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"question must be a non-empty str, got {value!r}")


def check_whole(name: str, value: Any, least: int = 1, most: int | None = None) -> None:
    """`value` is an int (not a bool) from `least` to `most`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        span = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{name} must be a whole number, {span}, got {value!r}")


def check_number(name: str, value: Any, least: float, most: float = math.inf) -> None:
    """`value` is a finite number (not a bool) from `least` to `most`."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not least <= value <= most:
        span = f"at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
        raise ConfigError(f"{name} must be a number, {span}, got {value!r}")
