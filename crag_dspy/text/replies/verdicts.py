"""What a language model's judgement says: relevant, true, supported, useful, yes.

Models asked for a word write "Yes.", "No, unrelated", "I think so", "not fully", "8/10", "部分支持". Every reader here
returns None for what says nothing that can be read, and for what says two things at once: a failure to judge, which
never counts as either verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Generic, TypeVar

from crag_dspy.text.replies.thinking import reply_text
from crag_dspy.text.unicode_forms import normal_form

Meaning = TypeVar("Meaning")

_AROUND = " \t\r\n\"'“”*`_.:([{【】"
_SENTENCE_END = re.compile(r"(?<=[.!?。！？;；])\s*|\n+")
# "Relevance: no", "so the answer is yes": said last and on purpose, it outweighs the reasoning before it.
_ANNOUNCED = re.compile(
    r"(?:verdict|answer|judge?ment|conclusion|relevance|relevant|support|score|rating|结论|結論|答案|判断|判斷|支持程度)"
    r"[\"'*\s]*(?:\bis\b|\bare\b|:|为|為|是)[\"'*\s:\[]*"
)


class _Readings(Generic[Meaning]):
    """Patterns and what they mean, tried in this order at each place: what unsays a word stands before the word, and
    takes it along."""

    def __init__(self, *readings: tuple[str, Meaning | None]) -> None:
        self.meanings = [meaning for _, meaning in readings]
        self.pattern = re.compile("|".join(f"({pattern})" for pattern, _ in readings))

    def found(self, text: str) -> Iterator[Meaning | None]:
        """The meaning of every match, in order."""
        for match in self.pattern.finditer(text):
            yield self.of(match)

    def of(self, match: re.Match[str]) -> Meaning | None:
        return self.meanings[(match.lastindex or 1) - 1]

    def agreed(self, text: str) -> tuple[bool, Meaning | None]:
        """Whether anything is said, and what, where it is one thing."""
        meanings = set(self.found(text))
        return bool(meanings), meanings.pop() if len(meanings) == 1 else None


_UNSURE = (
    r"\b(?:maybe|perhaps|possibly|unclear|unsure|uncertain|ambiguous|depends)\b"
    r"|\bnot (?:sure|certain)\b|\b(?:cannot|can't|can not|could not) (?:say|tell|judge|determine|decide|be)\b"
    r"|不确定|不確定|不好说|不好說|(?:无法|無法|不能)(?:判断|判斷|确定|確定)|可能|也许|或许"
)
_PARTLY = r"\b(?:partly|partially|somewhat)\b|部分相关|部分相關"

_GOOD = r"(?:relevant|related|useful|helpful|pertinent|informative|correct|true|supported)"
_BAD = r"(?:irrelevant|unrelated|useless|unhelpful|incorrect|false|unsupported|off-?topic|non-?relevant)"
_VERB = r"(?:answer|contain|help|address|mention|support|provide|relate|pertain|apply|match|include|discuss)"
_RELEVANCE: _Readings[float] = _Readings(
    (r"\byes\s?(?:/|,?\s?and|or)\s?no\b|\bno\s?(?:/|or)\s?yes\b", None),
    (_UNSURE, None),
    (_PARTLY, None),
    (rf"(?:\bnot|n't|\bnever)\s(?:\w+\s)?{_BAD}\b|\bno (?:doubt|question)\b", 1.0),
    (
        rf"(?:\bnot|n't|\bnever|\bhardly|\bbarely)\s(?:\w+\s){{0,3}}?(?:{_GOOD}|{_VERB}\w*|so|about|it)\b",
        -1.0,
    ),
    (rf"\b(?:{_BAD}|no|nope|nah|not|negative|neither)\b", -1.0),
    (rf"\b(?:yes|yeah|yep|yup|y|{_GOOD}|certainly|definitely|absolutely|indeed|affirmative|sure)\b", 1.0),
    (r"\b(?:think|believe|guess|suppose|say) so\b", 1.0),
    (
        r"(?:不|没|沒|无|無|毫无|毫無|非)(?:太|是|很|怎么|直接|有|甚)?(?:相关|相關|有关|有關|关系|關係|关联|關聯|关|關|帮助|幫助|符合|正确|正確|对|對|能|包含|涉及|回答|提到|提供)",
        -1.0,
    ),
    (r"不是|否|不|错误|錯誤|^错|^錯", -1.0),
    (r"相关|相關|有关|有關|有帮助|有幫助|有用|是的|^是|正确|正確|^对|^對|^能|可以", 1.0),
)
_LEADING = re.compile(r"(yes|no)(?=\s*[,.!;:—–-]|\s*$)")
# A number alone: yes and no in digits, on either of two scales that both begin with no.
_DIGITS = {"1": 1.0, "1.0": 1.0, "0": -1.0, "0.0": -1.0, "-1": -1.0, "-1.0": -1.0}
_DIGIT_ALONE = re.compile(r"(-?[01](?:\.0)?)[\s.,;:!)\]}\"'*]{0,9}(?:$|\n)")
_SHARE = re.compile(
    r"(\d{1,4}(?:\.\d{1,4})?) ?(?:(?:/|out of|of) ?(\d{1,4})|%)(?=[\s.,;:!)\]}\"'*—–-]{0,3}(?:$|\n|[.,;:!)\]}—–] ))"
)
_RATES = re.compile(r"\b(?:rate|rated|score|scored|grade|give|gave)\b[^.\n\d]{0,40}(?=\d)")
_ANNOUNCED_WORD = re.compile(r"(?:yes|no|true|false|relevant|irrelevant|是|否|不相关|相关|不相關|相關)(?!\w)")

_TRUE_WORDS = r"(?:true|correct|accurate|right|supported|supports|yes|confirmed)\b"
_FALSE_WORDS = (
    r"(?:false|incorrect|inaccurate|wrong|untrue|unsupported|refuted|refutes|contradicted|debunked)\b"
)
_NEGATED = r"(?:\bnot|\bnever|n't|\bno longer)(?: \w+)? "
_TRUTH: _Readings[bool] = _Readings(
    (rf"{_NEGATED}{_TRUE_WORDS}", False),
    (rf"{_NEGATED}{_FALSE_WORDS}", True),
    (rf"\b{_FALSE_WORDS}", False),
    (r"^no\b(?! (?:doubt|question))|\bno (?:evidence|support|proof|truth)\b", False),
    (rf"\b{_TRUE_WORDS}", True),
    (r"不正确|不真实|不属实|不对|不是真|并非真|不支持", False),
    (r"没错|不假", True),
    (r"错误|虚假|错|假|^否", False),
    (r"正确|真实|属实|对|真|支持|^是", True),
)
_MIXED = re.compile(
    r"\b(?:half|partly|partially|mostly|somewhat) (?:true|false)\b|\bmixture\b|\bunproven\b|部分(?:正确|属实)"
)
_SAID_OF = re.compile(r"\bit is (?:true|correct) that\b|\bwhether\b.*")

_SUPPORTS = r"(?:\s(?:support\w*|stated|states|contain\w*|mention\w*|correct))?"
_YES = {"yes", "true", "1", "y", "correct", "是", "对"}
_NO = {"no", "false", "0", "n", "incorrect", "否", "不"}
FULLY, PARTIALLY, NOT = 1.0, 0.5, 0.0
_SUPPORT: _Readings[float] = _Readings(
    (_UNSURE, None),
    (r"\bnot at all\b" + _SUPPORTS, NOT),
    (
        r"(?:\bnot|\b\w+n't|\bnever)(?:\s\w+)?\s(?:fully|completely|entirely|totally|wholly|all)\b"
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
    (r"\b(?:no|not|never|neither|\w+n't|hardly|barely)\b(?:\s\w+){0,3}?\ssupport\w*", NOT),
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
_OPTIONS = re.compile(r"fully\W+(?:or\W+)?partial\w*\W+(?:or\W+)?not?\b")  # the prompt's own words, repeated

_WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "一": 1, "二": 2, "三": 3, "四": 4, "五": 5}
_SCALE = re.compile(
    r"(?:\bon )?(?:\ba |\bthe )?(?:\bscale )?(?:\bfrom|\bof|\bbetween|\bfor)? ?\b1 ?(?:to|and|through|[-–—~至到]) ?5\b"
)
_OUT_OF = re.compile(r"(?<![\d.])([1-5])(?:\.0)? ?(?:/|out of|of|points? of) ?5(?![\d.]{0,9}\d)")
_OTHER_SCALE = re.compile(r"\d ?(?:/|out of) ?(?!5\b)\d|\d ?%")
_RATED = re.compile(
    r"([1-5])(?:\.0)?(?= ?(?:$|[,.;:!)\]–—-]\D|[,.;:!)\]–—-]$| (?!or\b|to\b|and\b)[^\d ]|分|星|points?|stars?))"
)
_DIGIT = re.compile(r"(?<![\d.,])([1-5])(?:\.0)?(?![\d%]|[.,]\d)")
_WORD = re.compile(r"\b(one|two|three|four|five)\b|([一二三四五])(?= ?(?:分|星|$))")
_STARS = re.compile(r"[★⭐]")


def read_relevance(text: str) -> float | None:
    """1.0 for relevant (yes), -1.0 for irrelevant (no), in between for a number on a scale of its own ("8/10" is 0.6).

    A number without a scale ("2.0") is None: of what it is a part is not said.
    """
    plain = _plain(text)
    announced = [match.end() for match in _ANNOUNCED.finditer(plain)]
    if words := [word for at in announced if (word := _ANNOUNCED_WORD.match(plain, at))]:
        return _RELEVANCE.agreed(words[-1][0])[1]
    rated = _RATES.search(plain)
    places = [0, *([rated.end()] if rated else []), *announced]
    if numbers := [number for at in places if (number := _number(plain, at)) is not None]:
        return numbers[-1]
    # The first sentence with a verdict counts: what follows explains it, often with words of both kinds.
    for sentence in _SENTENCE_END.split(plain):
        if leading := _LEADING.match(sentence):
            return _RELEVANCE.agreed(leading[1])[1]
        said_something, meaning = _RELEVANCE.agreed(sentence)
        if said_something:
            return meaning
    return None


def read_truth(text: str) -> bool | None:
    """Whether a claim is called true or false; None when it is neither, or both, or "partly".

    The first sentence with a verdict decides, so that "False. It is true that ..." is false.
    """
    for sentence in _SENTENCE_END.split(_plain(text)):
        said = _SAID_OF.sub("", sentence.strip(" \"'“”*#-:"))
        if _MIXED.search(said):
            return None
        found, meaning = _TRUTH.agreed(said)
        if found:
            return meaning
    return None


def read_support(text: str) -> float | None:
    """1.0 fully, 0.5 partially, 0.0 not supported or contradicted; None for what cannot be read as one of them."""
    plain = _plain(text)
    if announced := list(_ANNOUNCED.finditer(plain)):
        plain = plain[announced[-1].end() :]
    for sentence in _SENTENCE_END.split(plain):
        leading = _SUPPORT.pattern.match(sentence) if not _OPTIONS.match(sentence) else None
        if leading and re.match(r"\s*(?:$|[,.!;:()\[\]—–-])", sentence[leading.end() :]):
            return _SUPPORT.of(leading)  # what follows explains it, often with words of other kinds
        found, meaning = _SUPPORT.agreed(sentence)
        if found:
            return meaning
    return None


def read_usefulness(text: str) -> int | None:
    """A whole number from 1 to 5; None for what is none, or says two."""
    plain = " ".join(_plain(text).split())
    if out_of := _OUT_OF.findall(plain):
        return int(out_of[-1]) if len(set(out_of)) == 1 else None
    if _OTHER_SCALE.search(plain):
        return None
    plain = _SCALE.sub(" ", plain).strip(" \"'*`.,:")
    if leading := _RATED.match(plain):
        return int(leading[1])
    found = {int(digit) for digit in _DIGIT.findall(plain)}
    found |= {_WORDS[a or b] for a, b in _WORD.findall(plain)} if not found else set()
    stars = len(_STARS.findall(plain))
    found |= {stars} if 1 <= stars <= 5 and not found else set()
    return found.pop() if len(found) == 1 else None


def read_yes_no(text: str) -> bool | None:
    """Whether the first word says yes or no, in words or digits; None when it says neither."""
    word = re.match(r"\W{0,99}([^\W_]{1,99})", text)
    first = word[1].lower() if word else ""
    if first in _YES or first[:1] in {"是", "对"}:
        return True
    if first in _NO or first[:1] in {"否", "不"}:
        return False
    return None


def _plain(text: str) -> str:
    plain = normal_form("NFKC", reply_text(text)).replace("’", "'").replace("−", "-").lower().strip(_AROUND)
    plain = re.sub(r"[^\S\n]+", " ", plain)
    # A dash before a word is a list's, before a digit a number's.
    return plain if re.match(r"-\d", plain) else plain.lstrip(_AROUND + "-")


def _number(text: str, at: int) -> float | None:
    """The number that stands at `at` as a score in [-1, 1]: a digit for yes or no, or a share; None for all others."""
    if digit := _DIGIT_ALONE.match(text, at):
        return _DIGITS[digit[1]]
    share = _SHARE.match(text, at)
    if not share:
        return None
    value, most = float(share[1]), float(share[2] or 100)
    return 2 * value / most - 1 if most > 0 and value <= most else None
