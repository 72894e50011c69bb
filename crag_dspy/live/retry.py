"""When a failed call to a service is worth another try, and after how long. The caller does the waiting.

One number bounds everything: `timeout` is what a call may take with all its tries and pauses, so that a
question never waits longer for a part than its user said.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from crag_dspy.errors import ConfigError
from crag_dspy.state.arguments import check_number, check_whole


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently a call is tried again.

    Args:
        timeout: seconds for the whole call, tries and pauses together; above 0.
        retries: further tries after the first; 0 means one try.
        backoff: seconds before the second try when the service names no time; it doubles with every try, and
            half of it is random, so that callers which failed together do not come back together.
    """

    timeout: float = 10.0
    retries: int = 2
    backoff: float = 0.5

    def __post_init__(self) -> None:
        check_number("timeout", self.timeout, 0)
        check_number("backoff", self.backoff, 0)
        check_whole("retries", self.retries, 0)
        if self.timeout == 0:
            raise ConfigError("timeout must be above 0 s: nothing can answer at once")

    def pause(self, tries: int, elapsed: float, asked: float | None = None) -> float | None:
        """Seconds to wait before the next try, or None to give up now.

        Args:
            tries: tries made so far, at least 1.
            elapsed: seconds since the call began.
            asked: what the service said to wait (Retry-After), in seconds. It is honoured when it fits into what is
                left of `timeout`; when not, the answer is None: coming back earlier would only be refused again.
        """
        if tries > self.retries:
            return None
        wait = asked if asked is not None else self.backoff * 2 ** (tries - 1) * random.uniform(0.5, 1.0)
        return wait if elapsed + wait < self.timeout else None
