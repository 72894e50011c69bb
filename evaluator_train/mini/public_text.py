"""How the pairs of the shipped grader read a text: sentences, search terms, keys, and runs of words.

Frozen on purpose, and apart from what the library does at run time: a better splitter or tokenizer would draw other
strips and other negatives, and with them other splits, and then a text that the shipped grader has learned from would
stand in a held-out file.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from crag_dspy.retrievers.bm25 import BM25

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from crag_dspy.evaluator_train.pairs.pair_files import Pair

_HAN = re.compile(r"[\u4e00-\u9fff]")
_HAN_END = re.compile(r"[。！？!?；]+[”’」』）)\"]*")
_END = re.compile(r"[.!?]+[\"'”’)\]]*(?:\[\d+\])*\s+(?=[\"“'‘(\[]?[A-Z0-9À-Þ])")
_ABBREVIATION = re.compile(
    r"\b(?:Mr|Mrs|Ms|Dr|St|Jr|Sr|vs|etc|e\.g|i\.e|cf|No|Vol|al|Fig|U\.S|U\.K|[A-Z])\.$"
)
_SPACE_BY_HAN = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef]) | (?=[\u3000-\u9fff\uff00-\uffef])")
_UNSPACED = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_TERMS = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+(?:['’][^\W_{_UNSPACED}]+)?")
_UNSPACED_START = re.compile(rf"[{_UNSPACED}]")
_RUN_WORDS = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")
RUN, HAN_RUN = 9, 14  # words, or characters, that two texts do not share by chance


def key(text: str) -> str:
    """What is equal of two texts that differ in case, width and punctuation only."""
    return " ".join(re.findall(r"\w+", _folded(text)))


def says(text: str, answers: Iterable[str]) -> bool:
    """Whether any of `answers` stands in `text`, spaces aside: such a text is never a negative."""
    line = re.sub(r"\s+", "", _folded(text))
    return any(re.sub(r"\s+", "", _folded(answer)) in line for answer in answers)


def tidy(text: str, *, close: bool = False) -> str:
    """Single spaces, no byte order marks; `close` removes the spaces beside Chinese characters too."""
    plain = " ".join(text.replace("\ufeff", "").split())
    return _SPACE_BY_HAN.sub("", plain) if close else plain


def spans(text: str) -> list[tuple[int, int]]:
    """(start, end) of the sentences of `text`, without gaps."""
    if len(_HAN.findall(text)) > len(text) * 0.2:
        cuts = [found.end() for found in _HAN_END.finditer(text)]
    else:
        ends = [found.end() for found in _END.finditer(text)]
        cuts = [end for end in ends if not _ABBREVIATION.search(text[:end].rstrip())]
    edges = [0, *cuts, *([len(text)] if not cuts or cuts[-1] != len(text) else [])]
    return [(a, b) for a, b in pairwise(edges) if text[a:b].strip()]


def sentences(text: str) -> list[str]:
    return [text[start:end].strip() for start, end in spans(text)]


def runs(text: str) -> set[str]:
    """Every run of `RUN` words of a text (`HAN_RUN` of a Chinese one), or the whole of a shorter one."""
    words = _RUN_WORDS.findall(_folded(text))
    size = HAN_RUN if _HAN.search(text) else RUN
    return {" ".join(words[start : start + size]) for start in range(len(words) - size + 1)} or {
        " ".join(words)
    }


class Ranking:
    """BM25 of the library over these terms: each is a word of its own, whatever the library would make of it."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._numbers: dict[str, int] = {}
        self._index = BM25([self._coded(text, learn=True) for text in texts])

    def top(self, query: str, k: int) -> list[int]:
        """The numbers of the best `k` texts that share a term with `query`, best first."""
        return [number for number, _ in self._index.top(self._coded(query), k)]

    def _coded(self, text: str, learn: bool = False) -> str:
        found = list(_terms(text))
        if learn:
            for term in found:
                self._numbers.setdefault(term, len(self._numbers))
        return " ".join(f"t{self._numbers[term]}" for term in found if term in self._numbers)


def connected(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Groups of pairs that share no question and no text with one another: what a split must not tear."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    found = list(pairs)
    for pair in found:
        text = root("t" + key(pair.text))
        parent[root("q" + key(pair.question))] = text
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in found:
        groups[root("q" + key(pair.question))].append(pair)
    return list(groups.values())


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _terms(text: str) -> Iterator[str]:
    """Words; of scripts without spaces single characters and pairs of them."""
    for run in _TERMS.findall(text.casefold()):
        if _UNSPACED_START.match(run):
            yield from run
            yield from (run[start : start + 2] for start in range(len(run) - 1))
        else:
            yield run
