"""Train, dev and held-out pairs that share nothing: whole documents apart, and no sentence in two splits.

A grader that saw a held-out paragraph's sister question in training looks better than it is. So a split is a
property of the document, fixed by its name before any pair is made, and a last pass removes from training what
another split holds too: the same question, the same text, or a long run of the same words.

By a hash of the name, and not by drawing groups from those that are there, as scikit-learn's splitters do: pairs are
made of many files and in many runs, and a document must come to the same split in all of them.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from crag_dspy.errors import ConfigError
from crag_dspy.state.arguments import check_number
from crag_dspy.text.matching import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from crag_dspy.evaluator_train.pairs.pair_files import Pair

Split = Literal["train", "dev", "heldout"]
SPLITS: tuple[Split, ...] = get_args(Split)
RUN = 12  # words (characters of scripts without spaces) that two texts do not share by chance


@dataclass(frozen=True, slots=True)
class Shares:
    """Which share of the documents goes to dev and to heldout; the rest is for training."""

    dev: float = 0.1
    heldout: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("dev", "heldout"):
            check_number(name, getattr(self, name), 0, 1)
        if self.dev + self.heldout > 1:
            raise ConfigError(f"dev + heldout must be at most 1, got {self.dev} + {self.heldout}")

    def of(self, document: str) -> Split:
        """The split of a document, by a hash of its name: the same whatever other documents there are."""
        place = _place(f"{self.seed}:{document}")
        if place < self.heldout:
            return "heldout"
        return "dev" if place < self.heldout + self.dev else "train"


def split_by_question(pairs: Sequence[Pair], share: float) -> tuple[list[Pair], list[Pair]]:
    """(train, dev): about `share` of the questions, whole, go to dev; the same ones on every machine."""
    dev = [pair for pair in pairs if _place(pair.question) < share]
    return [pair for pair in pairs if _place(pair.question) >= share], dev


def _place(name: str) -> float:
    """Where a name lies in [0, 1), by its hash."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8], "big") / 2**64


def without_duplicates(pairs: Iterable[Pair]) -> list[Pair]:
    """Each pair once, compared without case and punctuation; none of those that have both labels."""
    first: dict[tuple[str, str], Pair] = {}
    disputed: set[tuple[str, str]] = set()
    for pair in pairs:
        key = (_key(pair.question), _key(pair.text))
        if first.setdefault(key, pair).relevant != pair.relevant:
            disputed.add(key)
    return [pair for key, pair in first.items() if key not in disputed]


def with_both_labels(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs of those questions that have relevant and irrelevant texts, by where the pairs come from.

    What one check removed leaves the rest of its question one-sided: it would tilt the balance, and teach the
    question instead of the match.
    """
    found = list(pairs)
    labels: dict[tuple[str, str], set[bool]] = defaultdict(set)
    for pair in found:
        labels[_made_from(pair)].add(pair.relevant)
    return [pair for pair in found if len(labels[_made_from(pair)]) == 2]


def _made_from(pair: Pair) -> tuple[str, str]:
    return pair.question, pair.source.rpartition("/")[0]


def without_leaks(splits: Mapping[Split, Sequence[Pair]]) -> dict[Split, list[Pair]]:
    """Training without what dev or heldout holds, dev without what heldout holds, heldout as it is.

    A pair goes when its question or its text is in the other split, or when either shares a run of `RUN`
    words with a text there (a chunk that overlaps, a page copied under another name).
    """
    kept: dict[Split, list[Pair]] = {}
    whole: set[str] = set()
    runs: set[str] = set()
    for split in reversed(SPLITS):
        kept[split] = [pair for pair in splits.get(split, ()) if not _known(pair, whole, runs)]
        for pair in kept[split]:
            whole.update((_key(pair.question), _key(pair.text)))
            runs |= _runs(pair.question) | _runs(pair.text)
    return {split: kept[split] for split in SPLITS}


def _known(pair: Pair, whole: set[str], runs: set[str]) -> bool:
    texts = (pair.question, pair.text)
    return any(_key(text) in whole or not runs.isdisjoint(_runs(text)) for text in texts)


def _key(text: str) -> str:
    return " ".join(words(text)) or text


def _runs(text: str) -> set[str]:
    found = words(text)
    return {" ".join(found[start : start + RUN]) for start in range(len(found) - RUN + 1)}
