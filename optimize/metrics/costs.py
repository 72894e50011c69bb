"""What an answer cost: searches, language model calls and tokens, seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crag_dspy.actions import Action
from crag_dspy.optimize.metrics.observed import action_of, field_of
from crag_dspy.state.plain import Plain


@dataclass(frozen=True, slots=True)
class Cost(Plain):
    """What one question cost.

    searches: 1 when the web was searched. lm_calls and tokens (in and out): of all models. seconds: wall
    time.
    """

    searches: int = 0
    lm_calls: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        calls = f"{self.lm_calls} LM calls, {self.tokens} tokens"
        return f"{self.searches} web searches, {calls}, {self.seconds:.1f} s"


def cost_of(prediction: Any) -> Cost:
    """The cost that a prediction itself reports; zero for what it does not.

    A `CRAG` prediction reports everything. Of another program's, tokens are known when
    `dspy.settings.track_usage` was on. Tokens of replies that came from DSPy's cache are not counted: nobody
    paid for them.
    """
    trace = field_of(prediction, "trace")
    action = action_of(prediction)
    searches = int(action in (Action.INCORRECT, Action.AMBIGUOUS))
    if trace is not None:
        queries = field_of(trace, "queries")
        searches = searches if queries is None else int(bool(queries))  # without a web search none is sent
        tokens = int(sum(_mapping(trace, "lm_tokens").values()))
        seconds = _mapping(trace, "seconds")
        calls = int(field_of(trace, "lm_calls", 0))
        return Cost(searches, calls, tokens, float(sum(seconds.values())))
    usage: Mapping[str, Any] = getattr(prediction, "get_lm_usage", dict)() or {}
    return Cost(searches, 0, sum(map(_tokens, usage.values())), 0.0)


def _mapping(trace: Any, name: str) -> dict[str, float]:
    value = field_of(trace, name)
    return dict(value) if isinstance(value, Mapping) else {}


def _tokens(entry: Mapping[str, Any]) -> int:
    counted = [entry.get("prompt_tokens"), entry.get("completion_tokens")]
    return sum(int(count) for count in counted if isinstance(count, (int, float)))
