"""One place through which every call of a language model goes, whoever makes it: a program, a judge, an optimizer.

A model may be the configured one, a predictor's own, or held by a metric where nobody can see it. All of them are
executed by one function of DSPy, so that is where a gate stands: it sees a call before it is made, may refuse it by
raising, and may know the reply. Gates are a setting of DSPy, which its threads carry, and so hold within a `with`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol

import dspy
from dspy.clients import execution
from dspy.clients.call_result import CallResult

_SETTING = "crag_dspy_gates"


class LMCall:
    """One call on its way.

    Attributes:
        lm: the model.
        prepared: DSPy's own view of the call: messages, arguments, number of replies.
        free: whether the reply is known already, and nobody pays for it.
        made: whether the call went to the model, or to what stands for it.
        result: the replies with usage; None before, and when the call failed.
    """

    def __init__(self, lm: Any, prepared: Any, asynchronous: bool) -> None:
        self.lm = lm
        self.prepared = prepared
        self.asynchronous = asynchronous
        self.free = False
        self.made = False
        self.result: CallResult | None = None

    @property
    def request(self) -> dict[str, Any]:
        """All that the reply depends on, as DSPy's cache sees it."""
        key: dict[str, Any] = self.prepared.key(self.lm, self.asynchronous)
        return key

    def cached(self) -> bool:
        """Whether DSPy's cache has the reply."""
        if not self.prepared.cache:
            return False
        return dspy.cache.get(self.request, execution.IGNORED_CACHE_KEYS) is not None


class Gate(Protocol):
    """What stands between callers and language models."""

    def known(self, call: LMCall) -> CallResult | None:
        """The reply without asking the model; None to ask it."""

    def around(self, call: LMCall) -> AbstractContextManager[None]:
        """Entered before the call is made, left after it. Raising on entry refuses it."""


@contextmanager
def through(gate: Gate) -> Iterator[None]:
    """Within, every call goes through `gate`, and through those of the contexts around."""
    _install()
    with dspy.context(**{_SETTING: (*_gates(), gate)}):
        yield


def _gates() -> tuple[Gate, ...]:
    return tuple(dspy.settings.get(_SETTING) or ())


@contextmanager
def _passed(gates: tuple[Gate, ...], call: LMCall) -> Iterator[CallResult | None]:
    """The reply that a gate knows, with all gates passed."""
    known = next((found for gate in reversed(gates) if (found := gate.known(call)) is not None), None)
    call.free = known.cache_hit if known is not None else call.cached()
    with ExitStack() as stack:
        for gate in gates:
            stack.enter_context(gate.around(call))
        call.made = True
        yield known


def _execute(lm: Any, prepared: Any) -> CallResult:
    gates = _gates()
    if not gates:
        return _dspys_execute(lm, prepared)
    call = LMCall(lm, prepared, False)
    with _passed(gates, call) as known:
        call.result = known if known is not None else _dspys_execute(lm, prepared)
    return call.result


async def _aexecute(lm: Any, prepared: Any) -> CallResult:
    gates = _gates()
    if not gates:
        return await _dspys_aexecute(lm, prepared)
    call = LMCall(lm, prepared, True)
    with _passed(gates, call) as known:
        call.result = known if known is not None else await _dspys_aexecute(lm, prepared)
    return call.result


_dspys_execute, _dspys_aexecute = execution.execute, execution.aexecute
_installing = threading.Lock()


def _install() -> None:
    """Put the gates where DSPy executes its calls. Without a gate in the settings nothing changes."""
    with _installing:
        if execution.execute is not _execute:
            execution.execute, execution.aexecute = _execute, _aexecute
