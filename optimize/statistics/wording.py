"""What is said beside intervals: what they are over, what could have been seen, and how small a p-value is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.optimize.statistics.intervals import FEW_GROUPS

if TYPE_CHECKING:
    from crag_dspy.optimize.statistics.differences import PairedDifference


def shown_p(p_value: float) -> str:
    """`= 0.031`, or `< 0.0001`: no p-value is 0."""
    if p_value < 0.0001:
        return "< 0.0001"
    return f"= {p_value:.3f}" if p_value >= 0.001 else f"= {p_value:.4f}"


def told_groups(n: int, groups: int, known: bool) -> str:
    """What the intervals are over.

    Args:
        n, groups: numbers of questions and of documents.
        known: whether the questions say what they belong to.
    """
    if not known:
        return (
            f"intervals are over {n} questions, as if none had a document in common: nothing says which do "
            "(a field `document`, or `relevant_ids`)"
        )
    if groups == n and n > 1:
        told = f"intervals are over {n} questions, no two of one document"
    else:
        told = f"intervals are over the {groups} documents of {n} questions"
    if groups < FEW_GROUPS:
        told += f": fewer than {FEW_GROUPS}, so they are wide, and lean on every single one"
    return told


def told_power(change: PairedDifference) -> str:
    """The smallest difference that would have been found."""
    if change.detectable is None:
        return "too few questions to say what difference would be found"
    of = f" of {change.groups} documents" if change.groups < change.n else ""
    return f"{change.n} questions{of} find a difference of {change.detectable:.3f} with 80% power"
