"""Where sentences end, in any of sentencex's languages, without losing or inventing a character.

`sentencex` finds the boundaries. It splits a few things that belong together; the rules below put them back. Each
rule names the case it is there for.
"""

from __future__ import annotations

import re

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


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Spans of the sentences of `text`: in order, without gap or overlap, white space with the sentence before it.

    An empty text has none.
    """
    if not text:
        return []
    spans: list[tuple[int, int]] = []
    for start, end in _pieces(text):
        if spans and _belongs(text[spans[-1][0] : spans[-1][1]], text[start:end]):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _pieces(text: str) -> list[tuple[int, int]]:
    from sentencex import segment

    # Lone surrogates cannot cross into the segmenter; a stand-in of the same length keeps every offset.
    safe = re.sub(r"[\ud800-\udfff\x00]", "?", text)
    spans, position = [], 0
    for piece in segment(language_of(text), safe):
        if (
            safe[position : position + len(piece)] != piece
        ):  # a segmenter that rewrites text: keep the rest whole
            break
        spans.append((position, position + len(piece)))
        position += len(piece)
    if position < len(text):
        spans.append((position, len(text)))
    return [span for span in spans if span[0] < span[1]]


def _belongs(before: str, piece: str) -> bool:
    if not piece.strip():
        return True
    if "\n" in before[len(before.rstrip()) :]:  # a line break ends a sentence, whatever stands around it
        return False
    if not before.strip():
        return True
    tail = before.rstrip()
    return bool(
        _ONLY_CLOSING.match(piece)
        or (_AFTER_CITATION.search(tail) and _GOES_ON.match(piece))
        or (_REFERENCE.search(before) and _NUMBER.match(piece))
        or (_DECIMAL_HEAD.search(before) and _DECIMAL_TAIL.match(piece))
        or (_ENDS_IN_QUOTE.search(before) and _ATTRIBUTION.match(piece))
    )


def language_of(text: str) -> str:
    """The segmenter's language for `text`, by script: "ja" with kana, "zh" with Han characters, "en" otherwise."""
    if re.search(r"[\u3040-\u30ff]", text):
        return "ja"
    return "zh" if re.search(r"[\u4e00-\u9fff]", text) else "en"
