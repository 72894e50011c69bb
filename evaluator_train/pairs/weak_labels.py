"""Weak labels: pairs to train a grader on, made from what people have (`crag-dspy grader pairs`).

    answer_pairs    questions with answers + a retriever: a retrieved text that holds the answer is relevant
    title_pairs     questions about a known page + a retriever: the passages of that page are relevant, as in
                    the paper's labels from PopQA (arXiv 2401.15884, section 4.2)
    text_pairs      passages alone: a sentence is relevant to the sentences around it

Negatives are hard (ranked high by the retriever, without the answer) and random. Positives and negatives of
one question come from one split of the documents (see `splits.py`), and a seed gives the same pairs every
time.

A weak label is sometimes wrong: a text may hold the answer by chance, or answer in other words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

from crag_dspy.evaluator_train.pairs.mining import (
    Mining,
    PairSets,
    document_of,
    negatives,
    retrieved,
    strips_of,
)
from crag_dspy.evaluator_train.pairs.pair_files import Pair
from crag_dspy.evaluator_train.pairs.splits import SPLITS, Split
from crag_dspy.retrievers.bm25 import BM25
from crag_dspy.text.matching import contains_answer, normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from crag_dspy.evaluator_train.pairs.questions import Question
    from crag_dspy.passages import Passage

    Holds = Callable[[Question, Passage, str], bool]  # a passage, and the strip of it (or its whole text)

# Half of all texts hold one of these words, and it is the answer in none of them.
_VERDICTS = frozenset({"yes", "no", "true", "false", "是", "否", "对", "错", "不是", "有", "没有"})


def answer_pairs(
    questions: Sequence[Question], retrieve: Callable[..., Any], mining: Mining | None = None
) -> PairSets:
    """Pairs from questions with answers.

    The best-ranked passage that holds an answer (as whole words; as a substring in scripts without spaces) is
    relevant, and so is its strip that holds it. Where a question has `relevant_ids`, only those passages
    count. No negative holds any of the answers. Questions answered by yes or no are left out.

    Args:
        questions: with `answers`.
        retrieve: anything called as retrieve(query, k) that returns what `as_passages` reads: a `LocalIndex`,
            a `PassageSearch`.
        mining: see `Mining`.
    """

    def holds(question: Question, passage: Passage, text: str) -> bool:
        names = {passage.id, str(passage.metadata.get("document", ""))}
        known = not question.relevant_ids or not names.isdisjoint(question.relevant_ids)
        return known and contains_answer(text, question.answers)

    def refutes(question: Question, passage: Passage, text: str) -> bool:
        return not contains_answer(text, question.answers)

    def unusable(question: Question) -> str:
        if not question.answers:
            return "no answers given"
        verdict = {normalize(answer) for answer in question.answers} <= _VERDICTS
        return "answered by yes or no" if verdict else ""

    return _mined("answers", questions, retrieve, mining or Mining(), holds, refutes, unusable)


def title_pairs(
    questions: Sequence[Question], retrieve: Callable[..., Any], mining: Mining | None = None
) -> PairSets:
    """Pairs from questions about a known page: a passage with the title `entity` is relevant, others are not.

    Arguments as in `answer_pairs`, with `entity` in the questions. Passages only, whatever `mining.unit`: a
    title says nothing about a single sentence.
    """

    def holds(question: Question, passage: Passage, text: str) -> bool:
        return normalize(passage.title) == normalize(question.entity)

    def refutes(question: Question, passage: Passage, text: str) -> bool:
        return not holds(question, passage, text)

    def unusable(question: Question) -> str:
        return "" if question.entity else "no entity given"

    passages_only = replace(mining or Mining(), unit="passage")
    return _mined("titles", questions, retrieve, passages_only, holds, refutes, unusable)


def text_pairs(passages: Sequence[Passage], mining: Mining | None = None) -> PairSets:
    """Pairs from text alone: a sentence against one to three other ones of its own passage, or of another.

    For those without questions. Hard negatives are from the passages that share most words with the sentence,
    never from its own document.
    """
    settings = mining or Mining()
    skipped: Counter[str] = Counter()
    by_split: dict[Split, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for passage in passages:
        strips = strips_of(passage)
        if len(strips) < 2:
            skipped["passages of one sentence"] += 1
        else:
            document = document_of(passage)
            by_split[settings.shares.of(document)].append((document, strips))
    made = {split: list(_text_pairs(rows, settings)) for split, rows in by_split.items()}
    return PairSets.of(made, skipped)


def _text_pairs(rows: Sequence[tuple[str, tuple[str, ...]]], mining: Mining) -> Iterator[Pair]:
    index = BM25([" ".join(strips) for _, strips in rows])

    def others(found: Iterable[int], document: str) -> Iterator[int]:
        return (row for row in found if rows[row][0] != document)

    for document, strips in rows:
        random = Random(f"{mining.shares.seed}:{strips}")
        place = random.randrange(len(strips))
        asked, around = strips[place], strips[:place] + strips[place + 1 :]
        size = random.choice((1, 1, 2, 3))
        yield Pair(asked, _window(around, size, random), 1, "text/own", document)
        near = others((row for row, _ in index.top(asked, mining.k)), document)
        drawn = others(random.sample(range(len(rows)), len(rows)), document)
        for kind, row in negatives(near, drawn, mining):
            yield Pair(asked, _window(rows[row][1], size, random), 0, f"text/{kind}", rows[row][0])


def _window(strips: Sequence[str], size: int, random: Random) -> str:
    start = random.randrange(max(1, len(strips) - size + 1))
    return " ".join(strips[start : start + size])


@dataclass(frozen=True, slots=True)
class _Candidates:
    """One question, its relevant passage, and the passages of the same split: retrieved for it, and all."""

    question: Question
    positive: Passage
    near: list[Passage]
    pool: list[Passage]
    holds: Holds
    refutes: Holds
    random: Random

    def drawn(self) -> Iterator[Passage]:
        """The pool in random order, without what was retrieved for this question."""
        near = {passage.text for passage in self.near}
        order = self.random.sample(range(len(self.pool)), len(self.pool))
        return (self.pool[place] for place in order if self.pool[place].text not in near)


def _mined(
    source: str,
    questions: Sequence[Question],
    retrieve: Callable[..., Any],
    mining: Mining,
    holds: Holds,
    refutes: Holds,
    unusable: Callable[[Question], str],
) -> PairSets:
    skipped: Counter[str] = Counter()
    asked: dict[Split, list[tuple[Question, Passage, list[Passage]]]] = {split: [] for split in SPLITS}
    pools: dict[Split, dict[str, Passage]] = {split: {} for split in SPLITS}
    split_of = mining.shares.of
    for question, found in retrieved(questions, retrieve, mining.k, unusable, skipped):
        for passage in found:
            pools[split_of(document_of(passage))].setdefault(passage.text, passage)
        positive = next((passage for passage in found if holds(question, passage, passage.text)), None)
        if positive is None:
            skipped["nothing retrieved is relevant"] += 1
            continue
        split = split_of(document_of(positive))
        near = [passage for passage in found if split_of(document_of(passage)) == split]
        asked[split].append((question, positive, near))
    made: dict[Split, list[Pair]] = {split: [] for split in SPLITS}
    for split, rows in asked.items():
        pool = list(pools[split].values())
        for question, positive, near in rows:
            random = Random(f"{mining.shares.seed}:{question.question}")
            one = _Candidates(question, positive, near, pool, holds, refutes, random)
            if mining.unit != "strip":
                made[split].extend(_passage_pairs(one, mining, source))
            if mining.unit != "passage":
                made[split].extend(_strip_pairs(one, mining, source))
    return PairSets.of(made, skipped)


def _passage_pairs(one: _Candidates, mining: Mining, source: str) -> Iterator[Pair]:
    def pair(passage: Passage, label: int, kind: str) -> Pair:
        titled = mining.with_title and passage.title
        text = f"{passage.title} // {passage.text}" if titled else passage.text
        return Pair(one.question.question, text, label, f"{source}/passage/{kind}", document_of(passage))

    def irrelevant(passages: Iterable[Passage]) -> Iterator[Passage]:
        return (passage for passage in passages if one.refutes(one.question, passage, passage.text))

    yield pair(one.positive, 1, "positive")
    for kind, passage in negatives(irrelevant(one.near), irrelevant(one.drawn()), mining):
        yield pair(passage, 0, kind)


def _strip_pairs(one: _Candidates, mining: Mining, source: str) -> Iterator[Pair]:
    """The strip with the answer (of several, the closest to the question) against strips without."""
    near = [(passage, strip) for passage in one.near for strip in strips_of(passage)]
    order = BM25([strip for _, strip in near]).order(one.question.question)
    closest = [near[place] for place in order]
    answering = [row for row in closest if row[0] == one.positive and one.holds(one.question, *row)]
    if not answering:
        return  # the answer runs over the end of a sentence

    def pair(row: tuple[Passage, str], label: int, kind: str) -> Pair:
        return Pair(one.question.question, row[1], label, f"{source}/strip/{kind}", document_of(row[0]))

    def irrelevant(rows: Iterable[tuple[Passage, str]]) -> Iterator[tuple[Passage, str]]:
        return (row for row in rows if one.refutes(one.question, *row))

    drawn = ((passage, one.random.choice(strips_of(passage))) for passage in one.drawn())
    yield pair(answering[0], 1, "positive")
    for kind, row in negatives(irrelevant(closest), irrelevant(drawn), mining):
        yield pair(row, 0, kind)
