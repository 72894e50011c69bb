"""CRAG without one of its parts (arXiv 2401.15884, section 5.5): each a copy of the program with other settings, or
with another grader in its place.

The paper's two tables are here under plain names. "without correct" and "without incorrect" hand the questions of that
action to AMBIGUOUS, "without ambiguous" has one threshold, in the middle of the two. "without refinement" gives the
generator whole passages, internal and from the web; "without web selection" is the paper's "w/o selection": everything
found on the web is kept; "without selection" keeps every strip of both sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crag_dspy.corrective import CorrectiveRetriever
from crag_dspy.state.arguments import check_choice

if TYPE_CHECKING:
    from crag_dspy.crag import CRAG
    from crag_dspy.settings import Settings

ACTIONS: Mapping[str, str] = {
    "without correct": "no_correct",
    "without incorrect": "no_incorrect",
    "without ambiguous": "no_ambiguous",
    "internal only": "correct",
    "web only": "incorrect",
    "always both": "ambiguous",
}
GRADERS: Mapping[str, str] = {"embedding grader": "embedding", "LM grader": "lm", "T5 grader": "mini"}
NAMES = (
    *ACTIONS,
    "without refinement",
    "without selection",
    "without web selection",
    "without rewriting",
    "other policy",
)


def ablations(crag: CRAG) -> dict[str, CRAG]:
    """Every ablation that is a matter of settings, by name, in the order of `NAMES`."""
    return {name: ablated(crag, name) for name in NAMES}


def ablated(crag: CRAG, name: str) -> CRAG:
    """A copy of `crag` without the part that `name` says, one of `NAMES`; the program itself is not changed."""
    check_choice("an ablation", name, list(NAMES))
    copy: CRAG = crag.deepcopy()
    copy.settings.update(_changes(crag.settings, name))
    return copy


def with_grader(crag: CRAG, grader: Any, **settings: Any) -> CRAG:
    """A copy of `crag` with another grader, at the thresholds that grader suggests.

    Args:
        grader: as in `CRAG`. One that suggests no thresholds gets the paper's, which mean little on its scale.
        settings: `upper`, `lower` and others that were tuned for this grader.
    """
    copy: CRAG = crag.deepcopy()
    parts = copy.corrective
    fresh = CorrectiveRetriever(parts.retrieve.part, grader)
    parts.grade, parts.read = fresh.grade, fresh.read
    names = ("upper", "lower", "strip_threshold", "evidence_threshold")
    suggested = {name: getattr(fresh.settings, name) for name in names}
    copy.settings.update({**suggested, "grader": "", "grader_fingerprint": "", **settings})
    return copy


def _changes(settings: Settings, name: str) -> dict[str, Any]:
    if name in ACTIONS:
        return {"actions": ACTIONS[name]}
    most = max(settings.k, settings.web_results)
    changes: dict[str, dict[str, Any]] = {
        "without refinement": {
            "strip_mode": "passage",
            "select": "none",
            "top_n": most,
            "evidence_threshold": -1.0,
        },
        "without selection": {"select": "none", "evidence_threshold": -1.0},
        "without web selection": {"select": "internal"},
        "without rewriting": {"rewrite": False},
        "other policy": {"policy": "vote" if settings.policy == "max" else "max"},
    }
    return changes[name]
