"""Pairs from reading comprehension (SQuAD JSON): a question with the sentence, and the paragraph, that answers it.

The offset of an answer says which sentence holds it. Negatives are what BM25 ranks high among the articles of the same
part, and never say an answer.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crag_dspy.evaluator_train.mini.public_text import Ranking, says, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from random import Random

    from crag_dspy.files.squad import Paragraph

    Article = tuple[str, Sequence[Paragraph]]  # its name, its paragraphs
    Where = tuple[str, int]  # an article's name, the number of a paragraph
    Row = tuple[str, str, str, int, str]  # set/split, question, text, label, document


def reading_pairs(base: str, split: str, articles: Sequence[Article], random: Random) -> Iterator[Row]:
    """Rows for `base/split` (sentences) and `base-passage/split` (paragraphs).

    For training a second negative is drawn, and paragraphs for half of the questions; other parts have the two
    sentences of the highest rank, and paragraphs for all.
    """
    part = _Part(articles)
    for name, paragraphs in articles:
        for place, paragraph in enumerate(paragraphs):
            for row in paragraph.questions:
                asked = _AskedOf(part, (name, place), row["question"], row["answers"])
                if asked.positives:
                    yield from _sentence_rows(base, split, asked, random)
                    yield from _paragraph_rows(base, split, asked, random)


def _sentence_rows(base: str, split: str, asked: _AskedOf, random: Random) -> Iterator[Row]:
    sentences = asked.part.sentences
    ranked = [number for number in asked.part.ranking.top(asked.question, 60) if asked.refutes(number)]
    chosen = ranked[:1] + _one_more(asked, ranked, random) if split == "train" else ranked[:2]
    for number in (min(asked.positives), *chosen):
        label, one = int(number in asked.positives), sentences[number]
        yield f"{base}/{split}", asked.question, one.text, label, f"{base}:{one.where[0]}"


def _one_more(asked: _AskedOf, ranked: Sequence[int], random: Random) -> list[int]:
    """A second negative for training: of the same paragraph, another of high rank, or any."""
    used, draw, count = set(ranked[:1]), random.random(), len(asked.part.sentences)
    own = asked.part.by_paragraph[asked.where]
    same = [number for number in own if number not in used and asked.refutes(number)]
    high = [number for number in ranked[1:12] if number not in used]
    drawn = random.sample(range(count), min(20, count))
    anything = [number for number in drawn if number not in used and asked.refutes(number)]
    for pool, wanted in ((same, draw < 0.4), (high, draw < 0.7), (anything, True)):
        if wanted and pool:
            return [random.choice(pool)]
    return []


def _paragraph_rows(base: str, split: str, asked: _AskedOf, random: Random) -> Iterator[Row]:
    part, mine = asked.part, asked.part.number_of[asked.where]
    found = part.paragraph_ranking.top(asked.question, 20)
    wrong = next((n for n in found if n != mine and not says(part.contexts[n], asked.answers)), None)
    if wrong is None or (split == "train" and random.random() >= 0.5):
        return
    for number, label in ((mine, 1), (wrong, 0)):
        document = f"{base}:{part.places[number][0]}"
        yield f"{base}-passage/{split}", asked.question, part.contexts[number], label, document


@dataclass(frozen=True, slots=True)
class _Sentence:
    where: Where
    start: int
    end: int
    text: str


class _Part:
    """The sentences and paragraphs of some articles, searchable."""

    def __init__(self, articles: Sequence[Article]) -> None:
        self.sentences: list[_Sentence] = []
        self.contexts: list[str] = []
        self.places: list[Where] = []  # of the contexts
        self.by_paragraph: dict[Where, list[int]] = defaultdict(list)
        for name, paragraphs in articles:
            for place, paragraph in enumerate(paragraphs):
                where, context = (name, place), paragraph.text
                self.places.append(where)
                self.contexts.append(context)
                for start, end in spans(context):
                    self.by_paragraph[where].append(len(self.sentences))
                    self.sentences.append(_Sentence(where, start, end, context[start:end].strip()))
        self.number_of = {where: number for number, where in enumerate(self.places)}
        self.ranking = Ranking([sentence.text for sentence in self.sentences])
        self.paragraph_ranking = Ranking(self.contexts)

    def answering(self, where: Where, answers: Iterable[Mapping[str, Any]]) -> set[int]:
        """The sentences of a paragraph that hold an answer, by its offset; where that is wrong, by its words."""
        context, own = self.contexts[self.number_of[where]], self.by_paragraph[where]
        found: set[int] = set()
        for answer in answers:
            start, text = answer["answer_start"], answer["text"]
            end = start + len(text)
            if context[start:end] == text:
                hits = [n for n in own if self.sentences[n].start <= start and end <= self.sentences[n].end]
            else:
                hits = [n for n in own if says(self.sentences[n].text, [text])]
            found.update(hits[:1])
        return found


class _AskedOf:
    """A question about one paragraph, with the numbers of the sentences that answer it."""

    def __init__(
        self, part: _Part, where: Where, question: str, answers: Sequence[Mapping[str, Any]]
    ) -> None:
        self.part, self.where, self.question = part, where, question
        self.answers = [answer["text"] for answer in answers]
        self.positives = part.answering(where, answers)

    def refutes(self, number: int) -> bool:
        text = self.part.sentences[number].text
        return number not in self.positives and not says(text, self.answers) and len(text) > 3
