"""What language models wrap a short text in: code fences, JSON, tool calls, labels and quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from crag_dspy.text.replies.thinking import reply_text

# ```json\n{...}\n```, and on one line: ```json {...}``` or ```water boiling point```.
_FENCE = re.compile(
    r"```(?:[\w+-]{0,20}[ \t]*\n|(?:json|text|txt|plaintext|markdown|md)[ \t]+)?(.*?)(?:```|\Z)", re.S
)
# Where the text is, in JSON; then where an object with the text is.
_FIELDS = ("query", "search_query", "rewritten_query", "q", "keywords", "queries", "search", "text", "input")
_INSIDE = ("action_input", "arguments", "parameters", "args", "tool_input", "kwargs")
# Beside the text: what is done with it, and why. Never the text itself.
_BESIDE_FIELDS = """
action name tool function tool_name type id thought thoughts reason reasoning explanation rationale
language lang
"""
_BESIDE = frozenset(_BESIDE_FIELDS.split())
# JSON that was cut short or written with single quotes does not parse; its text can still be read.
_BROKEN = re.compile(
    rf"""["'](?:{"|".join((*_FIELDS, "action_input"))})["'] ?: ?\[? ?["'](.+?)(?:["'] ?[\]}},]|["']? ?\Z)""",
    re.S,
)
_OBJECT = re.compile(r"""\{\s*["'][\w -]{1,40}["']\s*:""")
# <tool_call>{...}</tool_call>, <function=search>..., <search>...</search>; Mistral's mark of a call has no end.
_TAG = re.compile(
    r"^[ \t]{0,9}<(tool_calls?|tool_use|tool|functions?|function_call|invoke|parameter|search|search_query|query)\b"
    r"[^<>\n]{0,99}>"
    r"(.*?)(?:</\1>|\Z)|^[ \t]{0,9}\[TOOL_CALLS\](.*)",
    re.I | re.S | re.M,
)
# The steps of an agent: "Thought: ...", "Action: search", "Action Input: ...". Its input is the text.
_STEP = re.compile(r"^[ \t*#]{0,9}(?:thought|action|observation|final answer)[ \t*]{0,9}[:：]", re.I | re.M)
_STEP_INPUT = re.compile(r"^[ \t*#]{0,9}action[ _]input[ \t*]{0,9}[:：][ \t*]{0,9}", re.I | re.M)
_ACTION = re.compile(r"^[ \t*#]{0,9}action[ \t*]{0,9}[:：][ \t*]{0,9}(.*)", re.I | re.M)
# A call of a function that searches: search("..."), web_search(query="...", k=3), ReAct's search[...].
_CALL = re.compile(
    r"(?:[a-z_.]{0,40}(?:search|query|google|lookup|retrieve)[a-z_]{0,40})(?:\((.*)\)|\[(.*)\]);?",
    re.I | re.S,
)
_ARGUMENT = re.compile(
    rf"\s{{0,9}}(?:(?:{'|'.join(_FIELDS)})\s{{0,9}}=\s{{0,9}})?(?:([\"'])(.*?)\1\s{{0,9}}(?:,|\Z))?", re.S
)
_LABEL = re.compile(
    r"""[\s*_#>]*(?:
        (?:sure|here\ is|here's|here\ are|this\
        is)\b[^:：\n]{0,60}?\b(?:quer|keyword|search|terms)[^:：\n]{0,40}
      | (?:the\ )?(?:re-?written\ |refined\ |improved\ |optimi[sz]ed\ |final\ |original\ )?
        (?:(?:web\ |google\ )?search\ )?(?:query|queries|keywords?|terms|question)
      | (?:web\ )?search
      | (?:改写后的|重写后的|优化后的)?(?:搜索|检索|查询)?(?:查询|关键词|关键字|词|语句|问题)
      | 搜索 | 检索
    )[\s*_]*[:：][\s*_]*""",
    re.IGNORECASE | re.VERBOSE,
)
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "「": "」", "『": "』", "«": "»"}
_LIST_ITEM = re.compile(r"^(?:[-*•]|\d{1,2}[.)])\s+")
_EMPTY_LINE = re.compile(r"\n[^\S\n]*\n")
# Zero-width and direction controls: invisible, and never part of what is meant. ZWNJ and ZWJ (200C, 200D) stay:
# Persian and Indic words are spelled with them. Half a surrogate pair is taken by no encoder.
_DROPPED = "\u200b\u200e\u200f\u2060\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_CONTROLS: dict[int, str | None] = {
    **dict.fromkeys((*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029), " "),
    **dict.fromkeys((*map(ord, _DROPPED), *range(0xD800, 0xE000)), None),
    ord("\n"): "\n",
}
_DEEPEST = 30  # envelopes in envelopes; what is deeper was not written to be read


def unwrapped(said: Any) -> str:
    """The one line in what a language model said: without thinking, fences, JSON, tool calls, labels and quotes.

    "" when the envelope holds no text: `{"action": "search"}`.
    """
    text = _without_controls(reply_text(said)).strip()
    for _ in range(_DEEPEST):  # a fence around JSON around quotes is common
        peeled = text
        for peel in _PEELS:
            peeled = _without_controls(peel(peeled)).strip()
        if peeled == text:
            break
        text = peeled
    return one_line(text)


def one_line(text: str) -> str:
    """`text` on one line, with single spaces and without control characters."""
    return " ".join(_without_controls(text).split())


def _without_controls(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


def _out_of_fence(text: str) -> str:
    match = _FENCE.search(text)
    return match[1] if match else text


def _out_of_tag(text: str) -> str:
    match = _TAG.search(text)
    return text if match is None else match[2] if match[1] else match[3]


def _out_of_steps(text: str) -> str:
    """The input of an agent's action; "" for an action without one."""
    action = _ACTION.search(text)
    if action is None:
        return text
    given = _STEP_INPUT.search(text)
    if given is None:
        return action[1] if _CALL.fullmatch(action[1].strip()) else ""
    after = _STEP.search(text, given.end())
    return text[given.end() : after.start() if after else len(text)]


def _out_of_call(text: str) -> str:
    call = _CALL.fullmatch(text)
    if call is None:
        return text
    inside = call[1] if call[1] is not None else call[2]
    argument = _ARGUMENT.match(inside)
    if argument is None:
        return inside
    return argument[2] if argument[1] else inside[argument.end() :]


def _out_of_json(text: str) -> str:
    if not text.startswith(("{", "[")):
        return text
    try:
        return _from_json(json.loads(text))
    except (ValueError, RecursionError):
        match = _BROKEN.search(" ".join(text.split()))
        if match:
            return match[1]
        return "" if _OBJECT.match(text) else text


def _from_json(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        for name in (*_FIELDS, *_INSIDE):
            if name in value:
                return _from_json(value[name])
        others = [
            item for name, item in value.items() if isinstance(item, str) and name.lower() not in _BESIDE
        ]
        return others[0] if len(others) == 1 else ""
    if isinstance(value, list):
        return " ".join(filter(None, map(_from_json, value)))
    return ""


def _without_label(text: str) -> str:
    position = 0
    while match := _LABEL.match(text, position):
        position = match.end()
    return text[position:]


def _first_paragraph(text: str) -> str:
    """What follows an empty line explains the text; the lines before it are one text, or its terms."""
    lines = _EMPTY_LINE.split(text, maxsplit=1)[0].splitlines()
    if len(lines) > 1:
        lines = [_LIST_ITEM.sub("", line.strip()) for line in lines]
    return " ".join(lines)


def _without_quotes(text: str) -> str:
    """Quotes around everything go, as does one left open; quotes around a part mean something."""
    while len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
        inside = text[1:-1]
        if text[0] in inside or text[-1] in inside:
            return text
        text = inside.strip()
    return text.strip('"') if text.count('"') == 1 else text


_PEELS = (
    _out_of_fence,
    _out_of_tag,
    _out_of_steps,
    _out_of_json,
    _out_of_call,
    _without_label,
    _first_paragraph,
    _without_quotes,
)
