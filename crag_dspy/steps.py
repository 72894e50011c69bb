"""The live parts as small modules: each shows up as a span of its own in DSPy callbacks and MLflow traces.

Whatever a part gives is held to its contract here. One bad item costs itself only, and is noted (`live/notes.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dspy

from crag_dspy.contracts import Grader, Retriever, WebSearch
from crag_dspy.errors import GraderError
from crag_dspy.flow import in_thread
from crag_dspy.live.notes import note
from crag_dspy.passages import Passage, Strip, as_passages
from crag_dspy.read_once.asking import ToJudge
from crag_dspy.refine import context_of, shown_of
from crag_dspy.text.untrusted import encodable

# A page that is longer is cut: grading it would take minutes, and nothing that long is one passage.
MAX_CHARACTERS = 200_000
MAX_TITLE = 500  # also of an id; it stands before every strip of the passage, in every prompt
MAX_URL = 2_000
OFF_SCALE = 1.001  # beyond rounding


class Retrieve(dspy.Module):
    """Passages for a query, best first, without empty ones and exact repeats."""

    def __init__(self, part: Retriever) -> None:
        super().__init__()
        self.part = part

    def forward(self, query: str, k: int) -> list[Passage]:
        return _usable(self.part(query, k), k)

    async def aforward(self, query: str, k: int) -> list[Passage]:
        return await in_thread(_usable, await _acall(self.part, query, k), k)


class Search(dspy.Module):
    """Web pages for a query."""

    def __init__(self, part: WebSearch) -> None:
        super().__init__()
        self.part = part

    def forward(self, query: str, max_results: int) -> list[Passage]:
        return _usable(self.part(query, max_results), max_results)

    async def aforward(self, query: str, max_results: int) -> list[Passage]:
        return await in_thread(_usable, await _acall(self.part, query, max_results), max_results)


class Grade(dspy.Module):
    """One score in [-1, 1] a text, or None where the grader could not judge."""

    def __init__(self, part: Grader) -> None:
        super().__init__()
        self.part = part

    def forward(self, question: str, texts: Sequence[str]) -> list[float | None]:
        scores = self.part.score(encodable(question), [encodable(text) for text in texts])
        return _on_the_scale(scores, len(texts), self.part)

    async def aforward(self, question: str, texts: Sequence[str]) -> list[float | None]:
        return await in_thread(self.forward, question, texts)


class ReadOnce(dspy.Module):
    """Scores of passages and of all their strips, from one encoding of each passage (see `read_once`).

    What an index stored is used as it is; a passage that brings nothing, or what another grader read, is read now.
    """

    def __init__(self, part: Any) -> None:
        super().__init__()
        self.part = part

    def forward(
        self, question: str, passages: Sequence[Passage], strips: Sequence[Strip]
    ) -> tuple[list[float | None], list[float | None]]:
        """One score a passage, and one a strip, in order."""
        maker = self.part.fingerprint
        known = [one.vectors if one.vectors and one.vectors.maker == maker else None for one in passages]
        unread = [place for place, vectors in enumerate(known) if vectors is None]
        texts = [(encodable(passages[i].title), encodable(passages[i].text)) for i in unread]
        for place, vectors in zip(unread, self.part.read(texts), strict=True):
            known[place] = vectors
        of = {id(passage): place for place, passage in enumerate(passages)}
        owned: list[list[int]] = [[] for _ in passages]
        for number, strip in enumerate(strips):
            owned[of[id(strip.passage)]].append(number)
        asked = [
            ToJudge(
                vectors,
                [(strips[i].start, strips[i].end) for i in own],
                [shown_of(strips[i]) for i in own],
                [context_of(strips[i]) for i in own],
            )
            for vectors, own in zip(known, owned, strict=True)
            if vectors is not None
        ]
        judged = self.part.judge(encodable(question), asked)
        scores: list[float | None] = [None] * len(strips)
        for own, one in zip(owned, judged, strict=True):
            for number, score in zip(own, _on_the_scale(one.strips, len(own), self.part), strict=True):
                scores[number] = score
        return _on_the_scale([one.passage for one in judged], len(passages), self.part), scores

    async def aforward(
        self, question: str, passages: Sequence[Passage], strips: Sequence[Strip]
    ) -> tuple[list[float | None], list[float | None]]:
        return await in_thread(self.forward, question, passages, strips)


async def _acall(part: Any, *arguments: Any) -> Any:
    if hasattr(part, "acall"):
        return await part.acall(*arguments)
    return await in_thread(part, *arguments)


def _usable(result: Any, most: int) -> list[Passage]:
    """The first `most` passages of a result, of bounded size. The same text under two titles is two passages."""
    found: dict[tuple[str, str], Passage] = {}
    for passage in map(_bounded, as_passages(result, left_out=note)):
        found.setdefault((_words(passage.title), _words(passage.text)), passage)
        if len(found) == most:
            break
    return list(found.values())


def _words(text: str) -> str:
    return " ".join(text.split())


def _bounded(passage: Passage) -> Passage:
    if len(passage.text) > MAX_CHARACTERS:
        name = passage.title or passage.id or passage.url or "without a title"
        note(f"the passage {name[:60]!r} was cut from {len(passage.text):,} to {MAX_CHARACTERS:,} characters")
        metadata = {**passage.metadata, "cut_from": len(passage.text)}
        passage = replace(passage, text=passage.text[:MAX_CHARACTERS], metadata=metadata, vectors=None)
    if max(len(passage.title), len(passage.id)) > MAX_TITLE or len(passage.url) > MAX_URL:
        note(
            f"a title, id or url of {passage.title[:60]!r} was cut to {MAX_TITLE} (url: {MAX_URL}) characters"
        )
        title, name = passage.title[:MAX_TITLE], passage.id[:MAX_TITLE]
        passage = replace(passage, title=title, id=name, url=passage.url[:MAX_URL], vectors=None)
    return passage


def _on_the_scale(scores: Any, expected: int, grader: Grader) -> list[float | None]:
    """Hold a grader to its contract: its mistakes must not become decisions.

    Raises:
        GraderError: not one score a text, or scores on another scale. Cut to this one they would all be 1.
    """
    given = list(scores)
    if len(given) != expected:
        raise GraderError(
            f"grader {grader.name!r} gave {len(given)} scores for {expected} texts: one a text is due"
        )
    numbers = [_number(score) for score in given]
    known = [number for number in numbers if number is not None]
    if unread := sum(score is not None for score in given) - len(known):
        note(f"grader {grader.name!r}: {unread} of {expected} scores are no finite numbers; not judged")
    if any(_is_bool(score) for score in given):
        note(
            f"grader {grader.name!r} gives true and false, read as 1 and -1: thresholds tell nothing apart then; "
            f"give scores in [-1, 1], such as 2 * probability - 1"
        )
    beyond = max(known, key=abs, default=0.0)
    if abs(beyond) > OFF_SCALE:
        raise GraderError(
            f"grader {grader.name!r} gave {beyond:.6g}, but a score is in [-1, 1]: map it, "
            f"a logit x as math.tanh(x / 2), a probability p as 2 * p - 1, stars from 1 to 5 as (stars - 3) / 2"
        )
    return [None if number is None else max(-1.0, min(1.0, number)) for number in numbers]


def _number(score: Any) -> float | None:
    """A score as a float; None for one that was not given, cannot be read or is not finite."""
    if score is None or isinstance(score, (str, bytes)):
        return None
    if _is_bool(score):
        return 1.0 if score else -1.0
    try:
        number = float(score)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _is_bool(score: Any) -> bool:
    return isinstance(score, bool) or type(score).__name__ in ("bool_", "bool")  # numpy's too
