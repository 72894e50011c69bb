"""What the library's own metrics are called in an identity, so that moving a line of them throws no results away.

The digits are of their sources in the version that first kept runs. A metric that comes to MEAN something else gets
others, and stored scores of it no longer hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_HOME = "crag_dspy.optimize.metrics."
_FUNCTIONS = {
    "contains": "e7a1488431d73927",
    "contains_word": "1dd1ef1212a01920",
    "exact_match": "f18cf3dad33cd106",
    "token_f1": "a3415d7d61c3d504",
    "choice_accuracy": "ab4f7f8b454a2aea",
    "claim_accuracy": "cb667648db2510fd",
    "grounded": "c80e57389d36b5ff",
    "abstention": "3f98eabe172fec71",
    "action_accuracy": "51117df482dd95f3",
    "factscore": "e688fd12765e4e01",
    "declined": "c41ae28969311bcc",
    "unsupported": "20f7564ecb131c34",
    "unsupported_sentences": "bf998282446ccc2f",
    "never_unsupported": "453fa3c546af4631",
}
# By what counts the tokens: words, the model's tokenizer, the estimate of the commands.
_CONTEXT_TOKENS = {
    "count_words": "6eaa1223f69598f4",
    "LlamaEngine.count_tokens": "e0e38cf8174479e7",
    "token_counter.<locals>.<lambda>": "e5994e57f75e67e4",
}


def own_identity(metric: Callable[..., Any]) -> str | None:
    """The declared identity of a metric of this library; None for any other, which is known by its source."""
    if not str(getattr(metric, "__module__", "")).startswith(_HOME):
        return None
    if type(metric).__name__ == "ContextTokens":
        return _CONTEXT_TOKENS.get(getattr(metric, "counted_by", ""))
    return _FUNCTIONS.get(getattr(metric, "__qualname__", ""))
