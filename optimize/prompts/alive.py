"""Whether the language models still answer while an optimizer is at work.

An optimizer goes on whatever fails, and would choose a program by questions that nobody could answer. Failed calls are
what tells an outage: a reply that cannot be read may be the doing of the prompt that is being tried.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from crag_dspy.errors import OptimizerError, cause_of
from crag_dspy.live.held import Held
from crag_dspy.optimize.runs.cap import Cap
from crag_dspy.optimize.runs.lm_calls import LMCall

CALLS_IN_A_ROW = 8  # failed calls, after which a language model is taken to be down


class Alive(Held):
    """A gate (`lm_calls.through`) that closes `cap` once `CALLS_IN_A_ROW` calls have failed one after another."""

    def __init__(self, cap: Cap) -> None:
        self.cap = cap
        self.failed: list[str] = []
        self._lock = threading.Lock()

    def known(self, call: LMCall) -> None:
        """It knows no replies."""

    @contextmanager
    def around(self, call: LMCall) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if call.made:
                self._saw(cause_of(error))
            raise
        self._saw(None)

    def check(self) -> None:
        """Raises `OptimizerError` after an outage, so that nothing it led to is taken for a result."""
        if len(self.failed) >= CALLS_IN_A_ROW:
            raise OptimizerError(
                f"the optimizer was stopped after {len(self.failed)} calls of a language model failed in a row, the "
                f"last by {self.failed[-1]}"
            )

    def _saw(self, failed: str | None) -> None:
        with self._lock:
            if len(self.failed) >= CALLS_IN_A_ROW:
                return
            self.failed = [] if failed is None else [*self.failed, failed]
            if len(self.failed) >= CALLS_IN_A_ROW:
                self.cap.calls = 0
