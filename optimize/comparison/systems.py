"""The systems that a CRAG is compared with, on its own parts: baselines, and itself without a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

from crag_dspy.baselines import RAG, NoRetrieval, SelfCRAG, SelfRAG
from crag_dspy.crag import CRAG
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.comparison.ablations import GRADERS, NAMES, ablated, ablations, with_grader

SLOW = ("SelfRAG", "SelfCRAG")  # by name: many LM calls a question
_RAG_OF = "rag:"  # rag:5 reads five passages


def systems_of(
    crag: CRAG, names: Sequence[str], tuned: Mapping[str, Mapping[str, float]] | None = None
) -> dict[str, dspy.Module]:
    """The systems that a CRAG is compared with, on its own retriever, search, grader, prompts and settings.

    Args:
        names: in the order of the table: "none" (no retrieval), "rag", "rag:5" (RAG on five passages instead of
            CRAG's k), "crag", "selfrag", "selfcrag"; an ablation such as "without-rewriting" or "internal-only", or
            "ablations" for all; another grader such as "embedding-grader", or "graders" for all.
        tuned: thresholds by the name of another grader ("embedding", "lm", "mini"); its own suggestion without.

    Raises:
        ConfigError: an unknown name, with the known ones.
    """
    made: dict[str, dspy.Module] = {}
    for name in names:
        made |= _made(crag, name, tuned or {})
    return made


def _made(crag: CRAG, name: str, tuned: Mapping[str, Mapping[str, float]]) -> Mapping[str, dspy.Module]:
    retriever, k = crag.corrective.retrieve.part, crag.settings.k
    makers: dict[str, Callable[[], Mapping[str, dspy.Module]]] = {
        "none": lambda: {"no retrieval": NoRetrieval(_signature(crag))},
        "rag": lambda: {"RAG": RAG(retriever, k=k, generate=crag.generate.deepcopy())},
        "crag": lambda: {"CRAG": crag},
        "selfrag": lambda: {"SelfRAG": SelfRAG(retriever, k=k, generate=crag.generate.deepcopy())},
        "selfcrag": lambda: {"SelfCRAG": _self_corrected(crag)},
        "ablations": lambda: ablations(crag),
        "graders": lambda: {made: _graded(crag, made, tuned) for made in GRADERS},
        **{_dashed(made): lambda made=made: {made: ablated(crag, made)} for made in NAMES},  # type: ignore[misc]
        **{_dashed(made): lambda made=made: {made: _graded(crag, made, tuned)} for made in GRADERS},  # type: ignore[misc]
    }
    if name in makers:
        return makers[name]()
    count = name.removeprefix(_RAG_OF)
    if name.startswith(_RAG_OF) and count.isdecimal() and int(count) > 0:
        return {f"RAG ({count} passages)": RAG(retriever, k=int(count), generate=crag.generate.deepcopy())}
    raise ConfigError(f"systems must be of {', '.join(makers)}, or rag:N with N passages, got {name!r}")


def _graded(crag: CRAG, name: str, tuned: Mapping[str, Mapping[str, float]]) -> CRAG:
    grader = GRADERS[name]
    made: CRAG = with_grader(crag, grader, **tuned.get(grader, {}))
    return made


def other_graders(names: Sequence[str]) -> list[str]:
    """What the graders are called that the systems of these names have in place of the program's."""
    return [grader for name, grader in GRADERS.items() if "graders" in names or _dashed(name) in names]


def _self_corrected(crag: CRAG) -> SelfCRAG:
    parts = crag.corrective
    search = parts.search.part if parts.search is not None else None
    made = SelfCRAG(parts.retrieve.part, parts.grade.part, search, generate=crag.generate.deepcopy())
    made.corrective = parts.deepcopy()
    return made


def _signature(crag: CRAG) -> Any:
    """What the language model alone is asked with: the generator's prompt, where it is one."""
    predictors = crag.generate.predictors()
    return predictors[0] if len(predictors) == 1 else None


def _dashed(name: str) -> str:
    return name.lower().replace(" ", "-")
