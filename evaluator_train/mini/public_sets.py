"""Pairs from published sets: reading comprehension, answer selection, titles of passages, plain text.

Each set is cut by what belongs together (articles, questions that share a sentence), and negatives are taken from the
same part of it. What is drawn comes from one stream in the order of `make`, so the sets are made all or none.

    xquad, cmrc2018     SQuAD JSON: the sentence with the answer against sentences that BM25 ranks high; paragraphs too
    selqa, trecqa       answer sentence selection as published, balanced for training
    crag-paper          Biography's ten passages a question: relevant when the title is the one asked for; plain text
    qnli                without article names: the part of the XQuAD article that a group is nearest to
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.mini.kept_apart import parts
from crag_dspy.evaluator_train.mini.public_reading import reading_pairs
from crag_dspy.evaluator_train.mini.public_text import Ranking, connected, key, sentences, tidy
from crag_dspy.evaluator_train.pairs.pair_files import Pair, read_pairs
from crag_dspy.files.paper import rows_of
from crag_dspy.files.squad import by_article, read_squad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from random import Random

    from numpy.typing import NDArray

    from crag_dspy.evaluator_train.mini.public_reading import Article
    from crag_dspy.files.squad import Paragraph

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]

LANGUAGES = ("en", "zh")
PLAIN = ("popqa/ref_correct", "pubhealth/ref_correct", "arc_challenge/ref_correct", "pubhealth/ref_incorrect")
PLAIN_FILES = tuple(f"crag-paper/{name}.txt" for name in (*PLAIN, "popqa/ref_incorrect"))
FILES = (
    *(f"xquad/xquad.{language}.json" for language in LANGUAGES),
    "cmrc2018/dev.json",
    "cmrc2018/trial.json",
    "selqa/dev.tsv",
    "trecqa/train.csv",
    "trecqa/dev.csv",
    "crag-paper/biography/questions.txt",
    "crag-paper/biography/retrieved_passages.txt",
    *PLAIN_FILES,
    "qnli/dev.tsv",
)
PLAIN_PASSAGES = 2500
BETWEEN = 0.08  # a cosine nearer than this to an article that is kept apart is too near to train on


@dataclass
class PublicSets:
    """Pairs by `set/split`, in the order in which they were made; `held` has the paragraphs that are kept apart."""

    folder: Path
    random: Random
    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    held: dict[str, list[str]] = field(default_factory=lambda: {"heldout": [], "dev": []})

    def make(self, embed: Embed) -> None:
        """All sets. `embed` gives unit vectors of texts (MiniLM's), for QNLI."""
        missing = [name for name in FILES if not (self.folder / name).is_file()]
        if missing:
            raise ConfigError(
                f"{self.folder.name}: {missing[0]} is missing ({len(missing)} of {len(FILES)} files): the sets "
                "are cut in one go, so all of them are needed"
            )
        articles = {
            language: by_article(read_squad(self.folder / f"xquad/xquad.{language}.json"))
            for language in LANGUAGES
        }
        split = self._xquad(articles)
        self._cmrc()
        self._selqa()
        self._trec()
        self._biography()
        self._plain_text()
        self._qnli(articles["en"], split, embed)

    def add(self, name: str, question: str, text: str, label: int, document: str) -> None:
        # XQuAD's translators left spaces around every answer in Chinese: a grader would learn to look for them.
        close = name.startswith("xquad-zh")
        question, text = tidy(question, close=close), tidy(text, close=close)
        if question and text:
            self.pairs.setdefault(name, []).append(Pair(question, text, label, name, document))

    def _xquad(self, articles: Mapping[str, Sequence[Sequence[Paragraph]]]) -> dict[str, list[int]]:
        """The same articles go to the same part in every language; gives the parts."""
        self.random.shuffle(
            list(range(len(articles["en"])))
        )  # seed 0 drew the parts: what follows is drawn after it
        split = parts(len(articles["en"]))
        for language, data in articles.items():
            for name, numbers in split.items():
                chosen = [(str(number), data[number]) for number in numbers]
                self._comprehension(f"xquad-{language}", name, chosen)
            for name, held in self.held.items():
                held += [paragraph.text for number in split[name] for paragraph in data[number]]
        return split

    def _cmrc(self) -> None:
        by_title: dict[str, list[Paragraph]] = defaultdict(list)
        for paragraph in read_squad(self.folder / "cmrc2018/dev.json"):
            by_title[paragraph.title].append(paragraph)
        order = sorted(by_title)
        self.random.shuffle(order)
        train, dev = int(0.75 * len(order)), int(0.8 * len(order))
        for split, titles in (("train", order[:train]), ("dev", order[train:dev]), ("heldout", order[dev:])):
            self._comprehension("cmrc", split, [(title, by_title[title]) for title in titles])
        trial = by_article(read_squad(self.folder / "cmrc2018/trial.json"))
        others = [(one[0].title, one) for one in trial if one[0].title not in by_title]
        self._comprehension("cmrc-trial", "heldout", others)

    def _comprehension(self, base: str, split: str, articles: Sequence[Article]) -> None:
        for row in reading_pairs(base, split, articles, self.random):
            self.add(*row)

    def _selqa(self) -> None:
        rows = read_pairs(self.folder / "selqa/dev.tsv")
        groups = connected(rows)
        self.random.shuffle(groups)
        seen = 0
        for number, group in enumerate(groups):
            train, dev = seen < 0.55 * len(rows), seen < 0.65 * len(rows)
            split = "train" if train else "dev" if dev else "heldout-natural"
            seen += len(group)
            for question, good, bad in _by_question(group):
                if split != "heldout-natural":
                    bad = self.random.sample(bad, min(len(bad), 2 * len(good)))
                self._labelled(f"selqa/{split}", question, good, bad, f"selqa:{number}")
        natural = self.pairs.get("selqa/heldout-natural", [])
        relevant = [pair for pair in natural if pair.relevant]
        others = [pair for pair in natural if not pair.relevant]
        for pair in relevant + self.random.sample(others, min(len(others), len(relevant))):
            self.add("selqa/heldout-balanced", pair.question, pair.text, int(pair.relevant), pair.doc)

    def _trec(self) -> None:
        """The published dev questions are held out; ten of the training questions are for development."""
        training = read_pairs(self.folder / "trecqa/train.csv")
        known = {key(pair.question) for pair in training}
        for pair in read_pairs(self.folder / "trecqa/dev.csv"):
            if key(pair.question) not in known:
                self.add(
                    "trecqa/heldout",
                    pair.question,
                    pair.text,
                    int(pair.relevant),
                    f"trec:{key(pair.question)}",
                )
        asked = _by_question(training)
        self.random.shuffle(asked)
        for number, (question, good, bad) in enumerate(asked):
            bad = self.random.sample(bad, min(len(bad), 2 * max(1, len(good))))
            name = "trecqa/dev" if number < 10 else "trecqa/train"
            self._labelled(name, question, good, bad, f"trec:{key(question)}")

    def _biography(self) -> None:
        folder = self.folder / "crag-paper/biography"
        questions = [line for line in rows_of(folder / "questions.txt") if line.strip()]
        retrieved = rows_of(folder / "retrieved_passages.txt")
        if len(questions) != len(retrieved):
            raise ConfigError(
                f"crag-paper/biography: {len(questions)} questions and {len(retrieved)} rows of passages"
            )
        order = list(range(len(questions)))
        self.random.shuffle(order)
        place_of = {number: place for place, number in enumerate(order)}
        train, dev = int(0.6 * len(order)), int(0.68 * len(order))
        for number, (question, line) in enumerate(zip(questions, retrieved, strict=True)):
            place = place_of[number]
            split = "train" if place < train else "dev" if place < dev else "heldout"
            entity = key(re.sub(r"^Who (?:is|was) |\?$", "", question.strip()))
            found = [passage for passage in line.split("[sep]") if passage.partition(" // ")[2]]
            titled = [key(passage.partition(" // ")[0]) == entity for passage in found]
            good, bad = (
                [passage.strip() for passage, own in zip(found, titled, strict=True) if own == wanted]
                for wanted in (True, False)
            )
            if split != "heldout":
                bad = self.random.sample(bad, min(len(bad), max(1, len(good))))
            self._labelled(f"biography/{split}", question, good, bad, f"bio:{number}")

    def _plain_text(self) -> None:
        """A sentence against others of its own passage, or of another one."""
        passages = _plain_passages(self.folder)
        self.random.shuffle(passages)
        passages = passages[:PLAIN_PASSAGES]
        ranking = Ranking([" ".join(passage) for passage in passages])
        random, name = self.random, "plain-text/train"
        for number, passage in enumerate(passages):
            asked = random.randrange(len(passage))
            rest = passage[:asked] + passage[asked + 1 :]
            start, size = random.randrange(len(rest)), random.choice((1, 1, 2, 3))
            self.add(name, passage[asked], " ".join(rest[start : start + size]), 1, f"plain:{number}")
            near = [other for other in ranking.top(passage[asked], 8) if other != number]
            others = [random.choice(near) if near else number, random.randrange(len(passages))]
            for place, other in enumerate(others):
                if place == 1 and random.random() < 0.5:
                    continue
                if other != number:
                    start = random.randrange(len(passages[other]))
                    text = " ".join(passages[other][start : start + size])
                    self.add(name, passage[asked], text, 0, f"plain:{other}")

    def _qnli(
        self, articles: Sequence[Sequence[Paragraph]], numbered: Mapping[str, Sequence[int]], embed: Embed
    ) -> None:
        rows = read_pairs(self.folder / "qnli/dev.tsv")
        centres = np.stack([embed(_article_texts(article)).mean(0) for article in articles])
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        near = embed([f"{pair.question} {pair.text}" for pair in rows]) @ centres.T
        number_of = {(pair.question, pair.text): number for number, pair in enumerate(rows)}
        for group in connected(rows):
            cosine = near[[number_of[pair.question, pair.text] for pair in group]].mean(0)
            best = {split: cosine[list(numbers)].max() for split, numbers in numbered.items() if numbers}
            split = max(best, key=lambda name: best[name])
            later = {"train": ("dev", "heldout"), "dev": ("heldout",)}.get(split, ())
            if any(best.get(name, -1) > best[split] - BETWEEN for name in later):
                continue  # between two articles
            for pair in group:
                self.add(
                    f"qnli/{split}", pair.question, pair.text, int(pair.relevant), f"qnli:{cosine.argmax()}"
                )

    def _labelled(
        self, name: str, question: str, good: Iterable[str], bad: Iterable[str], document: str
    ) -> None:
        for label, texts in ((1, good), (0, bad)):
            for text in texts:
                self.add(name, question, text, label, document)


def _by_question(pairs: Iterable[Pair]) -> list[tuple[str, list[str], list[str]]]:
    """(question, relevant texts, irrelevant texts) in the order of the questions."""
    rows: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for pair in pairs:
        rows[pair.question][not pair.relevant].append(pair.text)
    return [(question, good, bad) for question, (good, bad) in rows.items()]


def _plain_passages(folder: Path) -> list[list[str]]:
    """Up to eight sentences of each passage of at least three, no passage twice."""
    seen: set[str] = set()
    found = []
    for name in PLAIN_FILES:
        for passage in refined(folder / name):
            kept = [sentence for sentence in sentences(passage) if 40 <= len(sentence) <= 300][:8]
            if len(kept) >= 3 and key(kept[0]) not in seen and key(kept[1]) not in seen:
                seen.update(map(key, kept))
                found.append(kept)
    return found


def refined(file: Path) -> list[str]:
    """The passages of one of the paper's knowledge files, without titles and footnote marks."""
    parts = [
        part
        for line in rows_of(file)
        for part in re.split(r" \[sep\] |\s;\s(?=[^;]{3,60}: )", line.strip().lstrip("#"))
    ]
    return [re.sub(r"\[\d+\]", "", part.partition(" // ")[2] or part).strip() for part in parts]


def _article_texts(article: Sequence[Paragraph]) -> list[str]:
    return [each.text for each in article] + [row["question"] for each in article for row in each.questions]
