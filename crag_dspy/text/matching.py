"""When is a text the same answer, and when does it contain one?

Metrics and weak labels ask the same question, so they ask it here. Two readings of a text:

- `normalize`: the string compared for equality and token F1. On ASCII it is SQuAD's own normalisation, but for marks
  that make another number or name: 3.5 is not 35, 20:1 not 201, -5 not 5, and C++ not C.
- `words`: the text as words, for containment that respects word boundaries: "art" is not in "party". Scripts
  written without spaces have no boundaries: there every character is a word, and a substring is contained.

Both read "1,000" as 1000, full-width as half-width, "É" as "e", and see no difference between quotes or
dashes. Neither converts between simplified and traditional Chinese.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from crag_dspy.text.scripts import MARKS, UNBOUNDED
from crag_dspy.text.unicode_forms import normal_form

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SIGN = rf"(?<![^\s{UNBOUNDED}])-(?=\d)"  # of -5; the hyphen of 1914-1918 is none
_WORD = re.compile(
    rf"[{UNBOUNDED}][{MARKS}]*"
    rf"|(?:{_SIGN})?(?<![\d.])\d+\.\d+(?!\.?\d)"  # 3.5 is one number; 12.05.2003 is three
    rf"|(?:{_SIGN})?(?:(?![{UNBOUNDED}])[^\W_][{MARKS}]*)+(?:\+\+|#)?"  # C++ and C# are not C
)
# The marks that `normalize` keeps: another number, or another name, without them.
_MEANT = re.compile(rf"(?<=\d)[.,:/'-](?=\d)|{_SIGN}|(?<=[^\W\d_])(?:\+\+|#)")
_UNBOUNDED_CHAR = re.compile(rf"[{UNBOUNDED}][{MARKS}]*")
_SPACE_BY_UNBOUNDED = re.compile(rf"(?<=[{UNBOUNDED}]) | (?=[{UNBOUNDED}])")
_ARTICLES = re.compile(r"\b(a|an|the)\b(?!\+\+|#)")
# "The Beatles" is found in "Beatles songs"; "The Who" must not be found in "who sang it".
_PRONOUNS = "who|what|which|it|he|she|they|we|you|i|one|other|same|the|this|that|end|all|is|in|of|and|or"
_LEADING_ARTICLE = re.compile(rf"^(?:a|an|the) (?!(?:{_PRONOUNS})$)")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:[,\u00a0\u2009\u202f]\d{3})+(?!\d)")
_INITIALS = re.compile(r"(?<!\w)(?:[^\W\d_]\.\s?){2,}(?:[^\W\d_](?!\w))?")  # U.S. and J. K.
_RAISED = re.compile(r"(?<=\w)([\u00b9\u00b2\u00b3\u2070\u2074-\u2079\u00bc-\u00be\u2150-\u215e])")
_LATIN_ACCENTS = re.compile(r"([a-z\u0370-\u03ff])[\u0300-\u036f]+")
_FOLD = str.maketrans(
    {
        **dict(zip("łøđðħıŧ", "loddhit", strict=True)),
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        **dict.fromkeys("‘’‛ʼ`´", "'"),
        **dict.fromkeys("“”„‟", '"'),
        **dict.fromkeys("‐‑‒–−", "-"),
        **dict.fromkeys("—―", " "),
        "⁄": "/",  # ½ is 1⁄2
        **dict.fromkeys("\u200b\u200c\u200d\u00ad\ufeff"),  # invisible
    }
)


def normalize(text: str) -> str:
    """`text` as the string that exact match and token F1 compare.

    SQuAD v1.1's normalisation (lower case, no punctuation, no articles, single spaces), extended to Unicode:
    NFKC, Latin accents folded, punctuation of every script removed, no spaces around scripts written without. Marks
    inside numbers and the signs of C++ and C# stay.
    """
    folded = _fold(text)
    kept, position = [], 0
    for meant in _MEANT.finditer(folded):
        kept += [_unpunctuated(folded[position : meant.start()]), meant[0]]
        position = meant.end()
    kept.append(_unpunctuated(folded[position:]))
    spaced = " ".join(_without_thousands(_ARTICLES.sub(" ", "".join(kept))).split())
    return spaced if spaced.isascii() else _SPACE_BY_UNBOUNDED.sub("", spaced)


def _unpunctuated(text: str) -> str:
    return "".join(char for char in text if unicodedata.category(char)[0] not in "PS")


def tokens(text: str) -> list[str]:
    """The tokens of `normalize(text)`: words, and single characters in scripts written without spaces."""
    normal = normalize(text)
    return normal.split() if normal.isascii() else _UNBOUNDED_CHAR.sub(r" \g<0> ", normal).split()


def words(text: str) -> list[str]:
    """`text` as the words that containment compares; hyphens and apostrophes separate words."""
    return _word_line(text).split()


def terms(text: str) -> list[str]:
    """The words of `text`, and the pairs of neighbouring characters in scripts written without spaces.

    With pairs, 长江 says more than a 长 here and a 江 there.
    """
    found = words(text)
    pairs = [
        first + second
        for first, second in itertools.pairwise(found)
        if not first.isascii() and not second.isascii() and len(first) == len(second) == 1
    ]
    return found + pairs


def phrases(text: str) -> list[str]:
    """`text` as the smallest pieces that mean something: words, and pairs of characters where no spaces are
    written.

    A character alone says little: 北京 and 京北 have the same ones.
    """
    line = words(text)
    pieces = []
    for i, word in enumerate(line):
        if not _UNBOUNDED_CHAR.fullmatch(word):
            pieces.append(word)
        elif i + 1 < len(line) and _UNBOUNDED_CHAR.fullmatch(line[i + 1]):
            pieces.append(word + line[i + 1])
        elif i == 0 or not _UNBOUNDED_CHAR.fullmatch(line[i - 1]):
            pieces.append(word)
    return pieces


def contains_answer(text: str, answers: str | Iterable[str]) -> bool:
    """Whether `text` contains one of `answers` (one answer and its aliases) as whole words.

    A leading article of the answer may be missing from the text. An answer without any letter or digit ("?")
    is looked for literally; an empty one is contained in nothing.
    """
    return found_answer(text, answers) is not None


def found_answer(text: str, answers: str | Iterable[str]) -> str | None:
    """The first of `answers` that `text` contains, as in `contains_answer`, or None."""
    line = f" {_word_line(text)} "
    for answer in [answers] if isinstance(answers, str) else answers:
        wanted = _LEADING_ARTICLE.sub("", _word_line(answer))
        literal = answer.strip()
        if f" {wanted} " in line if wanted else literal and _fold(literal) in _fold(text):
            return answer
    return None


def token_f1(prediction: str, answers: Sequence[str]) -> float:
    """SQuAD's F1 between the tokens of `prediction` and of the answer it fits best, in [0, 1]."""
    return max((_f1(tokens(prediction), tokens(answer)) for answer in answers), default=0.0)


def _f1(predicted: list[str], gold: list[str]) -> float:
    if not predicted or not gold:
        return float(predicted == gold)
    counts: dict[str, int] = {}
    for token in gold:
        counts[token] = counts.get(token, 0) + 1
    common = 0
    for token in predicted:
        if counts.get(token, 0) > 0:
            counts[token] -= 1
            common += 1
    return 2 * common / (len(predicted) + len(gold))


def _fold(text: str) -> str:
    """Case, width, accents, quotes, dashes and thousands separators that make no other answer."""
    if not text.isascii():
        # Before NFKC, which would glue a footnote mark or a fraction to the number before it: 6½ is not 61/2.
        text = _RAISED.sub(r" \1", text)
        text = _without_thousands(text)
        text = normal_form("NFKC", text).casefold().translate(_FOLD)
        text = normal_form("NFC", _LATIN_ACCENTS.sub(r"\1", normal_form("NFD", text)))
    else:
        text = text.lower()
    return _without_thousands(text)


def _without_thousands(text: str) -> str:
    return _THOUSANDS.sub(lambda found: re.sub(r"\D", "", found[0]), text)


@lru_cache(maxsize=4096)
def _word_line(text: str) -> str:
    # Cached: one passage is searched for every alias, and by every metric.
    folded = _INITIALS.sub(lambda found: re.sub(r"[.\s]", "", found[0]) + " ", _fold(text))
    return " ".join(_WORD.findall(folded))
