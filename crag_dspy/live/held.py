"""Live parts that copies share.

DSPy optimizers deep-copy a program dozens of times. A grader's weights, an index or a client must not follow: an
object of a `Held` class is the same object in every copy.
"""

from __future__ import annotations

from typing import Any, Self


class Held:
    """Copying returns the object itself. Pickling is up to the subclass; by default it is Python's own."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
