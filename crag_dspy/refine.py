"""Knowledge refinement: decompose, filter, recompose (arXiv 2401.15884, section 4.4).

A passage that is relevant as a whole is mostly irrelevant in detail. It is cut into strips, the strips are graded, and
the best are put back together in the order in which they stood.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from crag_dspy.passages import Origin, Passage, Strip
from crag_dspy.state.arguments import check_choice, check_whole
from crag_dspy.text.markdown import Block, Span, block_at, blocks, texts_of
from crag_dspy.text.scripts import UNSPACED
from crag_dspy.text.sentences import sentence_spans

StripMode = Literal["sentence", "window", "passage"]
STRIP_MODES: tuple[StripMode, ...] = get_args(StripMode)

PLACE = " > "  # between a title and the headings below it

# One unit of a window: a word with the white space after it, or one character of a script without spaces.
_UNIT = re.compile(rf"[{UNSPACED}]\s*|[^\s{UNSPACED}]+\s*")


def decompose(text: str, mode: StripMode | str = "sentence", group: int = 1) -> list[Span]:
    """Cut a text into strips.

    Args:
        text: any string.
        mode: "sentence": groups of `group` sentences. Of Markdown, a heading, a row of a table (the first keeps the
            header), an item of a list and fenced code stay whole. "window": groups of `group` words, or characters
            where words are not spaced. "passage": the whole text.
        group: at least 1.

    Returns:
        Character spans `(start, end)`: they cover the text, in order, without overlap. None for an empty text.
    """
    check_choice("strip_mode", mode, STRIP_MODES)
    check_whole("strip_size", group)
    if not text:
        return []
    if mode == "passage":
        return [(0, len(text))]
    if mode == "window":
        return _grouped(_units(text), group)
    return [span for span, _ in cut(text, blocks(text), group)]


def cut(text: str, parts: Iterable[Block], group: int = 1) -> list[tuple[Span, Block]]:
    """The strips of a text in mode "sentence", each with the block that it is of, from its blocks."""
    found: list[tuple[Span, Block]] = []
    for block in parts:
        if block.kind == "prose":
            inside = sentence_spans(text[block.start : block.end])
            sentences = [(block.start + start, block.start + end) for start, end in inside]
            found += [(span, block) for span in _without_blank(text, _grouped(sentences, group))]
        else:
            found.append(((block.start, block.end), block))
    return found


def strips_of(
    passages: Iterable[Passage], origin: Origin, mode: StripMode | str = "sentence", group: int = 1
) -> list[Strip]:
    """The strips of some passages, not yet scored: trimmed of outer white space, empty ones left out.

    In mode "sentence" a heading is no strip, but what the strips below it are shown with (see `place_of`).
    """
    strips = []
    for passage in passages:
        for start, end in _told(passage.text, mode, group):
            piece = passage.text[start:end]
            start += len(piece) - len(piece.lstrip())
            text = piece.strip()
            if text:
                strips.append(Strip(text, start, start + len(text), None, passage, origin))
    return strips


def _told(text: str, mode: StripMode | str, group: int) -> list[Span]:
    """The strips that say something; of a text that is nothing but headings, those."""
    spans = decompose(text, mode, group)
    if mode != "sentence":
        return spans
    silent = {block.start for block in blocks(text) if block.kind in ("heading", "rule")}
    return [span for span in spans if span[0] not in silent] or spans


def select(strips: Sequence[Strip], threshold: float, top_n: int) -> list[Strip]:
    """Keep at most `top_n` strips that score at least `threshold`, in the order in which they came.

    Of strips that say the same, the first of the best is kept. A strip whose score is None was not judged: it is
    kept only where judged ones leave room.
    """
    ranked = sorted(
        (i for i, strip in enumerate(strips) if strip.score is None or strip.score >= threshold),
        key=lambda i: (strips[i].score is None, -(strips[i].score or 0.0), i),
    )
    best = distinct([strips[i] for i in ranked])[:top_n]
    chosen = {id(strip) for strip in best}
    return [strip for strip in strips if id(strip) in chosen]


def distinct(strips: Iterable[Strip]) -> list[Strip]:
    """Of strips that say the same in the same place, but for case and white space, the first."""
    firsts: dict[str, Strip] = {}
    for strip in strips:
        firsts.setdefault(" ".join(shown_of(strip).split()).casefold(), strip)
    return list(firsts.values())


def titled(passage: Passage, text: str) -> str:
    """What the grader reads: a strip often says "it", and only the title says what "it" is."""
    return _below(passage.title.strip(), text)


def shown_of(strip: Strip) -> str:
    """What a grader reads of a strip: below its passage's title and the headings above it, with what leads to it."""
    return _below(place_of(strip), with_header(strip))


def place_of(strip: Strip) -> str:
    """Where a strip stands: its passage's title and the headings above it, as "Guide > Install > Windows"."""
    return _path(strip.passage.title, *_headings(strip))


def headings_of(strip: Strip) -> str:
    """The headings above a strip, as "Install > Windows"."""
    return _path(*_headings(strip))


def with_header(strip: Strip) -> str:
    """A strip below what it cannot be understood without: the header of its table, the sentence before its list."""
    lead = texts_of(strip.passage.text, block_at(strip.passage.text, strip.start).lead)
    return "\n".join([*lead, strip.text])


def context_of(strip: Strip) -> list[Span]:
    """The characters of its passage that a strip is shown with: the headings above it, and what leads to it."""
    block = block_at(strip.passage.text, strip.start)
    return [*((heading.start, heading.end) for heading in block.headings), *block.lead]


def _headings(strip: Strip) -> Iterable[str]:
    headings = block_at(strip.passage.text, strip.start).headings
    return texts_of(strip.passage.text, [(heading.start, heading.end) for heading in headings])


def _below(place: str, text: str) -> str:
    return (
        f"{place}: {text}" if place and place.casefold() not in text[: len(place) + 20].casefold() else text
    )


def _path(*names: str) -> str:
    """What is not empty, without what says the same as the one before it."""
    kept: list[str] = []
    for name in (" ".join(name.split()) for name in names):
        if name and (not kept or name.casefold() != kept[-1].casefold()):
            kept.append(name)
    return PLACE.join(kept)


def _units(text: str) -> list[Span]:
    spans = [match.span() for match in _UNIT.finditer(text)]
    if not spans:
        return [(0, len(text))]
    return [(0, spans[0][1]), *spans[1:]]  # leading white space goes with the first unit


def _grouped(spans: Sequence[Span], group: int) -> list[Span]:
    return [(spans[i][0], spans[min(i + group, len(spans)) - 1][1]) for i in range(0, len(spans), group)]


def _without_blank(text: str, spans: Sequence[Span]) -> list[Span]:
    """A span of white space alone joins the one before it (or after it, at the start)."""
    merged: list[Span] = []
    for start, end in spans:
        if merged and (not text[start:end].strip() or not text[merged[-1][0] : merged[-1][1]].strip()):
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged
