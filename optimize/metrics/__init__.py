"""How good an answer is, and what it cost. Names are imported when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.live.lazy_names import lazy_names

if TYPE_CHECKING:
    from crag_dspy.optimize.metrics.answers import (
        abstention,
        action_accuracy,
        answer_in_evidence,
        choice_accuracy,
        claim_accuracy,
        contains,
        contains_word,
        exact_match,
        grounded,
        token_f1,
    )
    from crag_dspy.optimize.metrics.factscore import FactScore
    from crag_dspy.optimize.metrics.objective import Objective, Prices, combine
    from crag_dspy.optimize.metrics.score import Score

_HOMES = {
    "FactScore": "factscore",
    "Objective": "objective",
    "Prices": "objective",
    "Score": "score",
    "abstention": "answers",
    "action_accuracy": "answers",
    "answer_in_evidence": "answers",
    "choice_accuracy": "answers",
    "claim_accuracy": "answers",
    "combine": "objective",
    "contains": "answers",
    "contains_word": "answers",
    "exact_match": "answers",
    "grounded": "answers",
    "token_f1": "answers",
}

__all__ = [
    "FactScore",
    "Objective",
    "Prices",
    "Score",
    "abstention",
    "action_accuracy",
    "answer_in_evidence",
    "choice_accuracy",
    "claim_accuracy",
    "combine",
    "contains",
    "contains_word",
    "exact_match",
    "grounded",
    "token_f1",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
