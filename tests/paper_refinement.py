"""What the paper's refinement kept of Biography's ten passages, and what ours keeps of the same (section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from crag_dspy.actions import Action
from crag_dspy.corrective import CorrectiveRetriever
from crag_dspy.errors import ConfigError
from crag_dspy.files.paper import PaperRow
from crag_dspy.optimize.statistics.intervals import MeanInterval, mean_interval
from crag_dspy.passages import Passage
from crag_dspy.state.plain import Plain
from crag_dspy.text.matching import contains_answer, token_f1, words


@dataclass(frozen=True, slots=True)
class Kept(Plain):
    """What a refinement kept, over some questions.

    Attributes:
        share: words kept over words retrieved, a question on average.
        words: kept, a question on average.
        named: share of the questions where what was kept, titles included, holds the name that is asked for.
        empty: questions for which nothing was kept.
    """

    share: MeanInterval
    words: float
    named: float
    empty: int


@dataclass(frozen=True, slots=True)
class Beside(Plain):
    """Two refinements of the same passages. `overlap` is the token F1 between what they kept, on average."""

    questions: int
    retrieved_words: float
    retrieved_named: float
    theirs: Kept
    ours: Kept | None
    overlap: MeanInterval | None


def refined_beside(
    rows: Sequence[PaperRow], grader: Any = None, *, level: float = 0.95, **settings: Any
) -> Beside:
    """Compression of `ref_correct` against the retrieved passages, and our own refinement beside it.

    Args:
        rows: of Biography, read with the kind "correct".
        grader: whatever `CorrectiveRetriever` takes; None leaves our refinement out.
        settings: of the `CorrectiveRetriever`, such as `top_n=8`.

    Raises:
        ConfigError: no rows, or rows without passages or without `ref_correct`.
    """
    if not rows or any(not row.passages or "correct" not in row.references for row in rows):
        raise ConfigError(
            "rows must be of biography, with their passages: read_paper('biography', kinds=['correct'])"
        )
    retrieved = ["\n".join(f"{p.title}\n{p.text}" for p in row.passages) for row in rows]
    sizes = [sum(len(words(p.text)) for p in row.passages) for row in rows]
    their_texts = [[p.text for p in _segments(row.references["correct"])] for row in rows]
    their_whole = [row.references["correct"] for row in rows]
    theirs = _kept(rows, their_texts, their_whole, sizes, level)
    ours = overlap = None
    if grader is not None:
        found = [_refined(row, grader, settings) for row in rows]
        our_texts = [[strip.text for strip in each.evidence] for each in found]
        ours = _kept(rows, our_texts, [each.knowledge for each in found], sizes, level)
        pairs = zip(our_texts, their_texts, strict=True)
        shared = [token_f1(" ".join(mine), [" ".join(other)]) for mine, other in pairs]
        overlap = mean_interval(shared, level=level)
    named = [contains_answer(text, row.topic) for text, row in zip(retrieved, rows, strict=True)]
    return Beside(len(rows), fmean(sizes), fmean(named), theirs, ours, overlap)


def _refined(row: PaperRow, grader: Any, settings: dict[str, Any]) -> Any:
    def passages(query: str, k: int) -> list[Passage]:
        return list(row.passages[:k])

    refine = CorrectiveRetriever(
        passages, grader, **{"k": len(row.passages), "grade_by": "strips", **settings}
    )
    return refine(question=row.question, action=Action.CORRECT)


def _segments(reference: str) -> list[Passage]:
    """`title // text; title // text`: what was kept, piece by piece. A text may hold semicolons, but no `//`."""
    found: list[Passage] = []
    for part in reference.split("; "):
        title, mark, text = part.partition(" // ")
        if mark or not found:
            found.append(Passage(text.strip() if mark else part, title=title.strip() if mark else ""))
        else:  # a semicolon inside a text
            found[-1] = Passage(f"{found[-1].text}; {part}", title=found[-1].title)
    return found


def _kept(
    rows: Sequence[PaperRow],
    texts: Sequence[Sequence[str]],
    whole: Sequence[str],
    sizes: Sequence[int],
    level: float,
) -> Kept:
    counts = [sum(len(words(text)) for text in each) for each in texts]
    shares = [count / max(size, 1) for count, size in zip(counts, sizes, strict=True)]
    return Kept(
        share=mean_interval(shares, level=level),
        words=fmean(counts),
        named=fmean(contains_answer(text, row.topic) for text, row in zip(whole, rows, strict=True)),
        empty=sum(count == 0 for count in counts),
    )
