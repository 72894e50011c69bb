"""Whether two answers to one question say the same, by rules: numbers, ratios, dates, units, number and tense. Pure.

An answer is read as a row of tokens that mean something: "1.5 million" and "1,500,000" are the same number, "20:1",
"20 to 1" and "20比1" the same pair, "5 May 1931" and "1931-05-05" the same day, "5 km" and "5,000 m" the same length,
"thawed" and "thaw" the same word. The gold answer must stand in the other one, as in `contains_word`, and neither may
deny what the other says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from crag_dspy.text.common_words import COMMON_WORDS
from crag_dspy.text.matching import normalize
from crag_dspy.text.replies import read_truth, read_yes_no, reply_text, uncited
from crag_dspy.text.scripts import UNSPACED
from crag_dspy.text.unicode_forms import normal_form

_MONTH_NAMES = """
january february march april may june july august september october november december
"""
_SMALL_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_TENS = """
twenty thirty forty fifty sixty seventy eighty ninety
"""
_COUNTED = """
年 个 座 只 名 位 条 次 届 岁 人 件 本 张 部 间 所 家 种
"""
_IRREGULAR_FORMS = """
mice:mouse geese:goose feet:foot teeth:tooth men:man women:woman children:child people:person
leaves:leaf wolves:wolf knives:knife lives:life wives:wife halves:half was:be were:be went:go
gone:go made:make built:build wrote:write written:write began:begin begun:begin broke:break
broken:break won:win lost:lose left:leave fell:fall fallen:fall froze:freeze frozen:freeze
burnt:burn sold:sell told:tell found:find sang:sing sung:sing ran:run flew:fly flown:fly drew:draw
drawn:draw grew:grow grown:grow ate:eat eaten:eat gray:grey dying:die died:die lying:lie
"""
_FILLERS = """
about approximately around roughly nearly almost circa because degree degrees 约 大约 因 为 因为 就 于
"""
_DENYING = """
no not never non without nor 不 没 無 无 未 非
"""
_MONTHS = _MONTH_NAMES.split()
_MONTH = {name[:length]: n for n, name in enumerate(_MONTHS, 1) for length in (3, len(name))} | {"sept": 9}
_MONTH_WORD = "|".join(sorted(_MONTH, key=len, reverse=True))
_DATES = (
    re.compile(rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<m>{_MONTH_WORD})\.?,? (?P<y>\d{{3,4}})\b"),
    re.compile(rf"\b(?P<m>{_MONTH_WORD})\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y>\d{{3,4}})\b"),
    re.compile(rf"\b(?P<m>{_MONTH_WORD})\.?,? (?:of )?(?P<y>\d{{3,4}})\b"),
    re.compile(r"(?<![\d.])(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?![\d.])"),
    re.compile(r"(?P<y>\d{3,4}) ?年 ?(?P<m>\d{1,2}) ?月(?: ?(?P<d>\d{1,2}) ?[日号])?"),
)
_SMALL = _SMALL_NUMBERS.split()
_NUMBERS = {word: n for n, word in enumerate(_SMALL)} | {
    word: 10 * n for n, word in enumerate(_TENS.split(), 2)
}
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12} | {
    (word[:-1] + "ieth" if word.endswith("y") else word + "th"): n for word, n in _NUMBERS.items()
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PARTS = {
    "half": 2,
    "halves": 2,
    "third": 3,
    "thirds": 3,
    "quarter": 4,
    "quarters": 4,
    "fifth": 5,
    "fifths": 5,
    "tenth": 10,
}
_HAN_DIGITS = {char: n for n, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_HAN_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_HAN_NUMBER = re.compile("[零〇一二两兩三四五六七八九十百千万萬亿億]{1,20}")
_HAN_MULTIPLE = re.compile(r"(\d+(?:\.\d+)?) ?([百千万萬亿億]{1,4})(?!米|克)")
# Units as multiples of one of their kind.
_UNITS: dict[str, tuple[str, Fraction]] = {
    name: (kind, Fraction(times))
    for kind, times, names in (
        ("metre", "1000", "km kilometre kilometer 公里 千米"),
        ("metre", "1", "m metre meter 米"),
        ("metre", "1/100", "cm centimetre centimeter 厘米"),
        ("metre", "1/1000", "mm millimetre millimeter 毫米"),
        ("mile", "1", "mile mi 英里"),
        ("foot", "1", "foot feet ft"),
        ("gram", "1000", "kg kilogram kilo 公斤 千克"),
        ("gram", "1", "g gram 克"),
        ("gram", "1000000", "t ton tonne 吨"),
        ("dollar", "1", "$ dollar usd 美元"),
        ("euro", "1", "€ euro eur 欧元"),
        ("pound", "1", "£ pound gbp 英镑"),
        ("yuan", "1", "¥ yuan rmb cny 元 人民币"),
        ("celsius", "1", "°c celsius 摄氏度"),
        ("fahrenheit", "1", "°f fahrenheit"),
    )
    for name in names.split()
}
_HAN_UNITS = "|".join(
    sorted((name for name in _UNITS if re.match(f"[{UNSPACED}]", name)), key=len, reverse=True)
)
_COUNTERS = frozenset(_COUNTED.split())
_IRREGULAR = dict(pair.split(":") for pair in _IRREGULAR_FORMS.split())
_FILLING = (COMMON_WORDS - {"no", "not", "yes", "true", "false", "不", "对", "是"}) | frozenset(
    _FILLERS.split()
)
_DENIALS = frozenset(_DENYING.split())
_TOKEN = re.compile(
    rf"date:[\d_]+|(?<![\w.])-?\d+(?:\.\d+)?(?:[a-z]+|(?:/\d+)?%?)|{_HAN_UNITS}|°[cf]|[$€£¥:~]|[{UNSPACED}]"
    rf"|[^\W_{UNSPACED}]+(?:\+\+|#)?"
)
_AMOUNT = re.compile(r"-?\d+(?:\.\d+)?(?:/\d+)?%?")

_LONGEST = 2000  # characters that are read of an answer: what is longer is none to compare


def same_wording(gold: str, answer: str) -> bool:
    """Whether `answer` says what `gold` says, in other words or with more of them."""
    wanted, said = _tokens(gold), _tokens(answer)
    if not wanted or not said:
        return normalize(gold) == normalize(answer)
    if len(wanted) == 1 and wanted[0] in ("yes", "no", "true", "false", "是", "否"):
        return wanted[0] in said if (truth := _truth(answer)) is None else truth is _truth(gold)
    if _denies(wanted) != _denies(said):
        return False
    return any(
        all(_fits(one, other) for one, other in zip(wanted, said[start:], strict=False))
        for start in range(len(said) - len(wanted) + 1)
    ) or _is_short_for(answer, gold)


def _fits(wanted: str, said: str) -> bool:
    """A year or a month is right where a day in it is said; the day is more than was asked."""
    if wanted == said:
        return True
    return said.startswith("date:") and said.removeprefix("date:").startswith(
        wanted.removeprefix("date:") + "_"
    )


def _truth(text: str) -> bool | None:
    return truth if (truth := read_yes_no(text)) is not None else read_truth(text)


def _denies(tokens: list[str]) -> bool:
    return sum(token in _DENIALS for token in tokens) % 2 == 1


def _is_short_for(answer: str, gold: str) -> bool:
    """NYC for New York City."""
    names = re.findall(r"\b[A-Z]\w*", gold)
    letters = re.sub(r"[\W_]", "", answer.strip())
    return len(names) > 1 and letters.isupper() and letters == "".join(name[0] for name in names)


def _tokens(text: str) -> list[str]:
    plain = normal_form("NFKC", uncited(reply_text(text)))
    plain = re.sub(r"(?<=[a-z] )[A-Z]\. (?=[A-Z])", "", plain[:_LONGEST])  # John A. Roebling
    plain = plain.casefold().replace("−", "-").replace("⁄", "/").replace("–", "-").replace("’", "'")
    plain = re.sub(r"(?<=\d)[, ](?=\d{3}(?!\d))", "", plain)
    plain = re.sub(r"\b(?:minus|negative) (?=\d)|(?:负|零下)(?=\d)", "-", plain)
    plain = re.sub(r"\b(?:[a-z]\.){2,}", lambda found: found[0].replace(".", ""), plain)
    plain = re.sub(r"\bunited states(?: of america)?\b|\busa\b", "us", plain).replace("united kingdom", "uk")
    for pattern in _DATES[:4]:
        plain = pattern.sub(_date, plain)
    plain = _in_figures(plain)
    plain = _DATES[4].sub(_date, plain)
    plain = re.sub(
        r"(?<![\d:])(-?\d+(?:\.\d+)?) ?(?:-|:|比|至|到|\bto\b) ?(\d+(?:\.\d+)?)(?![\d:])", r" \1 ~ \2 ", plain
    )
    plain = re.sub(r"(\d) ?(?:percent|per cent)\b", r"\1%", plain)
    found = _quantities(_words(_TOKEN.findall(plain)))
    return [token for token in found if token not in _COUNTERS] or found


def _date(match: re.Match[str]) -> str:
    parts = match.groupdict()
    month = _MONTH.get(parts["m"]) or int(parts["m"])
    day = parts.get("d")
    return f" date:{parts['y']}_{month:02}" + (f"_{int(day):02} " if day else " ")


def _in_figures(text: str) -> str:
    """Chinese numerals as figures, with 百分之 and 分之."""
    text = re.sub(
        r"(?<![一二三四五六七八九十百千万亿])(千)(?=米|克)", "\u0001", text
    )  # 千米 is a unit, no number
    text = _HAN_NUMBER.sub(lambda found: _han_value(found[0]), text).replace("\u0001", "千")
    text = _HAN_MULTIPLE.sub(_han_multiple, text)
    text = re.sub(r"百分之(\d+(?:\.\d+)?)|100分之(\d+(?:\.\d+)?)", lambda m: f" {m[1] or m[2]}% ", text)
    return re.sub(r"(\d+)分之(\d+)", r" \2/\1 ", text)


def _han_value(numeral: str) -> str:
    if all(char in _HAN_DIGITS for char in numeral):  # 一九五七
        return "".join(str(_HAN_DIGITS[char]) for char in numeral)
    if not any(char in _HAN_DIGITS for char in numeral) and numeral != "十":
        return numeral  # 百, 千万: a word, or a scale of the figures before it
    total = section = digit = 0
    for char in numeral:
        if char in _HAN_DIGITS:
            digit = _HAN_DIGITS[char]
        elif (scale := _HAN_SCALES[char]) >= 10**4:
            total, section, digit = (total + section + digit) * scale, 0, 0
        else:
            section, digit = section + (digit or 1) * scale, 0
    return str(total + section + digit)


def _han_multiple(match: re.Match[str]) -> str:
    value = Fraction(match[1])
    for char in match[2]:
        value *= _HAN_SCALES[char]
    return _written(value)


def _words(tokens: list[str]) -> Iterator[str]:
    """Words in the singular and the present, and numbers in figures."""
    i = 0
    while i < len(tokens):
        token = tokens[i]
        value, used = _english_number(tokens, i)
        if value is not None:
            yield _written(value)
            i += used
            continue
        i += 1
        if token in _FILLING:
            continue
        if ordinal := re.fullmatch(r"(\d{1,4})(?:st|nd|rd|th)", token):
            yield f"#{ordinal[1]}"
        elif token in _ORDINALS:
            yield f"#{_ORDINALS[token]}"
        elif token in ("once", "twice", "thrice"):
            yield from (str(("once", "twice", "thrice").index(token) + 1), "time")
        elif glued := re.fullmatch(r"(-?\d+(?:\.\d+)?)([a-z]+)", token):
            yield from (glued[1], glued[2]) if glued[2] in _UNITS else (token,)
        elif token in _UNITS or token.removesuffix("s") in _UNITS:
            yield token if token in _UNITS else token.removesuffix("s")
        else:
            yield _stem(token)


def _english_number(tokens: list[str], at: int) -> tuple[Fraction | None, int]:
    """The number that begins at a token, in words or in figures with a scale, and how many tokens it takes."""
    total = section = Fraction(0)
    i, known = at, False
    while i < len(tokens):
        word = tokens[i]
        if word in _NUMBERS:
            section, known = section + _NUMBERS[word], True
        elif _AMOUNT.fullmatch(word) and not known and "%" not in word:
            section, known = _amount(word), True
        elif word in _SCALES and known:
            if _SCALES[word] == 100:
                section *= 100
            else:
                total, section = total + section * _SCALES[word], Fraction(0)
        elif word in _PARTS and (known or word == "half" or tokens[at - 1 : at] in (["a"], ["one"])):
            return (total + section if known else Fraction(1)) / _PARTS[word], i - at + 1
        elif not (word == "and" and known and i + 1 < len(tokens) and tokens[i + 1] in _NUMBERS):
            break
        i += 1
    if i == at and tokens[at].endswith("%") and _AMOUNT.fullmatch(tokens[at]):
        return _amount(tokens[at]), 1
    return (total + section, i - at) if known else (None, 0)


def _amount(figures: str) -> Fraction:
    try:
        value = Fraction(figures.rstrip("%"))
    except ZeroDivisionError:
        return Fraction(0)
    return value / 100 if figures.endswith("%") else value


def _quantities(words: Iterator[str]) -> list[str]:
    """Numbers with the unit beside them as one token, in the smallest unit of its kind."""
    found: list[str] = []
    waiting: str | None = None  # a currency before its number
    for word in words:
        number = bool(re.fullmatch(r"-?\d+(?:\.\d+)?(?:/\d+)?", word))
        if word in _UNITS and found and re.fullmatch(r"-?\d+(?:\.\d+)?(?:/\d+)?", found[-1]):
            found[-1] = _measured(found[-1], word)
        elif number and waiting:
            found.append(_measured(word, waiting))
        elif word not in "$€£¥":
            found.append(word)
        waiting = word if word in "$€£¥" else None
    return found


def _measured(number: str, unit: str) -> str:
    kind, times = _UNITS[unit]
    return f"{_written(Fraction(number) * times)} {kind}"


def _written(value: Fraction) -> str:
    return str(value)


def _stem(word: str) -> str:
    word = _IRREGULAR.get(word, word)
    if not word.isascii() or len(word) < 4:
        return word
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word.removesuffix(ending) + instead
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word.removesuffix(ending)
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word.removesuffix("e") if len(word) > 4 else word
