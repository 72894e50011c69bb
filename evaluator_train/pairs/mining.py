"""What all ways of making pairs share: settings, retrieval, strips, negatives, and the closing checks."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from crag_dspy.errors import ConfigError, RetrieverError
from crag_dspy.evaluator_train.pairs.splits import (
    SPLITS,
    Shares,
    Split,
    with_both_labels,
    without_duplicates,
    without_leaks,
)
from crag_dspy.passages import Passage, as_passages
from crag_dspy.retrievers.bm25 import BM25
from crag_dspy.state.arguments import check_choice, check_whole
from crag_dspy.text.matching import normalize

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from crag_dspy.evaluator_train.pairs.pair_files import Pair
    from crag_dspy.evaluator_train.pairs.questions import Question

logger = logging.getLogger(__name__)

Unit = Literal["strip", "passage", "both"]
UNITS: tuple[Unit, ...] = get_args(Unit)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mining:
    """How pairs are made.

    Args:
        hard, random: negatives for each positive; missing hard ones are made up by random ones.
        k: passages retrieved a question.
        unit: grade strips (sentences), passages, or both; CRAG asks a grader for both.
        with_title: put a passage's title before its text, `title // text`, as the paper's corpus has it.
        shares: of the documents that go to dev and heldout, and the seed of everything random.
    """

    hard: int = 1
    random: int = 1
    k: int = 20
    unit: Unit = "both"
    with_title: bool = False
    shares: Shares = field(default_factory=Shares)

    def __post_init__(self) -> None:
        check_whole("hard", self.hard, 0)
        check_whole("random", self.random, 0)
        check_whole("k", self.k)
        check_choice("unit", self.unit, UNITS)
        if self.hard + self.random == 0:
            raise ConfigError("hard + random must be at least 1: a grader needs irrelevant texts too")


@dataclass(frozen=True, slots=True)
class PairSets:
    """Pairs by split, and how many questions (or passages) gave none, by reason."""

    splits: Mapping[Split, Sequence[Pair]]
    skipped: Counter[str]

    @classmethod
    def of(cls, made: Mapping[Split, Sequence[Pair]], skipped: Counter[str]) -> PairSets:
        """The pairs without duplicates, leaks from one split into another, and one-sided questions."""
        apart = without_leaks({split: without_duplicates(pairs) for split, pairs in made.items()})
        return cls({split: with_both_labels(pairs) for split, pairs in apart.items()}, skipped)

    def __add__(self, other: PairSets) -> PairSets:
        """Both together, checked again: the same sentence may have come from either."""
        both = {split: [*self[split], *other[split]] for split in SPLITS}
        return PairSets.of(both, self.skipped + other.skipped)

    def __getitem__(self, split: Split) -> Sequence[Pair]:
        return self.splits[split]


class PassageSearch:
    """BM25 over passages in memory, with their titles: a retriever for a corpus that has no index."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._passages = list(passages)
        self._index = BM25([f"{passage.title} {passage.text}" for passage in self._passages])

    def __call__(self, query: str, k: int) -> list[Passage]:
        return [self._passages[index] for index, _ in self._index.top(query, k)]


def document_of(passage: Passage) -> str:
    """What may not be in two splits: `metadata["document"]`, else the title, the id, the text itself."""
    return str(passage.metadata.get("document") or passage.title or passage.id or passage.text)


def strips_of(passage: Passage) -> tuple[str, ...]:
    """The sentences of a passage, as CRAG's refinement cuts them."""
    return _strips(passage.text)


@lru_cache(maxsize=65536)
def _strips(text: str) -> tuple[str, ...]:
    # Cached: a popular passage is retrieved for many questions.
    from crag_dspy.refine import decompose

    spans = decompose(text, mode="sentence", group=1)
    return tuple(strip for start, end in spans if (strip := text[start:end].strip()))


def retrieved(
    questions: Sequence[Question],
    retrieve: Callable[..., Any],
    k: int,
    unusable: Callable[[Question], str],
    skipped: Counter[str],
) -> Iterator[tuple[Question, list[Passage]]]:
    """Each usable question once, with what was retrieved for it.

    `unusable` gives the reason to leave a question out, "" for none; reasons are counted in `skipped`. A
    retriever that fails on some questions costs those; one that fails on all of them raises RetrieverError.
    """
    from tqdm import tqdm

    seen: set[str] = set()
    failures: list[Exception] = []
    worked = False
    for question in tqdm(questions, desc="retrieving", unit="question", file=sys.stderr, disable=None):
        reason = unusable(question) or ("asked twice" if normalize(question.question) in seen else "")
        if reason:
            skipped[reason] += 1
            continue
        seen.add(normalize(question.question))
        try:
            passages = as_passages(retrieve(question.question, k))
        except Exception as error:  # noqa: BLE001 - a user's retriever may raise anything
            failures.append(error)
            skipped["retriever failed"] += 1
            logger.warning("retriever failed on %r: %s", question.question[:80], error)
            continue
        worked = True
        yield question, passages
    if failures and not worked:
        raise RetrieverError(
            f"the retriever failed on all {len(failures)} questions, at last with: {failures[-1]}"
        ) from failures[-1]


def negatives(ranked: Iterable[T], drawn: Iterable[T], mining: Mining) -> Iterator[tuple[str, T]]:
    """The first `hard` of `ranked`, then of `drawn` as many as are still missing, each with its kind."""
    missing = mining.hard + mining.random
    for _, chosen in zip(range(mining.hard), ranked, strict=False):
        missing -= 1
        yield "hard", chosen
    for _, chosen in zip(range(missing), drawn, strict=False):
        yield "random", chosen
