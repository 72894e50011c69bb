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
        raise ConfigError(f"{name} must be one of {', '.join(map(str, allowed))}, got {value!r}")


def check_question(value: Any) -> None:
    """A question says something."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"question must be a non-empty str, got {value!r}")


def check_whole(name: str, value: Any, least: int = 1, most: int | None = None) -> None:
    """`value` is an int (not a bool) from `least` to `most`."""
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or value < least
        or (most is not None and value > most)
    ):
        span = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{name} must be a whole number, {span}, got {value!r}")


def check_number(name: str, value: Any, least: float, most: float = math.inf) -> None:
    """`value` is a finite number (not a bool) from `least` to `most`."""
    if not is_number(value) or not least <= value <= most:
        span = f"at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
        raise ConfigError(f"{name} must be a number, {span}, got {value!r}")


def is_number(value: Any) -> bool:
    """Whether `value` is a finite int or float; a bool is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def check_flag(name: str, value: Any) -> None:
    """`value` is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, got {value!r}")


def check_text(name: str, value: Any) -> None:
    """`value` is a str."""
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be a str, got {value!r}")
