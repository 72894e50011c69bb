"""Questions that failed: which stored ones did, and when so many do in a row that going on is of no use."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crag_dspy.errors import OutageError
from crag_dspy.state.arguments import check_whole

IN_A_ROW = 5
ALL = "all"  # questions, whatever their action

# How versions that took an outage for a refusal told of it. A reply that cannot be parsed is the language model's own
# doing where it only costs a search its keywords, and Self-RAG a judgement.
_TOLD = re.compile(
    r"the language model gave (?:no answer that can be read: |an empty answer)"
    r"|(?:the query rewrite failed, searching with the question itself"
    r"|no (?:whether to retrieve|(?:an answer|relevance|support|usefulness) (?:from|of) (?:memory|passage \d+)))"
    r": (?!AdapterParseError)"
    r"|(?:web search failed|the grader failed, relevance is unknown|retrieval failed, going on without passages): "
)


def failure_in(row: Mapping[str, Any]) -> str | None:
    """Why a stored question has no result; None when it has one.

    Rows of before a failure was told apart from a refusal have no `failed`: of these their warnings tell.
    """
    if row["error"] or "failed" in row:
        return row["error"] or None
    return next((warning for warning in row.get("warnings", ()) if _TOLD.match(warning)), None)


class InARow:
    """Counts failures that follow one another, over all threads, and stops the work at the last of `limit`.

    They are counted over all questions, and over those of each action by themselves: a web search that is down fails
    only the questions that need it.

    Args:
        limit: at least 1; None never stops.
        folder: where results are kept, for the message; None: nowhere.
    """

    def __init__(self, limit: int | None, folder: str | Path | None) -> None:
        if limit is not None:
            check_whole("stop_after", limit)
        self.limit = limit
        self.folder = folder
        self._failed: Counter[str | None] = Counter()
        self._lock = threading.Lock()

    def saw(self, row: Mapping[str, Any]) -> None:
        """Take note of a question that has been kept. Raises `OutageError` when it was one failure too many."""
        error, action = row["error"], row.get("action")
        with self._lock:
            for of in {ALL, action}:
                self._failed[of] = 0 if error is None else self._failed[of] + 1
            most = max(self._failed[ALL], self._failed[action])
        if self.limit is not None and most >= self.limit and error is not None:
            alike = "" if self._failed[ALL] >= self.limit else f" with the action {action}"
            kept = "" if self.folder is None else f"what was answered before is kept in {self.folder}: "
            raise OutageError(
                f"{most} questions{alike} in a row failed, the last by {error}; {kept}mend the cause and run again to "
                f"go on (stop_after=None, or --stop-after 0 where a command has it, goes on whatever fails)"
            )
