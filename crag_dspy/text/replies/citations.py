"""Citations: `[1]`, `【1】`, `［1］`, `[1, 3]`, `[1、2]`, `[2-4]`, and what they may point at."""

from __future__ import annotations

import re
from dataclasses import dataclass

from crag_dspy.text.scripts import UNBOUNDED

_LIST = r"\d{1,3}(?:\s?[,，、;；–-]\s?\d{1,3}){0,99}"
# In ASCII brackets glued to a word it is an index (`arr[0]`); a number or a character of a script without spaces
# before it is no name.
_BRACKETS = rf"(?:\[\s?(?P<plain>{_LIST})\s?\]|[【［]\s?(?P<wide>{_LIST})\s?[】］])"
_CITATION = re.compile(_BRACKETS)
_UNBOUNDED = re.compile(f"[{UNBOUNDED}]")
_LONGEST_NAME = 64
_CODE = re.compile(r"```.*?(?:```|\Z)|``.+?``|`[^`\n]*`", re.S)
_SEPARATOR = re.compile(r"\s?[,，、;；]\s?")
_RANGE = re.compile(r"\s?[–-]\s?")
_BEFORE_MARK = re.compile(r"(?<!\s)\s+(?=[.,;:!?。，；：！？])")
_SPACES = re.compile(r"[ \t]{2,}")


@dataclass(frozen=True, slots=True)
class Citations:
    """The citations of an answer: `answer` without the ones that point at nothing."""

    answer: str
    cited: tuple[int, ...]
    dropped: tuple[int, ...]


def check_citations(answer: str, sources: int) -> Citations:
    """Keep `[n]` with 1 <= n <= `sources`, drop the others from the text and say which.

    In `[1, 16]` of five sources only the 16 is dropped; `[2-4]` cites 2, 3 and 4. Of a range that leaves the sources,
    the ends that point at nothing are named. A bracket that is glued to a word or stands in code (`arr[0]`) cites
    nothing, and stays.
    """
    cited: dict[int, None] = {}
    dropped: dict[int, None] = {}
    pieces, position = [], 0
    for match in _citations(answer):
        good, bad = _numbers(match, sources)
        cited.update(dict.fromkeys(good))
        dropped.update(dict.fromkeys(bad))
        if bad:
            pieces.append(answer[position : match.start()])
            pieces.append(f"[{', '.join(map(str, good))}]" if good else "")
            position = match.end()
    text = answer
    if dropped:
        text = "".join([*pieces, answer[position:]])
        text = _SPACES.sub(" ", _BEFORE_MARK.sub("", text)).strip()
    return Citations(text, tuple(cited), tuple(dropped))


def uncited(answer: str) -> str:
    """An answer without its citations, which are no part of what it says; as it is when they are all it says."""
    pieces, position = [], 0
    for match in _citations(answer):
        pieces.append(answer[position : match.start()].rstrip())
        position = match.end()
    return "".join([*pieces, answer[position:]]).strip() or answer


def broken_citations(text: str) -> str:
    """Text that somebody else wrote with its bracketed numbers in round brackets: no page numbers our evidence."""
    return _CITATION.sub(lambda match: f"({match['plain'] or match['wide']})", text)


def _citations(text: str) -> list[re.Match[str]]:
    found = list(_CITATION.finditer(text))
    if not found:
        return []
    code = iter([match.span() for match in _CODE.finditer(text)])
    start, end = next(code, (len(text), len(text)))
    kept = []
    for match in found:
        while end <= match.start():
            start, end = next(code, (len(text), len(text)))
        if match.start() < start and not (match["plain"] and _is_glued(text, match.start())):
            kept.append(match)
    return kept


def _is_glued(text: str, at: int) -> bool:
    """Whether a name ends at `at`."""
    for i in range(at - 1, max(-1, at - 1 - _LONGEST_NAME), -1):
        char = text[i]
        if not (char.isalnum() or char == "_") or _UNBOUNDED.match(char):
            return False
        if not char.isdigit():
            return True
    return False


def _numbers(match: re.Match[str], sources: int) -> tuple[list[int], list[int]]:
    """The numbers of one bracket that point at a source, and those that do not."""
    good: list[int] = []
    bad: list[int] = []
    for part in _SEPARATOR.split(match["plain"] or match["wide"]):
        first, *rest = map(int, _RANGE.split(part))
        ends = [first, *rest]
        if len(ends) == 2 and ends[1] > ends[0]:
            good += range(max(first, 1), min(ends[1], sources) + 1)
        else:
            good += [n for n in ends if 1 <= n <= sources]
        bad += [n for n in ends if not 1 <= n <= sources]
    return good, bad
