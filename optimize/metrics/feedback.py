"""Why an answer was wrong, in words that an optimizer's language model can act on.

The pipeline is walked in order and the first step that lost the answer is named: retrieval, web search,
refinement, generation. That is what tells a rewritten prompt of one step from that of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crag_dspy.actions import Action
from crag_dspy.optimize.metrics.observed import (
    abstained,
    action_of,
    answer_of,
    evidence_of,
    passages_of,
    strings_of,
    texts_of,
)
from crag_dspy.text.matching import found_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 5  # aliases, queries and warnings listed at most


def shortened(text: str, limit: int = 160) -> str:
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


def listed(items: Sequence[str]) -> str:
    shown = ", ".join(shortened(item, 80) for item in items[:_SHOWN])
    return f"{shown} and {len(items) - _SHOWN} more" if len(items) > _SHOWN else shown


def explain(verdict: str, prediction: Any, golds: Sequence[str] = (), pred_name: str | None = None) -> str:
    """`verdict`, then the action that was taken and the step where one of `golds` was lost.

    Args:
        golds: acceptable answers; without them no step is blamed.
        pred_name: GEPA's name of the predictor that the feedback is for; its own part is said last.
    """
    lines = [verdict]
    action = action_of(prediction)
    if action is not None:
        lines.append(f"The action was {action.value.upper()}.")
    if golds:
        lines.extend(_where_it_went(prediction, golds, action, pred_name or ""))
    warnings = strings_of(prediction, "warnings")
    if warnings:
        lines.append(f"Warnings: {listed(warnings)}.")
    return " ".join(lines)


def _where_it_went(prediction: Any, golds: Sequence[str], action: Action | None, pred_name: str) -> list[str]:
    evidence = evidence_of(prediction)
    for origin, text in evidence:
        found = found_answer(text, golds)
        if found is not None:
            source = f"the {origin} evidence" if origin else "the evidence"
            advice = "the evidence was enough" if abstained(prediction) else "the answer must be read from it"
            return [f"It is in {source} ({shortened(found)} in {shortened(text, 200)}): {advice}."]

    lines = []
    passages = passages_of(prediction)
    if passages is not None:
        kept = found_answer(" \n ".join(texts_of(passages)), golds) is not None
        if kept and action is Action.INCORRECT:
            lines.append("A retrieved passage had it, but the passages were judged INCORRECT and dropped.")
        elif kept:
            lines.append("A retrieved passage had it, but no kept strip does: refinement dropped it.")
        else:
            lines.append("No retrieved passage has it.")
    queries = strings_of(prediction, "queries")
    if action in (Action.INCORRECT, Action.AMBIGUOUS):
        searched = f" for {listed(queries)}" if queries else ""
        lines.append(f"The web search{searched} did not bring it either.")
        if "rewrite" in pred_name:
            lines.append("Write keywords that a page with the answer would contain.")
    elif not evidence:
        lines.append("There was no evidence.")
    if not lines:
        lines.append("It is not in the evidence.")
    if answer_of(prediction) and not abstained(prediction) and "rewrite" not in pred_name:
        lines.append("Without support in the evidence it is better to say that the answer is not there.")
    return lines
