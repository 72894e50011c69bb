"""Reading a value from what a small language model wrote, by the type that the field declares."""

from __future__ import annotations

import enum
import re
from typing import Any, Literal, get_args, get_origin

from dspy.adapters.utils import parse_value

from crag_dspy.text.replies import read_yes_no

_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "「": "」", "『": "』"}
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")


def read_value(text: str, annotation: Any) -> Any:
    """`text` as a value of `annotation`: its first line that is not empty, without quotes and emphasis.

    A verdict may come with a full stop or an explanation ("Yes, because ..."), a choice in another case, a number
    in a sentence. Raises ValueError when no value of that type can be read: nothing is guessed.
    """
    line = bare(next((line for line in text.splitlines() if line.strip()), ""))
    if annotation is str:
        if not line:
            raise ValueError("it is empty")
        return line
    if annotation is bool:
        return _verdict(line)
    if annotation in (int, float):
        return _number(line, annotation)
    if get_origin(annotation) is Literal:
        return _choice(line, {str(choice): choice for choice in get_args(annotation)})
    if isinstance(annotation, enum.EnumMeta):
        named: dict[str, Any] = dict(annotation.__members__)
        return _choice(line, named | {str(member.value): member for member in named.values()})
    if annotation == list[str] and not line.startswith("["):
        return [bare(item) for item in re.split(r"[;,，；、]", line) if item.strip()]
    return parse_value(line, annotation)


def bare(text: str) -> str:
    """`text` without the quotes, backticks or asterisks that enclose the whole of it."""
    text = text.strip()
    while len(text) > 1:
        inner = text[1:-1]
        if text[0] in _QUOTES and text[-1] == _QUOTES[text[0]] and not set(inner) & {text[0], text[-1]}:
            text = inner.strip()
        elif len(text) > 4 and text.startswith("**") and text.endswith("**") and "**" not in text[2:-2]:
            text = text[2:-2].strip()
        else:
            break
    return text


def _verdict(line: str) -> bool:
    said = read_yes_no(line)
    if said is None:
        raise ValueError("it is neither yes nor no")
    return said


def _number(line: str, kind: type[int] | type[float]) -> int | float:
    found = _NUMBER.search(line)
    if found is None:
        raise ValueError("there is no number in it")
    number = float(found[0].replace(",", ""))
    if kind is float:
        return number
    if number != int(number):
        raise ValueError("it is not a whole number")
    return int(number)


def _choice(line: str, choices: dict[str, Any]) -> Any:
    if line in choices:
        return choices[line]
    # "Correct, because ...": the longest choice that the line starts with, as whole words and in any case.
    folded = line.casefold()
    starts = [name for name in choices if re.match(rf"\W*{re.escape(name.casefold())}(?!\w)", folded)]
    if not starts:
        raise ValueError(f"it is none of {', '.join(choices)}")
    return choices[max(starts, key=len)]
