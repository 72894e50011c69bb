"""What a language model's verdict says: relevant, irrelevant, or nothing that can be read.

Models asked for yes or no write "Yes.", "No, unrelated", "I think so", "不相关". What says both or neither is
None: a failure to judge, which never counts as either verdict.
"""

from __future__ import annotations

import re
import unicodedata

from crag_dspy.graders.scale import IRRELEVANT, RELEVANT

_GOOD = r"(?:relevant|related|useful|helpful|pertinent|informative|correct|true|supported)"
_BAD = r"(?:irrelevant|unrelated|useless|unhelpful|incorrect|false|unsupported|off-?topic|non-?relevant)"
_VERB = r"(?:answer|contain|help|address|mention|support|provide|relate|pertain|apply|match|include|discuss)"
# Tried in this order at each place of the text: what unsays a word stands before the word.
_READINGS: tuple[tuple[str, float | None], ...] = (
    (r"\byes\s*(?:/|,?\s*and|or)\s*no\b|\bno\s*(?:/|or)\s*yes\b", None),
    (
        r"\b(?:maybe|perhaps|possibly|unclear|unsure|uncertain|partly|partially|somewhat|ambiguous|depends)\b",
        None,
    ),
    (
        r"\b(?:not sure|not certain|(?:cannot|can't|can not|could not) (?:say|tell|judge|determine|decide|be))\b",
        None,
    ),
    (
        r"不确定|不確定|不好说|不好說|(?:无法|無法|不能)(?:判断|判斷|确定|確定)|部分相关|部分相關|可能|也许|或许",
        None,
    ),
    (rf"(?:\bnot|n't|\bnever)\s+(?:\w+\s+)?{_BAD}\b|\bno (?:doubt|question)\b", RELEVANT),
    (
        rf"(?:\bnot|n't|\bnever|\bhardly|\bbarely)\s+(?:\w+\s+){{0,3}}?(?:{_GOOD}|{_VERB}\w*|so|about|it)\b",
        IRRELEVANT,
    ),
    (rf"\b(?:{_BAD}|no|nope|nah|not|negative|neither)\b", IRRELEVANT),
    (
        rf"\b(?:yes|yeah|yep|yup|y|{_GOOD}|certainly|definitely|absolutely|indeed|affirmative|sure)\b",
        RELEVANT,
    ),
    (r"\b(?:think|believe|guess|suppose|say) so\b", RELEVANT),
    (
        r"(?:不|没|沒|无|無|毫无|毫無|非)(?:太|是|很|怎么|直接|有|甚)?(?:相关|相關|有关|有關|关系|關係|关联|關聯|关|關|帮助|幫助|符合|正确|正確|对|對|能|包含|涉及|回答|提到|提供)",
        IRRELEVANT,
    ),
    (r"不是|否|不|错误|錯誤|^错|^錯", IRRELEVANT),
    (r"相关|相關|有关|有關|有帮助|有幫助|有用|是的|^是|正确|正確|^对|^對|^能|可以", RELEVANT),
)
_PATTERN = re.compile("|".join(f"({pattern})" for pattern, _ in _READINGS))
# "Relevance: no", "so the answer is yes": said last and on purpose, it outweighs the reasoning before it.
_ANNOUNCED = re.compile(
    r"(?:verdict|answer|judge?ment|conclusion|relevance|relevant|答案|结论|結論|判断|判斷)[\"'*\s]*"
    r"(?:is|are|为|為|是|:)+[\"'*\s:]*(yes|no|true|false|relevant|irrelevant|是|否|相关|不相关|相關|不相關)(?!\w)"
)
_THINKING = re.compile(r"<think>.*?(?:</think>|$)", re.S)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？;；])\s*|\n+")


def read_verdict(text: str) -> float | None:
    """1.0 for relevant (yes), -1.0 for irrelevant (no), None for what cannot be read as one of them."""
    plain = unicodedata.normalize("NFKC", _THINKING.sub(" ", text or "")).replace("’", "'").lower().strip()
    plain = plain.strip(" \t\r\n\"'`*_.:-([{【")
    if plain in ("1", "0"):
        return RELEVANT if plain == "1" else IRRELEVANT
    announced = _ANNOUNCED.findall(plain)
    if announced:
        return _agreed(announced[-1])
    # The first sentence with a verdict counts: what follows explains it, often with words of both kinds.
    for sentence in _SENTENCE_END.split(plain):
        leading = re.match(r"(yes|no)(?=\s*[,.!;:—–-]|\s*$)", sentence)
        if leading:
            return _agreed(leading[1])
        if _PATTERN.search(sentence):
            return _agreed(sentence)
    return None


def _agreed(sentence: str) -> float | None:
    """The one verdict of a sentence; None where it says two, or that it is not sure."""
    found = {_READINGS[match.lastindex - 1][1] for match in _PATTERN.finditer(sentence) if match.lastindex}
    return found.pop() if len(found) == 1 else None
