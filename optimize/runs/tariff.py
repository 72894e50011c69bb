"""What the tokens of a language model cost, in dollars: given, or from the table that LiteLLM brings along."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from crag_dspy.errors import ConfigError
from crag_dspy.state.arguments import check_number

_TABLE = "model_prices_and_context_window_backup.json"


@dataclass(frozen=True, slots=True)
class Tariff:
    """Dollars for a million tokens, in and out. Tokens that a provider kept in a cache of its own count in full."""

    prompt: float
    completion: float

    def __post_init__(self) -> None:
        for name in ("prompt", "completion"):
            check_number(f"price of a million {name} tokens", getattr(self, name), 0)

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Dollars."""
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) / 1e6


def tariff_of(model: str) -> Tariff | None:
    """From LiteLLM's table on disk, by the name that `dspy.LM` takes; None for a model that is not in it."""
    table = _table()
    entry = table.get(model) or table.get(model.partition("/")[2]) or {}
    prompt, completion = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not isinstance(prompt, (int, float)) or not isinstance(completion, (int, float)):
        return None
    return Tariff(prompt * 1e6, completion * 1e6)


def read_tariff(text: str) -> Tariff:
    """Of "0.15,0.6": dollars for a million tokens in and out."""
    try:
        prompt, completion = (float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(
            f"a price must be like 0.15,0.6 (dollars a million tokens in, out), got {text!r}"
        ) from error
    return Tariff(prompt, completion)


@cache
def _table() -> Mapping[str, Any]:
    # The file alone: importing the package takes seconds, and asks the network for a newer table.
    package = importlib.util.find_spec("litellm")
    if package is None or not package.submodule_search_locations:
        return {}
    path = Path(package.submodule_search_locations[0], _TABLE)
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found
