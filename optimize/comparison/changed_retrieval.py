"""Retrieval made worse on purpose: passages that answer are left out, or passages that do not are put among them.

What is left out stands in the context of one question (`Degraded`), so that one program serves every rate, and a
question whose passages are the same at two rates is asked once. The web is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Any

import dspy

from crag_dspy.live.held import Held
from crag_dspy.optimize.metrics.answers import gold_answers
from crag_dspy.optimize.runs.fingerprints import example_key, part_identity
from crag_dspy.passages import Passage
from crag_dspy.steps import Retrieve
from crag_dspy.text.matching import contains_answer

if TYPE_CHECKING:
    from crag_dspy.contracts import Retriever
    from crag_dspy.crag import CRAG


@dataclass(frozen=True, slots=True)
class Change:
    """Of one question: names of passages that are left out, and of those that answer it."""

    without: frozenset[str] = frozenset()
    answering: frozenset[str] = frozenset()


_NONE = Change()
_CHANGE: ContextVar[Change] = ContextVar("crag_dspy_change", default=_NONE)


class ChangedRetrieval(Held):
    """A retriever without what the question's `Change` leaves out; the next best take the places.

    Args:
        source: the retriever.
        decoys: so many of the k passages are the best ones beyond the first k - decoys that do not answer, at random
            places among them: ask for k + decoys to have them added.
        seed: of the places.
    """

    def __init__(self, source: Retriever, decoys: int = 0, seed: int = 0) -> None:
        self.source, self.decoys, self.seed = source, decoys, seed

    @property
    def fingerprint(self) -> str:
        """Of the retriever, with what is done to it."""
        return f"{part_identity(self.source)}+{self.decoys} decoys, seed {self.seed}"

    def __call__(self, query: str, k: int) -> list[Passage]:
        change = _CHANGE.get()
        first = k - self.decoys
        beyond = (self.decoys + len(change.answering)) if self.decoys else 0
        found = [
            p
            for p in self.source(query, k + len(change.without) + beyond)
            if passage_key(p) not in change.without
        ]
        kept = found[:first]
        if not self.decoys:
            return kept
        decoys = [p for p in found[first:] if passage_key(p) not in change.answering][: self.decoys]
        return _mixed(kept, decoys, Random(f"{self.seed} {query}"))


class Degraded(dspy.Module):
    """A program asked with worse retrieval: `left_out` and `answering` are names of passages."""

    def __init__(self, program: dspy.Module) -> None:
        super().__init__()
        self.program = program

    def forward(self, question: str, left_out: Sequence[str], answering: Sequence[str]) -> dspy.Prediction:
        token = _CHANGE.set(Change(frozenset(left_out), frozenset(answering)))
        try:
            return self.program(question=question)
        finally:
            _CHANGE.reset(token)


def with_changed_retrieval(crag: CRAG, decoys: int = 0, seed: int = 0) -> CRAG:
    """A copy of `crag` whose retrieval can be changed, and has `decoys` passages more to read."""
    copy: CRAG = crag.deepcopy()
    copy.corrective.retrieve = Retrieve(ChangedRetrieval(crag.corrective.retrieve.part, decoys, seed))
    copy.settings.k = crag.settings.k + decoys
    return copy


def answering(example: dspy.Example, retriever: Retriever, k: int) -> list[str]:
    """Names of the passages among the best `k` that answer: by `relevant_ids`, or by a gold answer in them."""
    passages = retriever(example.question, k)
    relevant = example.get("relevant_ids")
    if relevant is not None:
        return [passage_key(p) for p in passages if p.id in set(map(str, relevant))]
    golds = gold_answers(example)
    return [passage_key(p) for p in passages if golds and contains_answer(f"{p.title}\n{p.text}", golds)]


def at_rate(example: dspy.Example, names: Iterable[str], rate: float, seed: int) -> list[str]:
    """Which of `names` are left out at `rate`, in [0, 1]: what is left out at a lower rate still is at a higher one."""
    return [name for name in names if _draw(f"{seed} {example_key(example)} {name}") < rate]


def changed(example: dspy.Example, left_out: Sequence[str], names: Sequence[str]) -> dspy.Example:
    """The example as `Degraded` is asked it."""
    fields: Mapping[str, Any] = {**example.toDict(), "left_out": sorted(left_out), "answering": sorted(names)}
    return dspy.Example(**fields).with_inputs("question", "left_out", "answering")


def passage_key(passage: Passage) -> str:
    """A passage's id, or a digest of its text."""
    return passage.id or sha256(passage.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _draw(text: str) -> float:
    """A number in [0, 1) that is the same on every machine."""
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:6], "big") / 2**48


def _mixed(kept: Sequence[Passage], decoys: Sequence[Passage], random: Random) -> list[Passage]:
    places = set(random.sample(range(len(kept) + len(decoys)), len(decoys)))
    real, false = iter(kept), iter(decoys)
    return [next(false) if place in places else next(real) for place in range(len(kept) + len(decoys))]
