"""Reading Self-RAG's judgements in words: how far something is supported, and how useful it is.

Models write "Fully supported.", "[Partially supported]", "not fully", "No, the context says 1930", "4/5",
"部分支持". What says two things, or nothing that can be read, is None: a failure to judge.
"""

from __future__ import annotations

import re
import unicodedata

FULLY, PARTIALLY, NOT = 1.0, 0.5, 0.0

_SUPPORTS = r"(?:\s+(?:support\w*|stated|states|contain\w*|mention\w*|correct))?"
# Tried in this order at each place: what unsays or weakens a word stands before it, and takes the word with it.
_READINGS: tuple[tuple[str, float | None], ...] = (
    (r"\b(?:maybe|perhaps|possibly|unclear|unsure|uncertain|depends)\b", None),
    (r"\bnot (?:sure|certain)\b|\b(?:cannot|can't|could not) (?:say|tell|judge|determine|decide)\b", None),
    (r"不确定|不確定|(?:无法|無法|不能)(?:判断|判斷|确定|確定)|可能|也许|或许", None),
    (r"\bnot at all\b" + _SUPPORTS, NOT),
    (
        r"(?:\bnot|\b\w+n't|\bnever)(?:\s+\w+)?\s+(?:fully|completely|entirely|totally|wholly|all)\b"
        + _SUPPORTS,
        PARTIALLY,
    ),
    (r"(?:不|并非|並非|未|没有|沒有)完全(?:支持)?", PARTIALLY),
    (
        r"\b(?:part|partly|partial|partially|in part|somewhat|mostly|mainly|largely|to some extent|some of it)\b"
        + _SUPPORTS,
        PARTIALLY,
    ),
    (r"(?:一)?部分(?:支持)?", PARTIALLY),
    (r"\b(?:no|not|never|neither|\w+n't|hardly|barely)\b(?:\s+\w+){0,3}?\s+support\w*", NOT),
    (
        r"\b(?:no|not|none|nothing|never|neither|nope|unsupported|contradict\w*|refut\w*|false|incorrect)\b"
        r"|\b\w+n't\b",
        NOT,
    ),
    (r"(?:不|没有|沒有|无|無|未)(?:被)?(?:支持|提到|提及|说明|說明)?|矛盾|否|错误|錯誤", NOT),
    (
        r"\b(?:fully|full|completely|complete|entirely|totally|wholly|clearly|directly|well)\b" + _SUPPORTS,
        FULLY,
    ),
    (r"\b(?:yes|yeah|yep|supported|supports|support|true|correct|all of it|stated|states)\b", FULLY),
    (r"(?:完全|全部|充分)(?:支持)?|支持|正确|正確|^是|是的", FULLY),
)
_PATTERN = re.compile("|".join(f"({pattern})" for pattern, _ in _READINGS))
_ANNOUNCED = re.compile(
    r"(?:verdict|answer|judge?ment|conclusion|support|结论|結論|判断|判斷|支持程度)[\"'*\s]*(?:is|:|为|為|是)+[\"'*\s:\[]*"
)
_OPTIONS = re.compile(r"fully\W+(?:or\W+)?partial\w*\W+(?:or\W+)?not?\b")  # the prompt's own words, repeated
_THINKING = re.compile(r"<think>.*?(?:</think>|$)", re.S)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？;；])\s*|\n+")

_WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "一": 1, "二": 2, "三": 3, "四": 4, "五": 5}
_SCALE = re.compile(
    r"(?:on )?(?:a |the )?(?:scale )?(?:from|of|between|for)?\s*\b1\s*(?:to|and|through|[-–—~至到])\s*5\b"
)
_OUT_OF = re.compile(r"(?<![\d.])([1-5])(?:\.0)?\s*(?:/|out of|of|points? of)\s*5(?![\d.]*\d)")
_OTHER_SCALE = re.compile(r"\d\s*(?:/|out of)\s*(?!5\b)\d+|\d\s*%")
_LEADING = re.compile(
    r"([1-5])(?:\.0)?(?=\s*(?:$|[,.;:!)\]\n–—-]\D|[,.;:!)\]\n–—-]$|\s(?!or\b|to\b|and\b)[^\d\s]|分|星|points?|stars?))"
)
_DIGIT = re.compile(r"(?<![\d.,])([1-5])(?:\.0)?(?![\d%]|[.,]\d)")
_WORD = re.compile(r"\b(one|two|three|four|five)\b|([一二三四五])(?=\s*(?:分|星|$))")
_STARS = re.compile(r"[★⭐]")


def read_support(text: str) -> float | None:
    """1.0 fully, 0.5 partially, 0.0 not supported or contradicted; None for what cannot be read as one of them."""
    plain = _plain(text)
    announced = list(_ANNOUNCED.finditer(plain))
    for sentence in _SENTENCE_END.split(plain[announced[-1].end() :] if announced else plain):
        found = {_meaning(match) for match in _PATTERN.finditer(sentence)}
        leading = _PATTERN.match(sentence) if not _OPTIONS.match(sentence) else None
        if leading and re.match(r"\s*(?:$|[,.!;:()\[\]—–-])", sentence[leading.end() :]):
            return _meaning(leading)  # what follows explains it, often with words of other kinds
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def read_usefulness(text: str) -> int | None:
    """A whole number from 1 to 5; None for what is none, or says two."""
    plain = _plain(text)
    if out_of := _OUT_OF.findall(plain):
        return int(out_of[-1]) if len(set(out_of)) == 1 else None
    if _OTHER_SCALE.search(plain):
        return None
    plain = _SCALE.sub(" ", plain).strip(" \"'*`.,:")
    if leading := _LEADING.match(plain):
        return int(leading[1])
    found = {int(digit) for digit in _DIGIT.findall(plain)}
    found |= {_WORDS[a or b] for a, b in _WORD.findall(plain)} if not found else set()
    stars = len(_STARS.findall(plain))
    found |= {stars} if 1 <= stars <= 5 and not found else set()
    return found.pop() if len(found) == 1 else None


def _plain(text: str) -> str:
    plain = unicodedata.normalize("NFKC", _THINKING.sub(" ", text or "")).replace("’", "'").lower()
    return plain.strip(" \t\r\n\"'`*_.:-([{【】")


def _meaning(match: re.Match[str]) -> float | None:
    return _READINGS[match.lastindex - 1][1] if match.lastindex else None
