"""Decompose, filter, recompose: nothing lost, nothing invented, sentences where a reader sees them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.passages import Passage
from crag_dspy.refine import STRIP_MODES, decompose, select, shown_of, strips_of, with_header

# Any code point, with what segmenters stumble over made likely.
pieces = st.one_of(
    st.characters(),
    st.characters(categories=["Cs"]),
    st.sampled_from([*"。！？.!?\n \t\"'”」』）)|`-#３．1aA“「", "\r\n", "```\n", "|--|\n", "et al. "]),
    st.sampled_from(["fig. ", "他问。", "Dr. ", "1. ", "U.S."]),
)
texts = st.lists(pieces, max_size=60).map("".join)


def strips(text: str, **options: object) -> list[str]:
    return [text[start:end].strip() for start, end in decompose(text, **options)]  # type: ignore[arg-type]


@given(texts, st.sampled_from(STRIP_MODES), st.integers(1, 4))
def test_no_character_is_lost_or_invented(text: str, mode: str, group: int) -> None:
    spans = decompose(text, mode, group)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)


@given(st.lists(texts, max_size=4), st.sampled_from(STRIP_MODES), st.integers(1, 3))
def test_every_strip_cuts_its_own_text(passages: list[str], mode: str, group: int) -> None:
    for strip in strips_of([Passage(text) for text in passages], "internal", mode, group):
        assert strip.passage.text[strip.start : strip.end] == strip.text == strip.text.strip() != ""


@given(
    st.lists(st.sampled_from(["A b. C d. E f.", "一二。三四。五六。", "A b.", "G h. I j."]), max_size=4),
    st.lists(st.one_of(st.none(), st.floats(-1, 1)), min_size=12, max_size=12),
    st.integers(1, 6),
    st.floats(-1, 1),
)
def test_kept_strips_stand_in_source_order_within_top_n(
    passages: list[str], scores: list[float | None], top_n: int, threshold: float
) -> None:
    from dataclasses import replace

    found = strips_of([Passage(text, id=str(i)) for i, text in enumerate(passages)], "internal")
    graded = [replace(strip, score=score) for strip, score in zip(found, scores, strict=False)]
    kept = select(graded, threshold, top_n)
    places = [(int(strip.passage.id), strip.start) for strip in kept]
    assert places == sorted(places)
    assert len(kept) <= top_n
    assert all(strip.score is None or strip.score >= threshold for strip in kept)
    said = {strip.text for strip in kept}
    left = [strip.score for strip in graded if strip.text not in said and strip.score is not None]
    if len(kept) == top_n and all(strip.score is not None for strip in kept):
        assert all(score <= min(strip.score or 0 for strip in kept) or score < threshold for score in left)


def test_abbreviations_do_not_end_sentences() -> None:
    """Field case 24."""
    assert strips("Yan et al. [2004] analysed the bridge in detail.") == [
        "Yan et al. [2004] analysed the bridge in detail."
    ]
    assert strips("see fig. 3 and tab. 2. Check p. 45") == ["see fig. 3 and tab. 2.", "Check p. 45"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("大桥于一九五七年通车。全长一千六百米。今天仍在使用。", 3),
        ("他说：“桥通车了。”众人鼓掌。", 2),
        ("“真的吗？”她问。没有人回答。", 2),
        ("彼は「行こう。」と言った。雨だった。", 2),
        ("圆周率约为３．１４，他算到了小数点后七位。", 1),
        ("他走了！真的？是的。", 3),
    ],
)
def test_sentences_in_chinese_and_japanese(text: str, expected: int) -> None:
    """Field case 25: full stops without spaces; quotation marks and decimals stay with their sentence."""
    found = strips(text)
    assert len(found) == expected
    assert not any(strip[0] in "”」』）" for strip in found)


def test_short_strips_are_kept() -> None:
    """Field case 26."""
    assert strips("Is it open? Yes. How many? 42. 是。") == [
        "Is it open?",
        "Yes.",
        "How many?",
        "42.",
        "是。",
    ]


TABLE = "Lengths:\n\n| bridge | metres |\n|---|---|\n| North. St. | 120 |\n| South | 95 |\n\nBoth are open."


def test_table_rows_stay_whole_and_keep_their_header() -> None:
    assert strips(TABLE) == [
        "Lengths:",
        "| bridge | metres |\n|---|---|\n| North. St. | 120 |",
        "| South | 95 |",
        "Both are open.",
    ]
    south = next(strip for strip in strips_of([Passage(TABLE)], "internal") if "South" in strip.text)
    assert with_header(south) == "| bridge | metres |\n|---|---|\n| South | 95 |"


def test_a_header_is_shown_once_whatever_the_line_ends() -> None:
    for table in (TABLE.replace("\n", "\r\n"), TABLE.replace("|", " |"), TABLE.replace("---", "-")):
        rows = [with_header(strip) for strip in strips_of([Passage(table)], "internal") if "|" in strip.text]
        assert [row.count("metres") for row in rows] == [1, 1]
        assert "South" in rows[1]


def test_dashes_below_a_line_with_a_bar_are_no_table() -> None:
    found = strips_of([Passage("North | South\n---\nBoth are open. They were built.")], "internal")
    assert [shown_of(strip) for strip in found] == [
        "North | South: Both are open.",
        "North | South: They were built.",
    ]


def test_long_pages_take_linear_time() -> None:
    """A page of 20,000 words, of 5,000 Chinese sentences without a line break, and a table of 3,000 rows."""
    words = "The Ardent Bridge has carried trains since 1931, e.g. from No. 5 quay. " * 1500
    chinese = "大桥于一九五七年通车，全长一千六百米。" * 5000
    table = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 3000
    start = time.process_time()
    found = [strips_of([Passage(text)], "web") for text in (words, chinese, table)]
    shown = [with_header(strip) for strip in found[2]]
    assert time.process_time() - start < 3
    assert [len(part) for part in found] == [1500, 5000, 3000]
    assert all(text.startswith("| a | b |\n|---|---|\n| 1 | 2 |") for text in shown)


def test_fenced_code_stays_whole() -> None:
    code = "```python\nx = 1. + 2.\nprint(x)  # Done. Really.\n```"
    assert strips(f"Run this. \n{code}\nThen stop.") == ["Run this.", code, "Then stop."]


def test_a_fence_that_nothing_closes_opens_no_code() -> None:
    assert strips("Run this.\n```\nIt was cut here. All else is prose.") == [
        "Run this.",
        "```\nIt was cut here.",
        "All else is prose.",
    ]
    # Fences of falling length: none closes another, and none may cost a reading of the rest.
    many = "".join("`" * length + "\n" for length in range(300, 3, -1)) + "a\n" * 20_000
    start = time.process_time()
    decompose(many)
    assert time.process_time() - start < 3


def test_windows_count_words_or_characters() -> None:
    assert strips("one two three four five", mode="window", group=2) == ["one two", "three four", "five"]
    assert strips("长江大桥通车", mode="window", group=4) == ["长江大桥", "通车"]


def test_repeated_strips_are_kept_once() -> None:
    passages = [Passage("Same line. Own line.", id="a"), Passage("same  LINE. Other line.", id="b")]
    from dataclasses import replace

    graded = [replace(strip, score=0.5) for strip in strips_of(passages, "internal")]
    assert [strip.text for strip in select(graded, 0.0, 10)] == ["Same line.", "Own line.", "Other line."]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"mode": "word"}, "strip_mode"), ({"group": 0}, "strip_size"), ({"group": True}, "strip_size")],
)
def test_bad_arguments_name_the_setting(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        decompose("A b.", **options)  # type: ignore[arg-type]
