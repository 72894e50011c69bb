"""What is said beside intervals: what they are over, what could have been seen, and how small a p-value is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.optimize.statistics.intervals import FEW_GROUPS

if TYPE_CHECKING:
    from crag_dspy.optimize.statistics.differences import PairedDifference
    from crag_dspy.optimize.statistics.intervals import Groups


def shown_p(p_value: float) -> str:
    """`= 0.031`, or `< 0.0001`: no p-value is 0."""
    if p_value < 0.0001:
        return "< 0.0001"
    return f"= {p_value:.3f}" if p_value >= 0.001 else f"= {p_value:.4f}"


def told_groups(n: int, groups: Groups | None) -> str:
    """What the intervals of `n` questions are over; `groups` is what each belongs to, None where nothing says."""
    documents = n if groups is None else len(set(groups))
    if groups is None:
        told = (
            f"intervals are over {n} questions, as if no two were of one document: nothing says which are "
            "(a field `document`, `relevant_ids`, or --by)"
        )
    elif documents == 1 < n:
        return f"all {n} questions are of one document: intervals are over them, and say nothing of other documents"
    elif documents == n:
        told = f"intervals are over {n} questions, no two of one document"
    else:
        told = f"intervals are over the {documents} documents of {n} questions"
    if documents < FEW_GROUPS:
        told += f"; with fewer than {FEW_GROUPS} they lean on every single one"
    return told


def told_power(change: PairedDifference) -> str:
    """The smallest difference that would have been found."""
    if change.detectable is None:
        return "too few questions to say what difference would be found"
    of = f" of {change.groups} documents" if change.groups < change.n else ""
    return f"{change.n} questions{of} find a difference of {change.detectable:.3f} with 80% power"
