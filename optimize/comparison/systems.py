"""The systems that a CRAG is compared with, on its own parts: baselines, and itself without a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

from crag_dspy.baselines import RAG, NoRetrieval, SelfCRAG, SelfRAG
from crag_dspy.crag import CRAG
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.comparison.ablations import GRADERS, NAMES, ablated, ablations, with_grader
from crag_dspy.sentence_baselines import BestSentences, Ranking

SLOW = ("SelfRAG", "SelfCRAG")  # by name: many LM calls a question
# name -> how the best sentences are ranked; words:3 keeps three
SENTENCES: Mapping[str, tuple[Ranking, str]] = {
    "words": ("words", "BM25"),
    "embedding": ("embedding", "MiniLM"),
    "mixed": ("both", "BM25 + MiniLM"),
}


def systems_of(
    crag: CRAG,
    names: Sequence[str],
    tuned: Mapping[str, Mapping[str, float]] | None = None,
    cuts: Mapping[str, float] | None = None,
) -> dict[str, dspy.Module]:
    """The systems that a CRAG is compared with, on its own retriever, search, grader, prompts and settings.

    Args:
        names: in the order of the table: "none" (no retrieval), "rag", "rag:5" (RAG on five passages instead of
            CRAG's k), "both:5" (RAG on five passages and five pages), "words:3" (the three best sentences of CRAG's
            passages and pages, by BM25), "embedding:3", "mixed:3" (by an embedder, by both), "crag", "selfrag",
            "selfcrag"; an ablation such as "without-rewriting" or "internal-only", or "ablations" for all; another
            grader such as "embedding-grader", or "graders" for all.
        tuned: thresholds by the name of another grader ("embedding", "lm", "mini"); its own suggestion without.
        cuts: below which score the best sentences decline, by the system's name here, such as "words:3"; each is
            a system of its own, after the one that always answers.

    Raises:
        ConfigError: an unknown name, with the known ones.
    """
    made: dict[str, dspy.Module] = {}
    for name in names:
        made |= _made(crag, name, tuned or {})
        if cuts and name in cuts:
            made |= {
                f"{label}, declining": best_sentences(crag, name, cuts[name])
                for label in _made(crag, name, {})
            }
    return made


def best_sentences(crag: CRAG, name: str, cut: float | None = None) -> BestSentences:
    """The system of a name such as "words:3", on CRAG's parts."""
    kind, count = _counted(name) or ("", 0)
    return BestSentences(
        crag.corrective.retrieve.part,
        search=_search(crag),
        generate=crag.generate.deepcopy(),
        k=crag.settings.k,
        n=count,
        by=SENTENCES[kind][0],
        cut=cut,
        web_results=crag.settings.web_results,
    )


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
    kind, count = _counted(name) or ("", 0)
    if kind == "rag":
        return {f"RAG ({count} passages)": RAG(retriever, k=count, generate=crag.generate.deepcopy())}
    if kind == "both":
        parts = {"search": _search(crag), "web_results": count, "generate": crag.generate.deepcopy()}
        return {f"RAG ({count} passages, {count} pages)": RAG(retriever, k=count, **parts)}
    if kind in SENTENCES:
        return {f"{count} best sentences ({SENTENCES[kind][1]})": best_sentences(crag, name)}
    raise ConfigError(
        f"systems must be of {', '.join(makers)}, or with a number N of passages or sentences "
        f"rag:N, both:N, {', '.join(f'{made}:N' for made in SENTENCES)}, got {name!r}"
    )


def _counted(name: str) -> tuple[str, int] | None:
    """("words", 3) of "words:3"; None of another form."""
    kind, _, count = name.partition(":")
    return (kind, int(count)) if count.isdecimal() and int(count) > 0 else None


def _graded(crag: CRAG, name: str, tuned: Mapping[str, Mapping[str, float]]) -> CRAG:
    grader = GRADERS[name]
    made: CRAG = with_grader(crag, grader, **tuned.get(grader, {}))
    return made


def other_graders(names: Sequence[str]) -> list[str]:
    """What the graders are called that the systems of these names have in place of the program's."""
    return [grader for name, grader in GRADERS.items() if "graders" in names or _dashed(name) in names]


def _self_corrected(crag: CRAG) -> SelfCRAG:
    parts = crag.corrective
    made = SelfCRAG(parts.retrieve.part, parts.grade.part, _search(crag), generate=crag.generate.deepcopy())
    made.corrective = parts.deepcopy()
    return made


def _search(crag: CRAG) -> Any:
    search = crag.corrective.search
    return None if search is None else search.part


def _signature(crag: CRAG) -> Any:
    """What the language model alone is asked with: the generator's prompt, where it is one."""
    predictors = crag.generate.predictors()
    return predictors[0] if len(predictors) == 1 else None


def _dashed(name: str) -> str:
    return name.lower().replace(" ", "-")
