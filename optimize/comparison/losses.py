"""Where answers were lost on the way to the evidence, read off the traces of a comparison."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from crag_dspy.text.matching import contains_answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# In the order of the work. "retrieval": neither passage nor page has the answer (of those that the action asked for);
# "strips": it was cut apart; "ranking": not even twice the budget would have kept it; "budget": that would have;
# "declining": it was among the best strips, and these were too weak.
STAGES = ("retrieval", "strips", "ranking", "budget", "declining")


def losses(rows: Sequence[Mapping[str, Any]]) -> dict[str, int] | None:
    """Stage -> how many questions lost their answer there, of those that have one and did not fail.

    Args:
        rows: of an evaluation, with their traces.

    Returns:
        None where no row has a trace.
    """
    kept = [row for row in rows if row.get("trace") and row["answers"] and row["error"] is None]
    if not kept:
        return None
    counts = Counter(stage for row in kept if (stage := lost_at(row["trace"], row["answers"])))
    return {stage: counts[stage] for stage in STAGES}


def lost_at(trace: Mapping[str, Any], answers: Sequence[str]) -> str | None:
    """The stage at which a question lost its answer; None where the evidence has it.

    Args:
        trace: as `Trace.to_json` gives it.
        answers: the gold answers.
    """

    def holds(items: Sequence[Mapping[str, Any]]) -> bool:
        return any(contains_answer(item["text"], answers) for item in items)

    weak = trace.get("declined") or []
    if holds(trace["kept"]):
        return None
    if holds(weak):
        return "declining"
    left = sorted(trace["dropped"], key=_worst_last)
    if holds(left):
        return "budget" if holds(left[: len(trace["kept"]) + len(weak)]) else "ranking"
    return "strips" if holds([*trace["passages"], *trace["web_passages"]]) else "retrieval"


def _worst_last(strip: Mapping[str, Any]) -> float:
    """What was not judged comes after everything that was."""
    return 2.0 if strip["score"] is None else -float(strip["score"])
