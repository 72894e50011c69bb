"""Scripts and languages: the one table of which characters belong to which, and whether words are spaced.

The names below are insides of a character class of `re`: f"[{UNSPACED}]".
"""

from __future__ import annotations

import re

HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # 々 and 〇 too
KANA = "\u3031-\u3035\u3041-\u3096\u309d-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
THAI, LAO, BURMESE, KHMER = "\u0e00-\u0e7f", "\u0e80-\u0eff", "\u1000-\u109f", "\u1780-\u17ff"
HANGUL = "\uac00-\ud7a3"
# Brackets, commas and full stops of Chinese and Japanese, and full-width forms.
CJK_MARKS = "\u3000-\u303f\u30fb\uff00-\uffef"

# Written without spaces between words: every character stands for itself.
UNSPACED = THAI + LAO + BURMESE + KHMER + KANA + HAN
# And Korean, which has spaces, and particles that stick to the word: where a word begins and ends says little.
UNBOUNDED = UNSPACED + HANGUL

# Vowel signs and tone marks belong to the letter before them.
MARKS = (
    "\u0300-\u036f"  # decomposed Latin, Greek, Cyrillic
    "\u0591-\u05bd\u0610-\u061a\u064b-\u065f"  # Hebrew, Arabic
    "\u0900-\u0903\u093a-\u094f\u0981-\u0983\u09bc-\u09cd"  # Devanagari, Bengali
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u3099\u309a"  # Thai, kana
)

_HAN, _KANA = re.compile(f"[{HAN}]"), re.compile(f"[{KANA}]")
_CJK = re.compile(f"[{HAN}{KANA}]")
# What is named or quoted is no part of the language that is spoken: 《The Crown》的主演是谁？
_NAMED = re.compile(
    r"《[^《》]{0,80}》|〈[^〈〉]{0,80}〉|「[^「」]{0,80}」|『[^『』]{0,80}』|“[^“”]{0,80}”|\"[^\"]{0,80}\""
)
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ɏ]+")
_ENGLISH_WORDS = """
a an the of in on at to for from by with as is are was were be been do does did has have had can
could will would may might must what which who whom whose where when why how many much and or not it
its this that these those he she his her they their we our you your i my
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
# Characters that make sentences, rather than names.
_CHINESE = re.compile("[的了是在和与與有不他她它这這那谁誰吗嗎呢哪几幾何什么麼多少为為被把]")
_JAPANESE = re.compile("[はがをにのかでともへ]")


def has_han(text: str) -> bool:
    """Whether a Chinese character stands in `text`."""
    return _HAN.search(text) is not None


def has_kana(text: str) -> bool:
    """Whether a kana stands in `text`, so that its Han characters are Japanese too."""
    return _KANA.search(text) is not None


def language_of(text: str) -> str:
    """The language that `text` is written in: "ja", "zh", or "en" for all others.

    One foreign character does not make another language: "What does the character 茶 mean?" is English, and
    "iPhone是什么？" Chinese. Words that make sentences decide; where there are none, what there is more of.
    """
    spoken = _NAMED.sub(" ", text)
    if not any(char.isalnum() for char in spoken):
        spoken = text
    characters = len(_CJK.findall(spoken))
    if not characters:
        return "en"
    spaced = [word.lower() for word in _LATIN_WORD.findall(spoken)]
    english = sum(word in _ENGLISH for word in spaced)
    other = len(_CHINESE.findall(spoken)) + len(_JAPANESE.findall(spoken))
    if english > other or (english == other and len(spaced) * 2 > characters):
        return "en"
    return "ja" if has_kana(spoken) else "zh"
