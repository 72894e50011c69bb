"""A limit on what language models may cost that holds: counted where calls are made, and refused beyond it.

    with capped(Cap(calls=500, cost=2.0)) as cap:
        evaluate(program, devset, metric, run="runs/dev")
    print(cap.spent)

Judges and teachers are counted like the program. A reply from DSPy's cache is not: nobody paid for it. What was paid
for before the cap is kept by whoever keeps results, and starting again goes on from there with a cap of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dspy

from crag_dspy.errors import BudgetSpentError, ConfigError
from crag_dspy.live.held import Held
from crag_dspy.optimize.runs.lm_calls import LMCall, through
from crag_dspy.optimize.runs.tariff import Tariff, tariff_of
from crag_dspy.state.arguments import check_number, check_whole

_SETTING = "crag_dspy_refusals"


@dataclass(frozen=True, slots=True)
class Spent:
    """LM calls, tokens in and out, dollars."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __str__(self) -> str:
        cost = f", ${self.cost:.4f}" if self.cost else ""
        return f"{self.calls:,} LM calls, {self.tokens:,} tokens{cost}"


class Cap(Held):
    """Counts calls from any thread, and refuses those beyond a limit. None: no limit, only counted.

    Args:
        calls: LM calls; each of several replies to one request is one.
        tokens: in and out. Known only afterwards, so the call that passes the limit is made, with those that are on
            their way at the same time, and no other is begun. Of a model that does not say how many it took, the
            bytes of its texts are counted: no token is smaller.
        cost: dollars; held as tokens are.
        tariff: prices of every model, or of models by name; what is not given comes from LiteLLM's table.
    """

    def __init__(
        self,
        calls: int | None = None,
        tokens: int | None = None,
        cost: float | None = None,
        tariff: Tariff | Mapping[str, Tariff] | None = None,
    ) -> None:
        for name, value in (("max_calls", calls), ("max_tokens", tokens)):
            if value is not None:
                check_whole(name, value, 0)
        if cost is not None:
            check_number("max_cost", cost, 0)
        self.calls, self.tokens, self.cost = calls, tokens, cost
        self.tariff = tariff
        self.refused = 0
        self._spent = Spent()
        self._lock = threading.Lock()

    @property
    def spent(self) -> Spent:
        return self._spent

    @property
    def left(self) -> int | None:
        """LM calls; None without a limit on them."""
        return None if self.calls is None else max(0, self.calls - self._spent.calls)

    def known(self, call: LMCall) -> None:
        """A cap knows no replies."""

    @contextmanager
    def around(self, call: LMCall) -> Iterator[None]:
        calls = 0 if call.free else call.prepared.n
        if calls:
            self._take(calls, call.lm.model)
        try:
            yield
        finally:
            free = not call.made or (call.result is not None and call.result.cache_hit)
            if free:  # a gate further in refused it, or another thread's reply had come into the cache
                self._add(-calls)
            elif call.result is not None:
                self._add(0 if calls else call.prepared.n, *_tokens(call))

    def price(self, model: str) -> Tariff | None:
        given = self.tariff.get(model) if isinstance(self.tariff, Mapping) else self.tariff
        return given or tariff_of(model)

    def check_priced(self, model: str) -> None:
        """Raises `ConfigError` when dollars are limited and nobody knows what the model costs."""
        if self.cost is not None and self.price(model) is None:
            raise ConfigError(
                f"max_cost needs the price of {model}, which LiteLLM's table does not have: give it "
                f"(--token-price 0.15,0.6, in dollars a million tokens; Cap(tariff=Tariff(0.15, 0.6)) in Python)"
            )

    def _take(self, calls: int, model: str) -> None:
        self.check_priced(model)
        with self._lock:
            reached = self._reached(calls)
            if reached is None:
                self._spent = Spent(self._spent.calls + calls, self._spent.tokens, self._spent.cost)
                return
            self.refused += 1
        error = BudgetSpentError(f"{reached}: raise it, and run again to go on from what is there")
        for seen in dspy.settings.get(_SETTING) or ():
            seen.append(error)
        raise error

    def _reached(self, calls: int) -> str | None:
        if self.calls is not None and self._spent.calls + calls > self.calls:
            return f"the limit of {self.calls:,} LM calls is spent"
        if self.tokens is not None and self._spent.tokens >= self.tokens:
            return f"the limit of {self.tokens:,} tokens is spent"
        if self.cost is not None and self._spent.cost >= self.cost:
            return f"the limit of ${self.cost:g} is spent"
        return None

    def _add(self, calls: int, model: str = "", prompt: int = 0, completion: int = 0) -> None:
        price = self.price(model) if model else None
        cost = price.of(prompt, completion) if price is not None else 0.0
        with self._lock:
            now = self._spent
            self._spent = Spent(now.calls + calls, now.tokens + prompt + completion, now.cost + cost)


@contextmanager
def capped(cap: Cap) -> Iterator[Cap]:
    """Within, `cap` counts and limits every call of a language model, as do the caps of contexts around.

    Raises:
        ConfigError: dollars are limited, and the configured model has no known price.
    """
    if dspy.settings.lm is not None:
        cap.check_priced(dspy.settings.lm.model)
    with through(cap):
        yield cap


@contextmanager
def refusals() -> Iterator[list[BudgetSpentError]]:
    """The calls that a cap refused within: who could not ask has no result to keep."""
    seen: list[BudgetSpentError] = []
    with dspy.context(**{_SETTING: (*(dspy.settings.get(_SETTING) or ()), seen)}):
        yield seen


@contextmanager
def calling_nothing() -> Iterator[None]:
    """Within, every call is refused, for work that must cost nothing; `refusals` around it does not see them."""
    with dspy.context(**{_SETTING: ()}), capped(Cap(calls=0)):
        yield


def _tokens(call: LMCall) -> tuple[str, int, int]:
    """(model, tokens in, tokens out)."""
    usage: Mapping[str, Any] = call.result.usage if call.result is not None else {}
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if prompt is None and completion is None:
        replies = call.result.outputs if call.result is not None else []
        prompt, completion = (
            _bytes(call.prepared.messages or call.prepared.prompt or call.request),
            _bytes(replies),
        )
    return call.lm.model, int(prompt or 0), int(completion or 0)


def _bytes(content: Any) -> int:
    return len(str(content).encode("utf-8", "replace"))
