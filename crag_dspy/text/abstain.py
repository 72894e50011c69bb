"""Saying that the evidence is not there: one sentence a language, and how to recognise one."""

from __future__ import annotations

import re

from crag_dspy.text.sentences import language_of

ABSTENTIONS = {
    "en": "The evidence does not contain the answer.",
    "zh": "现有资料中没有答案。",
    "ja": "資料の中に答えはありません。",
}

_REFUSALS = re.compile(
    r"^\W*(?:i (?:do not|don't|don’t) know|not (?:enough|sufficient) information|unknown|unanswerable|no answer"
    r"|cannot be (?:answered|determined)"
    r"|(?:the )?(?:provided |given )?(?:context|evidence|passages?) (?:does|do)(?: not|n't|n’t)\b"
    r"(?:(?!\bbut\b|\bhowever\b).)*"
    r"|不知道|无法(?:回答|确定)|没有(?:相关)?(?:信息|答案))\W*$",
    re.I | re.S,
)


def abstention(question: str) -> str:
    """The sentence for a question, in its language."""
    return ABSTENTIONS[language_of(question)]


def is_abstention(answer: str) -> bool:
    """Whether an answer says that it does not know: our own sentences, and the plain ways language models have."""
    text = answer.strip()
    return not text or text in ABSTENTIONS.values() or bool(_REFUSALS.match(text))
