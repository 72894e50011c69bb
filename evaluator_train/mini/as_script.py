"""How the scripts of this folder end: what a user can mend is one line on stderr and status 2, as a command does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from crag_dspy.errors import CragError

if TYPE_CHECKING:
    from collections.abc import Callable


def run_script(main: Callable[[], int | None]) -> int:
    """The status of `main`."""
    try:
        return main() or 0
    except (CragError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
