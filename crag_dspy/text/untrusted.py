"""Text that somebody else wrote, as a prompt may hold it: readable, and without anything that gives a prompt structure.

This is the only place that neutralises. Whatever enters a prompt and was not written here goes through it: evidence,
titles and passages by `as_data`, questions and other text of the caller's by `as_asked`, and
a context that may be one of `crag_dspy.knowledge` by its `as_context`, which asks `as_asked`.

What gives structure is looked for in a folded copy of the text, in which every character is the plain one that it looks
like: full-width and mathematical letters, Cyrillic and Greek ones, all kinds of bracket, nothing that cannot be seen.
A mark and its look-alikes are one pattern then. What is found is taken apart by its brackets and stays readable:
`</web>` becomes `&lt;/web&gt;`, `[INST]` becomes `(INST)`.

Every pattern takes linear time: white space is matched possessively (`\\s*+`), and none can begin inside another.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

_LINE_BREAK = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Format characters hide text or reorder it; the joiners that real scripts need (U+200C, U+200D) are dropped with them.
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn"}
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# How JSON and Python write a character that shall not be seen as itself: \u003c, \x3c, \u{3c}.
_ESCAPE = re.compile(r"\\(?=u[0-9a-fA-F]{4}|u\{|x[0-9a-fA-F]{2})")

# Letters of other scripts, small capitals and signs by the ASCII character that they look like (see Unicode TR39);
# what NFKD already takes apart, such as full-width, mathematical and accented letters, need not stand here.
_LOOKS_LIKE = {
    look: plain
    for plain, looks in {
        "a": "аαɑᴀꓮᎪ",
        "b": "ьвъβʙᏏᏼꓐ",
        "c": "сϲᴄꮯꓚᏟ",
        "d": "ԁᴅđꓓᎠ",
        "e": "еєҽεɛᴇꓰᎬ℮",
        "f": "ƒꞙꓝ",
        "g": "ɡցɢԍꓖᏀ",
        "h": "һнհʜħꓧᎻ",
        "i": "іιıɪɩꓲᎥ",
        "j": "јϳյᴊꓙᎫ",
        "k": "кκᴋꓗᏦ",
        "l": "ӏʟłɭꓡᏞ",
        "m": "мᴍꓟᎷ",
        "n": "ոηпɴꓠ",
        "o": "оοօσᴏøꓳ",
        "p": "рρᴘꓑᏢ",
        "q": "ԛզ",
        "r": "гʀꓣᎡ",
        "s": "ѕꜱꓢᏚ",
        "t": "тτᴛꓔᎢ",
        "u": "υսᴜꓴ",
        "v": "ѵνᴠʋꓦᏙ",
        "w": "ԝѡωաᴡꓪᎳ",
        "x": "хχꓫ",
        "y": "уγүʏꓬ",
        "z": "ᴢꓜᏃ",
        "<": "‹〈⟨❮❬⧼«《⟪≪≺˂ᐸ〈",
        ">": "›〉⟩❯❭⧽»》⟫≫≻˃ᐳ〉",
        "[": "【〔〖⟦❲⁅⦋⟬",
        "]": "】〕〗⟧❳⁆⦌⟭",
        "/": "⁄∕⧸╱〳⟋ノ",
        "|": "∣│ǀ❘⏐｜￨¦┃ꟾ",
        "#": "♯⌗",
        "_": "▁‗",
        "-": "‐‑‒–—―−",
        ",": "、，",
        " ": "\u115f\u1160\u3164\uffa0\u2800",  # letters and signs without a shape
    }.items()
    for look in looks
}
_PLAIN_BRACKETS = {"<": "&lt;", ">": "&gt;", "[": "(", "]": ")"}

# What chat templates and agents know as tags. With an underscore, or with bars, any name is one.
_TAGS = (
    "web|custom|s|sys|bos|eos|bot|eot|eod|eom|pad|unk|mask|cls|sep|start|end|think|thinking|thought|reasoning|answer"
    "|question|passage|passages|query|verdict|support|rating|completed"  # the fields of an XML prompt
    "|system|user|human|assistant|model|tool|tools|function|functions|invoke|parameter|parameters|observation"
    "|document|documents|context|instruction|instructions|image|img|audio|video"
)
_BRACKETED = (
    "web|inst|sys|s|bos|eos|pad|unk|mask|gmask|smask|cls|sep|sop|eop|img|image|end|begin|prefix|suffix|middle|system"
    "|user|assistant|tool|[a-z]++(?:_[a-z]++)++"
)
_STRUCTURE = re.compile(
    rf"(?<!<)<++\s*+/?\s*+(?:{_TAGS})(?![a-z0-9_])(?:\s*+/?\s*+>++)?+"  # <web>, </s>, <<SYS>>, <<CUSTOM-TYPE-...
    r"|(?<!<)<++\s*+/?\s*+[a-z0-9]*+(?:_++[a-z0-9]++)++\s*+>++"  # <start_of_turn>, <extra_id_0>, <tool_call>
    r"|(?<!<)<++\|"  # <|im_start|>, <｜User｜>
    r"|\|>++"
    rf"|\[\s*+/?\s*+(?:{_BRACKETED})\s*+/?\s*+\]"  # [INST], [/web], [TOOL_CALLS]
    r"|\[\s*+\[(?=\s*+#)"  # DSPy's field headers: [[ ## answer ## ]]
    r"|(?<=#)\s*+\]\s*+\]"
)
# [2], and [1, 3] or [2-4]: numbers that would look like those of our own sources.
_NUMBERED = re.compile(r"\[\s*+\d{1,3}(?:\s*+[,;-]\s*+\d{1,3})*+\s*+\]")
# Our own headings at the start of a line, whatever stands before them that is no letter: "## Internal evidence:".
_HEADING = re.compile(r"^(?:(?!\n)[\W\d_])*+((?:internal|web)\s++evidence)\b", re.M)


def as_data(text: str) -> str:
    """Retrieved text: visible, and without marks, numbers and headings that could pass for the prompt's own."""
    shown = _unescaped(visible(text))
    folded = _Folded(shown)
    return _edited(shown, {**folded.brackets(_STRUCTURE), **folded.brackets(_NUMBERED), **folded.headings()})


def as_asked(text: str) -> str:
    """A question, a claim or an answer: as it was written, but for marks that would give the prompt structure."""
    whole = _unescaped(encodable(text))
    folded = _Folded(whole)
    return _edited(whole, {**folded.brackets(_STRUCTURE), **folded.headings()})


def _unescaped(text: str) -> str:
    """Text in which what some reader would take for another character stays what it is."""
    return _ESCAPE.sub("⧵", text)


def encodable(text: str) -> str:
    """Text of the same length without half characters (of an emoji, say), which no tokenizer and no server takes."""
    return _SURROGATE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """Retrieved text that stands before other text on its line, such as a title."""
    return " ".join(as_data(text).split())


def visible(text: str) -> str:
    """Text without what a reader cannot see: control, format (zero-width, bidirectional) and unassigned characters.

    Every kind of line break becomes a newline.
    """
    lines = _LINE_BREAK.sub("\n", text)
    if lines.replace("\n", "").replace("\t", "").isprintable():
        return lines
    return "".join(char for char in lines if char in "\n\t" or unicodedata.category(char) not in _HIDDEN)


class _Folded:
    """A text as it looks, and where each character of that comes from."""

    def __init__(self, text: str) -> None:
        self.written = text
        self.text = text.lower() if text.isascii() else text.translate(_FOLD)
        # The end, in the folded text, of what each character became; None where each became one.
        self._ends = None
        if len(self.text) != len(text):
            self._ends = list(accumulate(len(_FOLD[ord(char)]) for char in text))

    def place(self, index: int) -> int:
        """The place in the text of a place in the folded one."""
        return index if self._ends is None else bisect_right(self._ends, index)

    def brackets(self, pattern: re.Pattern[str]) -> dict[int, str]:
        """What to put in the place of the brackets of everything that the pattern finds."""
        return {self.place(at): plain for at, plain in self._brackets(pattern)}

    def headings(self) -> dict[int, str]:
        """What to put in the place of the ends of our own headings: those with a round bracket."""
        edits: dict[int, str] = {}
        for found in _HEADING.finditer(self.text):
            start, end = self.place(found.start(1)), self.place(found.end(1) - 1)
            if self.written[start - 1 : start] != "(":
                edits[start], edits[end] = f"({self.written[start]}", f"{self.written[end]})"
        return edits

    def _brackets(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
        for found in pattern.finditer(self.text):
            for at in range(*found.span()):
                if plain := _PLAIN_BRACKETS.get(self.text[at]):
                    yield at, plain


class _Fold(dict[int, str]):
    """Code point to what it looks like in lower case: "" for what is not seen. Filled as characters are met."""

    def __missing__(self, code: int) -> str:
        if len(self) > 20_000:  # a page may hold every character there is
            self.clear()
        char = chr(code)
        self[code] = _plain(char)
        return self[code]


def _plain(char: str) -> str:
    if char.isspace():
        return "\n" if char == "\n" else " "
    taken_apart = unicodedata.normalize("NFKD", _LOOKS_LIKE.get(char, char)).casefold()
    return "".join(
        _LOOKS_LIKE.get(part, part)
        for part in unicodedata.normalize("NFKD", taken_apart)
        if unicodedata.category(part) not in {"Mn", "Me", *_HIDDEN}
    )


_FOLD = _Fold()


def _edited(text: str, edits: dict[int, str]) -> str:
    if not edits:
        return text
    parts, position = [], 0
    for at in sorted(edits):
        parts += [text[position:at], edits[at]]
        position = at + 1
    return "".join([*parts, text[position:]])
