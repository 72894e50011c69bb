"""What a free-text answer says: which choice, true or false, or that it does not know.

Language models answer "(B)", "The answer is B.", or in the words of the choice; "True.", "The claim is not
true" or "No". Each reader returns None for what it cannot read, and for an answer that says two things at
once: a metric counts that as wrong, never as a guess.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from crag_dspy.errors import ConfigError
from crag_dspy.text.abstain import is_abstention
from crag_dspy.text.matching import contains_answer, normalize

_REFUSALS = (
    r"\b(?:i|we) (?:do not|don't|cannot|can't|can not|could not|couldn't|(?:am|are) unable to)"
    r" (?:know|answer|say|tell|find|determine)",
    r"\b(?:cannot|can't|can not|could not) be (?:answered|determined|found)",
    r"\b(?:not|isn't|aren't) (?:in|(?:stated|mentioned|found|given|provided) in|supported by)"
    r" (?:the|any|this|these|what) (?:\w+ )?"
    r"(?:evidence|context|passages?|text|documents?|sources?|information|was found)",
    r"\b(?:no|not enough|insufficient) (?:evidence|information|context)\b",
    r"\bdoes not (?:say|contain|mention|state)\b",
    r"\bunanswerable\b",
    r"\bunknown\b\W*$",
    r"不知道",
    r"(?:无法|無法|不能)(?:回答|确定|確定|得知|判断|判斷)",
    r"(?:没有|沒有)(?:找到|提到|提及|足够|足夠|相关|相關)",
    r"未(?:找到|提及|提到)",
)
_MIXED = re.compile(
    r"\b(?:half|partly|partially|mostly|somewhat) (?:true|false)\b|\bmixture\b|\bunproven\b|部分(?:正确|属实)"
)
_TRUE = r"(?:true|correct|accurate|right|supported|supports|yes|confirmed)\b"
_FALSE = r"(?:false|incorrect|inaccurate|wrong|untrue|unsupported|refuted|refutes|contradicted|debunked)\b"
_NOT = r"(?:\bnot|\bnever|n't|\bno longer)(?: \w+)? "
# Tried in this order at every position: a negation before what it negates.
_VERDICTS = (
    ("false", rf"{_NOT}{_TRUE}"),
    ("true", rf"{_NOT}{_FALSE}"),
    ("false", rf"\b{_FALSE}"),
    ("false", r"^no\b(?! (?:doubt|question))|\bno (?:evidence|support|proof|truth)\b"),
    ("true", rf"\b{_TRUE}"),
    ("false", r"不正确|不真实|不属实|不对|不是真|并非真|不支持"),
    ("true", r"没错|不假"),
    ("false", r"错误|虚假|错|假|^否"),
    ("true", r"正确|真实|属实|对|真|支持|^是"),
)
# Labels are matched in their own case here: "the answer is a planet" does not choose A.
_LEADING = r"^[\W_]*(LABEL)\s*[.):：、\]】]"  # "B: the Moon", but not "A planet"
_BRACKETED = r"^[(\[【]\s*(LABEL)\s*[)\]】]"
_ANNOUNCED = (
    r"(?i:answer|choice|option|choose|答案|选项|選項|选择|選擇|选|選)"
    r"(?:\s*(?i:is|应该是|应为|是|为|為|:))*[\s*(\[【]*(LABEL)(?![\w'])(?!\s+[a-z]+\s+[a-z])"
)
_REFUSAL = re.compile("|".join(_REFUSALS))
_VERDICT = re.compile("|".join(f"({pattern})" for _, pattern in _VERDICTS))
_BUT = re.compile(r"\b(?:but|however|although|though)\b|但|不过")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*|\n+")


def refuses(answer: str) -> bool:
    """Whether `answer` says nothing but that it does not know, in English or Chinese.

    An answer of several sentences, or with a "but", may refuse one thing and answer another: it is an answer.
    """
    if is_abstention(answer):
        return True
    plain = unicodedata.normalize("NFKC", answer).replace("’", "'").strip().lower()
    if not any(char.isalnum() for char in plain):
        return True
    several = len([part for part in _SENTENCE_END.split(plain) if part]) > 1 or _BUT.search(plain)
    return not several and _REFUSAL.search(plain) is not None


def read_verdict(answer: str) -> bool | None:
    """Whether `answer` calls a claim true or false; None when it does neither, or both, or "partly".

    The first sentence with a verdict decides, so that "False. It is true that ..." is false.
    """
    plain = unicodedata.normalize("NFKC", answer).replace("’", "'").strip().lower()
    for sentence in _SENTENCE_END.split(plain):
        sentence = re.sub(r"\bit is (?:true|correct) that\b|\bwhether\b.*", "", sentence.strip(" \"'“”*#-:"))
        if _MIXED.search(sentence):
            return None
        found = {_VERDICTS[(match.lastindex or 1) - 1][0] == "true" for match in _VERDICT.finditer(sentence)}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def read_choices(choices: Any) -> dict[str, str]:
    """Label -> text.

    From a mapping, a list (labelled A, B, ...), or ARC's {"label": [...], "text": [...]}.
    Raises `ConfigError` on anything else.
    """
    if isinstance(choices, Mapping) and {"label", "text"} <= set(choices):
        choices = dict(zip(choices["label"], choices["text"], strict=True))
    if isinstance(choices, Mapping) and choices:
        return {str(label).strip(): str(text).strip() for label, text in choices.items()}
    if isinstance(choices, Sequence) and not isinstance(choices, str) and 0 < len(choices) <= 26:
        return {chr(ord("A") + i): str(text).strip() for i, text in enumerate(choices)}
    shape = '{"label": [...], "text": [...]}'
    raise ConfigError(f"choices must map labels to texts, list texts, or be {shape}, got {choices!r}")


def read_choice(answer: str, choices: Mapping[str, str]) -> str | None:
    """The label that `answer` chooses; None when it names none, or more than one."""
    plain = unicodedata.normalize("NFKC", answer).strip()
    label = "|".join(sorted(map(re.escape, choices), key=len, reverse=True))
    canonical = {name.upper(): name for name in choices}

    bare = re.sub(r"[\W_]+", " ", plain).strip()
    if re.fullmatch(label, bare, re.IGNORECASE):
        return canonical[bare.upper()]
    if re.match(rf"\W*(?:{label})(?:\s+(?:or|and)\s+|\W*[和或/&,、]\W*)(?:{label})\b", plain):
        return None  # "A or B"
    for pattern in (_LEADING, _BRACKETED, _ANNOUNCED):
        found = re.search(pattern.replace("LABEL", label), plain)
        if found:
            return canonical[found[1].upper()]
    return _by_text(plain, choices)


def _by_text(answer: str, choices: Mapping[str, str]) -> str | None:
    same = [label for label, text in choices.items() if normalize(text) == normalize(answer)]
    if len(same) == 1:
        return same[0]
    inside = [label for label, text in choices.items() if contains_answer(answer, text)]
    # "an infectious disease" is inside "a non-infectious disease" said in full: the longest stands for both.
    longest = [
        label
        for label in inside
        if not any(other != label and contains_answer(choices[other], choices[label]) for other in inside)
    ]
    return longest[0] if len(longest) == 1 else None
