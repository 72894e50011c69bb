"""Every error this library raises on purpose. Each message names the field, the value and the fix.

Errors inside one question never leave `CRAG.forward`: they become a warning on the prediction (see
`corrective.py`). They do leave constructors, loaders and command lines, before any work is done.
"""

from __future__ import annotations

from typing import Any

from crag_dspy.live.keys import without_keys


def cause_of(error: BaseException, *parts: Any, limit: int = 300) -> str:
    """What an error is and says, on one line of at most `limit` characters of message, without any key.

    Args:
        parts: what may hold a key besides those that `without_keys` knows: language models, modules that have some.
    """
    text = message_of(error, *parts)
    return f"{type(error).__name__}: {text[:limit]}" if text else type(error).__name__


def message_of(error: BaseException, *parts: Any) -> str:
    """What an error says, on one line and without any key; empty when it says nothing."""
    try:
        said = str(error)
    except Exception as another:  # noqa: BLE001 - an error whose text cannot be had is an error like others
        said = f"(its message cannot be read: {type(another).__name__})"
    # Before it is cut: half a key at the end would be known to nobody.
    return " ".join(without_keys(said[:_LONGEST], *parts).split())


_LONGEST = 20_000  # characters that are looked at; nobody reads on


class CragError(Exception):
    """Root of the tree: `except CragError` catches what this library raises, and nothing else."""


class ConfigError(CragError, ValueError):
    """A bad argument, configuration file or data file. Also a `ValueError`, as Python users expect."""


class MissingPackageError(ConfigError, ImportError):
    """A part that needs an optional package which is not installed. Also an `ImportError`."""


class StateError(ConfigError):
    """A saved program that cannot be loaded: truncated, of another kind, or with values out of range."""


class ArtefactError(ConfigError):
    """A grader folder that must not be used: a head that was not saved, weights that are not safetensors."""


class IndexMismatchError(ConfigError):
    """An index on disk that was built with another embedder than the one now given."""


class StaleOutcomesError(ConfigError):
    """Stored outcomes that belong to other prompts, another grader or another index than the present ones."""


class BudgetSpentError(CragError):
    """A language model call that was refused because the calls allowed for this work are used up."""


class ReplayError(CragError):
    """A language model was asked, in a run that is replayed, something that has no recorded reply."""


class OptimizerError(CragError):
    """An optimizer that failed: there is no new program, and the cause is in the message."""


class OutageError(CragError):
    """Several questions of an evaluation failed in a row: a part is down, or cannot work. What came before is kept."""


class GraderError(CragError):
    """A grader that could judge nothing at all. A single text it cannot judge is a score of None instead."""


class JudgeError(CragError):
    """A judge of answers (a language model, or the source it checks against) that failed: the answer has no score."""


class TrainingError(CragError):
    """Training that cannot go on: a loss that is NaN or infinite. The last checkpoint is from before it."""


class RetrieverError(CragError):
    """A retriever that failed or timed out. Inside a question: a warning, and no passage."""


class SearchError(CragError):
    """A web search that failed. The message says what the user can do about it.

    Subclasses say which kind, so that callers can tell a missing key from a passing fault. `retry_after` is
    what the service asked its callers to wait, in seconds, and None when it did not say.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SearchAuthError(SearchError):
    """No key, or a key that the service refused (401, 403)."""


class SearchRequestError(SearchError):
    """The service refused the request itself (400)."""


class SearchQuotaError(SearchError):
    """Rate limit or quota (429 and plan limits)."""


class SearchTimeoutError(SearchError, TimeoutError):
    """No answer within the timeout."""


class SearchServerError(SearchError):
    """The service failed (5xx) or could not be reached."""


class SearchResponseError(SearchError):
    """A reply that is not what the service documents: malformed or oversized JSON."""
