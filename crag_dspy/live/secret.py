"""A key that cannot be printed, logged or saved by accident."""

from __future__ import annotations

import os
from typing import Any

from crag_dspy.errors import ConfigError
from crag_dspy.live.keys import remember, without_keys


class Secret:
    """Prints as `[key]` and pickles as nothing: whoever loads the pickle uses their own environment.

    Args:
        given: the key itself, or None to read `variable` whenever the key is needed.
        variable: name of the environment variable.
    """

    __slots__ = ("_given", "variable")

    def __init__(self, given: str | None, variable: str) -> None:
        if given is not None and (not isinstance(given, str) or not given.strip()):
            raise ConfigError(f"key must be a non-empty str, or None to read {variable}")
        self._given = _sendable(given.strip(), "key") if given else None
        self.variable = variable
        if given:
            remember(given)

    def value(self) -> str | None:
        """The key, or None when there is none.

        Raises:
            ConfigError: the variable holds what no header can carry.
        """
        if self._given:
            return self._given
        found = os.environ.get(self.variable, "").strip()
        if found:
            remember(found)  # whatever the variable is called
            _sendable(found, self.variable)
        return found or None

    def removed_from(self, text: str) -> str:
        """`text` without this key, nor any other known one: services repeat what they were sent."""
        key = self._given or os.environ.get(self.variable, "").strip()
        return without_keys(text.replace(key, "[key]") if key else text)

    def __repr__(self) -> str:
        return "[key]"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Secret, (None, self.variable))


def _sendable(key: str, name: str) -> str:
    """`key`, unless it has characters that no header carries: the libraries that refuse them print the key."""
    if not key.isascii() or not key.isprintable():
        raise ConfigError(
            f"{name} holds a line break, a control character or a letter that is not ASCII, as no key does: "
            f"copy it again"
        )
    return key
