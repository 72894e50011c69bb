"""Where an answer stands in a text: word for word, or the words that it adds to its question."""

from __future__ import annotations

import bisect
import re

from crag_dspy.text.common_words import COMMON_WORDS
from crag_dspy.text.matching import contains_answer, words
from crag_dspy.text.scripts import UNBOUNDED

_PIECE = re.compile(rf"[{UNBOUNDED}]|(?:(?![{UNBOUNDED}])\S)+")
_EDGES = re.compile(r"^[^\w$€£¥%+-]+|[^\w%+#]+$")


def said_runs(question: str, answer: str) -> list[str]:
    """The runs of an answer's words that neither its question has, nor every sentence; all where nothing is left."""
    asked = {*words(question), *COMMON_WORDS}
    runs: list[list[str]] = [[]]
    for word in words(answer):
        if word in asked:
            runs.append([])
        else:
            runs[-1].append(word)
    return [" ".join(run) for run in runs if run] or [answer]


def held_part(question: str, answer: str, text: str) -> str | None:
    """The part of an answer by which `text` holds it; None where it does not.

    All of it where it stands there. Else, of an answer such as "It opened in 1931", where all that it adds to the
    question stands there: the number, or the longest of these words.
    """
    if contains_answer(text, answer):
        return answer
    runs = said_runs(question, answer)
    if all(contains_answer(text, run) for run in runs):
        return max(runs, key=lambda run: (any(map(str.isdigit, run)), len(run)))
    return None


def place_of(part: str, text: str) -> tuple[int, int]:
    """The characters of the first place where `text` holds `part`, which it must."""
    pieces = [piece.span() for piece in _PIECE.finditer(text)]
    last = bisect.bisect_left(pieces, True, key=lambda span: contains_answer(text[: span[1]], part))
    end = pieces[min(last, len(pieces) - 1)][1]
    first = bisect.bisect_right(
        pieces[: last + 1], False, key=lambda span: not contains_answer(text[span[0] : end], part)
    )
    start = pieces[max(first - 1, 0)][0]
    inside = _EDGES.sub("", text[start:end])
    if not contains_answer(inside, part):
        return start, end
    start += text[start:end].find(inside)
    return start, start + len(inside)
