"""Penn Treebank spacing undone: `-LRB- it 's 5 % -RRB-` becomes `(it's 5%)`.

Answer-selection sets (TREC QA, WikiQA, SelQA) are published tokenised. A grader is asked about real text, so
it must be trained and measured on real text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

_BRACKETS = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
}
_CLITICS = {"n't", "'s", "'re", "'ve", "'ll", "'d", "'m"}
_CLOSERS = {",", ".", ";", ":", "?", "!", "%", ")", "]", "}", "...", "…", "’"}
_OPENERS = {"(", "[", "{", "$", "£", "€", "‘"}
_SPLIT_WORDS = re.compile(r"\b(gon|wan|got|lem|gim) (na|ta|me)\b", re.IGNORECASE)
_END_APART = re.compile(r"\w [.?!](?: (?:''|\"))?$")
_MARKS = re.compile(r"``|''|-[LR][RSC]B-| -- ")
_HYPHEN_APART = re.compile(r"\w - \w")

Dialect = Literal["treebank", "split-hyphens"]


def token_dialect(texts: Sequence[str]) -> Dialect | None:
    """How the texts of one file were tokenised, or None for text as it was written.

    Tokenised when at least half of the texts that end as a sentence have a space before that end.
    "split-hyphens" when, besides, more texts have a hyphen apart than one of the Treebank's own marks.
    """
    ends = [text.rstrip() for text in texts if text.rstrip()[-1:] in {".", "?", "!"}]
    apart = sum(bool(_END_APART.search(text)) for text in ends)
    if not ends or 2 * apart < len(ends):
        return None
    hyphens = sum(bool(_HYPHEN_APART.search(text)) for text in texts)
    marks = sum(bool(_MARKS.search(text)) for text in texts)
    return "split-hyphens" if hyphens > marks else "treebank"


def detokenise(text: str, *, join_hyphens: bool = False) -> str:
    """Text as a person writes it, from Penn Treebank tokens separated by spaces.

    Args:
        text: one sentence. Text that is not tokenised comes back with its runs of spaces made single.
        join_hyphens: some tokenisers (SelQA's) split `high - quality` where the Treebank does not; True joins
            a lone hyphen between two words. A dash (`--`, `–`) always keeps its spaces.
    """
    pieces: list[str] = []
    glue = True  # nothing yet, or no space before the next token
    double_open = single_open = False
    tokens = text.split()
    for position, raw in enumerate(tokens):
        token = _BRACKETS.get(raw.upper(), raw)
        last = pieces[-1] if pieces else ""
        following = tokens[position + 1] if position + 1 < len(tokens) else ""
        before = after = " "
        if token == "``" or (token == '"' and not double_open):
            token, after, double_open = '"', "", True
        elif token == "''" or token == '"':
            token, before, double_open = '"', "", False
        elif token == "`":
            token, after, single_open = "'", "", True
        elif token == "'":
            if single_open or last[-1:].lower() == "s" or not following:
                before, single_open = "", False
            else:
                after, single_open = "", True
        elif token.lower().replace("’", "'") in _CLITICS or token in _CLOSERS:
            before = ""
            if token == ":" and last[-1:].isdigit() and following[:1].isdigit():
                after = ""
        elif token in _OPENERS or (token == "#" and following[:1].isdigit()):
            after = ""
        elif token == "-" and join_hyphens and last[-1:].isalnum() and following[:1].isalnum():
            before = after = ""
        if not glue and before:
            pieces.append(" ")
        pieces.append(token)
        glue = not after
    return _SPLIT_WORDS.sub(r"\1\2", "".join(pieces))
