"""Settings as a `dspy.Parameter`: checked when they are set, and saved, loaded and copied with the program."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from dspy.predict.parameter import Parameter

from crag_dspy.errors import ConfigError, StateError
from crag_dspy.state.arguments import check_choice, check_flag, check_number, check_text, check_whole

# Takes the setting's name and a value, and gives the value back, or raises `ConfigError`.
Rule = Callable[[str, Any], Any]

# Seconds: a grader of billions of parameters may need minutes for long pages on a CPU; what needs longer hangs.
TIME_LIMIT = 600.0
A_DAY = 86_400.0


class Tunable(Parameter):
    """The base of settings: a dataclass with a rule a field, so that a bad value never gets in."""

    RULES: ClassVar[Mapping[str, Rule]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, self.checked(name, value))

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """The value as it is kept. Raises `ConfigError` naming the field, or the field that was probably meant."""
        rule = cls.RULES.get(name)
        if rule is None:
            names = list(cls.RULES)
            near = difflib.get_close_matches(name, names, 1)
            raise ConfigError(
                f"unknown setting {name!r}"
                + (f": did you mean {near[0]!r}?" if near else f", not in {names}")
            )
        return rule(name, value)

    def update(self, values: Mapping[str, Any]) -> None:
        """Set several at once, all or none: nothing changes when one of them is wrong."""
        checked = {name: self.checked(name, value) for name, value in values.items()}
        self.check_together({**self.__dict__, **checked})
        self.__dict__.update(checked)  # at once: another thread never sees one cut of two

    def check_together(self, values: Mapping[str, Any]) -> None:
        """Raise `ConfigError` when values that are right alone are wrong together."""

    def to_json(self) -> dict[str, Any]:
        """Plain data, a key a field."""
        return dict(self.__dict__)

    # What DSPy asks of a Parameter. Optimizers reset and copy parameters; settings are not theirs to reset.

    def reset(self) -> None:
        """Keep the settings: a reset forgets demos, not thresholds."""

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The state that `program.save` writes. Raises `ConfigError` for what could not be loaded again."""
        self.check_together(self.__dict__)  # set one by one, in whatever order, they were checked alone
        return self.to_json()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Read what `dump_state` wrote. Fields that an older file lacks get their defaults; the rest must be valid.

        Raises:
            StateError: naming the field. The settings are then unchanged.
        """
        if not isinstance(state, Mapping):
            raise StateError(
                f"settings must be a mapping, got {type(state).__name__}: is this file a saved program?"
            )
        defaults = {field.name: field.default for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        try:
            self.update({**defaults, **state})
        except ConfigError as error:
            raise StateError(f"saved settings: {error}") from error


def one_of(*allowed: str) -> Rule:
    """One of some words."""
    return _rule(lambda name, value: check_choice(name, value, allowed))


def whole(least: int) -> Rule:
    """An int, not a bool, of at least `least`."""
    return _rule(lambda name, value: check_whole(name, value, least))


def number(least: float, most: float) -> Rule:
    """A number, not a bool, in [least, most]; kept as a float."""
    return _rule(lambda name, value: check_number(name, value, least, most), float)


def _rule(check: Callable[[str, Any], None], kept: Callable[[Any], Any] = lambda value: value) -> Rule:
    def rule(name: str, value: Any) -> Any:
        check(name, value)
        return kept(value)

    return rule


flag: Rule = _rule(check_flag)
text: Rule = _rule(check_text)
