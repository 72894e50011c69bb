"""Where sentences end, in English, Chinese, Japanese and what shares their marks, without losing a character.

`sentencex` finds the boundaries. It splits a few things that belong together; the rules below put them back. Each
rule names the case it is there for.
"""

from __future__ import annotations

import re

from crag_dspy.text.scripts import has_han, has_kana

# "Yan et al. [2004] analysed": a citation bracket never ends a sentence that goes on in lower case.
_AFTER_CITATION = re.compile(r"[\])]$")
_GOES_ON = re.compile(r"\s*[a-z,;:，、；]")
# "see fig. 3 and tab. 2.": a reference word waits for its number.
_REFERENCE = re.compile(
    r"(?:^|[\s(\[（])(?:figs?|tabs?|eqs?|secs?|chap|ch|pp?|vols?|nos?|approx|ca|cf|art|pt|ref|refs|ver|rev)\.\s*$",
    re.I,
)
_NUMBER = re.compile(r"\s*[(\[]?\d")
# "３．１４": a full-width decimal point between full-width digits.
_DECIMAL_HEAD = re.compile(r"[0-9０-９][．.]$")
_DECIMAL_TAIL = re.compile(r"[0-9０-９]")
# “真的吗？”她问。 / 「行こう。」と言った。: what follows a quotation often still belongs to its sentence.
_CLOSING = "”’」』〉》）)\"'"
_ENDS_IN_QUOTE = re.compile(rf"[。！？!?…．.][{_CLOSING}]+\s*$")
_ATTRIBUTION = re.compile(
    r"(?:[，、；。！？的地得等]"  # punctuation or a particle cannot start a sentence
    r"|[^，。！？；：“「『]{0,8}(?:说|說|道|问|問|答|喊|叫|写道|寫道|笑道|回答|表示)(?:[，。：；！]|$)"  # "she asked."
    r"|这(?:句|一|个|番|话)|是[^。]{0,12}的名言"
    r"|(?:と|って|という|とは|が|を|は|に|の))"
)
# A piece of closing quotes or brackets alone stays with its sentence.
_ONLY_CLOSING = re.compile(rf"\s*[{_CLOSING}]+\s*$")
# "报告。Dr. Li": after Chinese, without a space before it, a title is not recognised as an abbreviation.
_TITLE = re.compile(r"(?:^|[^\sA-Za-z])(?:Dr|Mr|Mrs|Ms|Prof|St|Gen|Col|Capt|Lt|Sgt|Rev|Hon|vs)\.\s*$")
# "A.I.技术", "J.K.罗琳", "B. London": initials alone are no sentence.
_ONLY_INITIALS = re.compile(r"\s*(?:[A-Z]\.[ \t]*)+$")
# "来自U.S.海军": nor does an initial end one right before another.
_INITIAL_TAIL = re.compile(r"(?<![A-Za-z])[A-Z]\.$")
_INITIAL = re.compile(r"[A-Z]\.")
# "1. Introduction": a number at the start of a line waits for its text; "42." elsewhere may be an answer.
_ONLY_NUMBER = re.compile(r"[ \t]*\(?\d{1,3}[.)．][ \t]*$")
# What decides stands right before the boundary; reading further back would make long texts quadratic.
_NEAR = 64
# Many Chinese sentences, or marks that are never closed, take the segmenter quadratic time: it gets the text in runs,
# which end where a paragraph or a sentence does; where neither is near, it gets so much, and what it finds to be the
# last sentence again with what follows.
_LONGEST_RUN = 3000
_RUN_END = re.compile(
    rf".{{800,{_LONGEST_RUN}}}?(?:[。！？][”’」』〉》）)]{{0,9}}(?![。！？…．.”’」』〉》）)\"'\s])|\n\n(?!\s))",
    re.S,
)
# Nor does it get long runs of one mark or pair of marks (leaders, rules, litter), some of which it reads quadratically.
_MARKS = re.compile(r"([^\w\s]{1,2}?)\1{31,}")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Spans of the sentences of `text`: in order, without gap or overlap, white space with the sentence before it.

    An empty text has none.
    """
    if not text:
        return []
    spans: list[tuple[int, int]] = []
    for start, end in _pieces(text):
        if spans and _belongs(text, spans[-1], text[start:end]):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _pieces(text: str) -> list[tuple[int, int]]:
    # Lone surrogates cannot cross into the segmenter; a stand-in of the same length keeps every offset.
    safe = re.sub(r"[\ud800-\udfff\x00]", "?", text)
    safe = _MARKS.sub(lambda run: "x" * len(run[0]), safe)
    language = "ja" if has_kana(text) else "zh" if has_han(text) else "en"
    spans: list[tuple[int, int]] = []
    position, goes_on = 0, False
    while position < len(safe):
        natural = _RUN_END.match(safe, position)
        end = natural.end() if natural else min(position + _LONGEST_RUN, len(safe))
        found = _segmented(safe[position:end], language, position)
        cut = natural is None and end < len(safe)
        if cut and len(found) > 1 and found[-1][0] - position > _LONGEST_RUN // 2:
            end = found.pop()[0]
        if goes_on:
            spans[-1] = (spans[-1][0], found.pop(0)[1])
        spans += found
        goes_on = cut and end == position + _LONGEST_RUN
        position = end
    return spans


def _segmented(run: str, language: str, offset: int) -> list[tuple[int, int]]:
    """The segmenter's sentences of a run, as spans of the text that covers it from `offset`."""
    from sentencex import segment

    spans, position = [], 0
    for piece in segment(language, run):
        if run[position : position + len(piece)] != piece:  # a segmenter that rewrites text
            break
        if piece:
            spans.append((offset + position, offset + position + len(piece)))
            position += len(piece)
    if position < len(run):  # keep what it did not give back whole
        spans.append((offset + position, offset + len(run)))
    return spans


def _belongs(text: str, sentence: tuple[int, int], piece: str) -> bool:
    """Whether `piece` goes on with the sentence that ends where it starts."""
    start, end = sentence
    before = text[max(start, end - _NEAR) : end]
    if not piece.strip():
        return True
    if "\n" in before[len(before.rstrip()) :]:  # a line break ends a sentence, whatever stands around it
        return False
    if not before.strip():
        return end - start <= _NEAR  # white space alone goes with what follows
    tail = before.rstrip()
    starts_line = start == 0 or text[start - 1] == "\n"
    return bool(
        _ONLY_CLOSING.match(piece)
        or (_AFTER_CITATION.search(tail) and _GOES_ON.match(piece))
        or (_REFERENCE.search(before) and _NUMBER.match(piece))
        or (_DECIMAL_HEAD.search(before) and _DECIMAL_TAIL.match(piece))
        or (_ENDS_IN_QUOTE.search(before) and _ATTRIBUTION.match(piece))
        or _TITLE.search(before)
        or _ONLY_INITIALS.match(before)
        or (_INITIAL_TAIL.search(before) and _INITIAL.match(piece))
        or (starts_line and _ONLY_NUMBER.match(before))
    )
