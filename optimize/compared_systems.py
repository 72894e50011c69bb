"""The systems that a CRAG is compared with, on its own parts: baselines, and itself without a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dspy

from crag_dspy.arguments import check_choice
from crag_dspy.baselines import RAG, SelfCRAG, SelfRAG
from crag_dspy.crag import CRAG
from crag_dspy.optimize.threshold_search import settings_of


def systems_of(crag: CRAG, names: Sequence[str]) -> dict[str, dspy.Module]:
    """The systems that a CRAG is compared with, on its own retriever, search, grader, prompts and settings.

    Args:
        names: of "none" (no retrieval), "rag", "crag", "selfrag", "selfcrag", "ablations"; in the order of the table.
    """
    from crag_dspy.commands.demo_systems import ClosedBook

    retriever, grader = crag.corrective.retrieve.part, crag.corrective.grade.part
    search = crag.corrective.search.part if crag.corrective.search is not None else None

    def corrected() -> CRAG:
        made = SelfCRAG(retriever, grader, search, generate=crag.generate.deepcopy())
        made.corrective = crag.corrective.deepcopy()
        return made

    k = crag.settings.k
    makers: dict[str, Callable[[], dict[str, dspy.Module]]] = {
        "none": lambda: {"no retrieval": RAG(retriever, k=0, generate=ClosedBook())},
        "rag": lambda: {"RAG": RAG(retriever, k=k, generate=crag.generate.deepcopy())},
        "crag": lambda: {"CRAG": crag},
        "selfrag": lambda: {"SelfRAG": SelfRAG(retriever, k=k, generate=crag.generate.deepcopy())},
        "selfcrag": lambda: {"SelfCRAG": corrected()},
        "ablations": lambda: dict(ablations(crag)),
    }
    made: dict[str, dspy.Module] = {}
    for name in names:
        check_choice("a system", name, list(makers))
        made |= makers[name]()
    return made


def ablations(crag: CRAG) -> dict[str, CRAG]:
    """CRAG without one of its parts (arXiv 2401.15884, section 5.5), by settings alone.

    The thresholds force one action where they can: a score of exactly 1 or -1 still decides for itself.
    """
    changes: dict[str, dict[str, Any]] = {
        "always correct": {"upper": -1.0, "lower": -1.0},
        "always incorrect": {"upper": 1.0, "lower": 1.0},
        "always ambiguous": {"upper": 1.0, "lower": -1.0},
        "no refinement": {"strip_mode": "passage", "strip_threshold": -1.0, "top_n": max(crag.settings.k, 1)},
        "no rewriting": {"rewrite": False},
    }
    made = {}
    for name, settings in changes.items():
        made[name] = crag.deepcopy()
        settings_of(made[name]).update(settings)
    return made
