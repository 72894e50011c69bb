"""Everything tunable that is not a prompt, as one `dspy.Parameter`: saved, loaded and searched with the program."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from dspy.predict.parameter import Parameter

from crag_dspy.actions import POLICIES, Policy, Thresholds
from crag_dspy.errors import ConfigError, StateError
from crag_dspy.refine import STRIP_MODES, StripMode

NoEvidence = Literal["abstain", "answer"]
GradeBy = Literal["passage", "strips"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "policy": POLICIES,
    "strip_mode": STRIP_MODES,
    "grade_by": get_args(GradeBy),
    "no_evidence": get_args(NoEvidence),
}
_COUNTS = {"k": 1, "web_results": 1, "strip_size": 1, "top_n": 1}
_SIGNED = ("upper", "lower", "strip_threshold")


@dataclasses.dataclass
class Settings(Parameter):
    """What an optimizer of thresholds may change; assignments are checked, so that a bad value never gets in.

    Attributes:
        upper, lower: the two thresholds, in [-1, 1], lower <= upper.
        policy: "max" (the paper) or "vote" (every passage is judged).
        k: passages to retrieve.
        web_results: pages to ask the web search for.
        grade_by: "passage": the grader reads every passage, then the strips of it. "strips": a passage's score is
            that of its best strip, which reads the text once instead of twice.
        strip_mode, strip_size: see `refine.decompose`.
        top_n: strips kept per origin.
        strip_threshold: strips below it are dropped, in [-1, 1].
        rewrite: rewrite the question to keywords for the web search; False sends the question itself.
        no_evidence: "abstain" says that the evidence is not there, "answer" asks the language model all the same.
        grader, grader_fingerprint: the grader these thresholds were tuned on ("" when nobody did).
    """

    upper: float = 0.59
    lower: float = -0.99
    policy: Policy = "max"
    k: int = 10
    web_results: int = 5
    grade_by: GradeBy = "passage"
    strip_mode: StripMode = "sentence"
    strip_size: int = 1
    top_n: int = 5
    strip_threshold: float = -0.5
    rewrite: bool = True
    no_evidence: NoEvidence = "abstain"
    grader: str = ""
    grader_fingerprint: str = ""

    def __post_init__(self) -> None:
        Thresholds(self.upper, self.lower)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, _checked(name, value))

    @property
    def thresholds(self) -> Thresholds:
        """Both cuts, checked against each other."""
        values = self.__dict__.copy()
        return Thresholds(values["upper"], values["lower"])

    def update(self, values: Mapping[str, Any]) -> None:
        """Set several at once, all or none: nothing changes when one of them is wrong."""
        checked = {name: _checked(name, value) for name, value in values.items()}
        Thresholds(checked.get("upper", self.upper), checked.get("lower", self.lower))
        self.__dict__.update(checked)  # at once: another thread never sees one cut of two

    def to_json(self) -> dict[str, Any]:
        """Plain data, a key a field."""
        return dataclasses.asdict(self)

    # What DSPy asks of a Parameter. Optimizers reset and copy parameters; settings are not theirs to reset.

    def reset(self) -> None:
        """Keep the settings: a reset forgets demos, not thresholds."""

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The state that `program.save` writes."""
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
        defaults = {field.name: field.default for field in dataclasses.fields(Settings)}
        try:
            self.update({**defaults, **state})
        except ConfigError as error:
            raise StateError(f"saved settings: {error}") from error


def _checked(name: str, value: Any) -> Any:
    names = [field.name for field in dataclasses.fields(Settings)]
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        raise ConfigError(
            f"unknown setting {name!r}" + (f": did you mean {near[0]!r}?" if near else f", not in {names}")
        )
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise ConfigError(f"{name} must be one of {', '.join(_CHOICES[name])}, got {value!r}")
    elif name in _COUNTS:
        if isinstance(value, bool) or not isinstance(value, int) or value < _COUNTS[name]:
            raise ConfigError(f"{name} must be an integer of at least {_COUNTS[name]}, got {value!r}")
    elif name in _SIGNED:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or math.isnan(value) or not -1 <= value <= 1:
            raise ConfigError(f"{name} must be a number in [-1, 1], got {value!r}")
        return float(value)
    elif name == "rewrite":
        if not isinstance(value, bool):
            raise ConfigError(f"rewrite must be true or false, got {value!r}")
    elif not isinstance(value, str):
        raise ConfigError(f"{name} must be a str, got {value!r}")
    return value
