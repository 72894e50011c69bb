"""Which choice an answer names: "(B)", "The answer is B.", or in the words of the choice."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from crag_dspy.errors import ConfigError
from crag_dspy.text.matching import contains_answer, normalize
from crag_dspy.text.replies.citations import uncited
from crag_dspy.text.replies.thinking import reply_text
from crag_dspy.text.unicode_forms import normal_form

# Labels are matched in their own case here: "the answer is a planet" does not choose A.
_LEADING = r"^[\W_]*(LABEL)\s*[.):：、\]】]"  # "B: the Moon", but not "A planet"
_BRACKETED = r"^[(\[【]\s*(LABEL)\s*[)\]】]"
_ANNOUNCED = (
    r"(?i:answer|choice|option|choose|答案|选项|選項|选择|選擇|选|選)"
    r"(?:\s*(?i:is|应该是|应为|是|为|為|:))*[\s*(\[【]*(LABEL)(?![\w'])(?!\s+[a-z]+\s+[a-z])"
)


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
    plain = normal_form("NFKC", uncited(reply_text(answer))).strip()
    label = "|".join(sorted(map(re.escape, choices), key=len, reverse=True))
    canonical = {name.upper(): name for name in choices}

    bare = re.sub(r"[\W_]+", " ", plain).strip()
    if re.fullmatch(label, bare, re.IGNORECASE):
        return canonical[bare.upper()]
    if re.match(rf"\W*(?:{label})(?:\s+(?:or|and)\s+|[^\w/&,、]*[和或/&,、]\W*)(?:{label})\b", plain):
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
