"""Where a reader sees sentences end: abbreviations, numbers, quotations, mixed scripts."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.text.scripts import language_of
from crag_dspy.text.sentences import sentence_spans

# Each line is one text; "¦" stands where a sentence ends.
TEXTS = """\
Prof. Smith and Dr. Jones met Mr. Brown at No. 5, St. James. ¦They talked.
Use tools, e.g. hammers, i.e. things. ¦Then stop.
He moved to the U.S. in 1990. ¦The U.S. economy grew.
It cost 3.14 dollars, or 1,400.50 in all. ¦Pi is 3.14159.
Visit https://www.example.com/a.b?c=d.e or write to a.b@c.org. ¦Then go.
Wait... what? ¦He left.
He said "Stop. Go." and left. ¦She nodded.
J. K. Rowling wrote it. ¦It sold well.
Great 🎉! ¦Really 😀. ¦Next one.
1. Introduction. ¦Why this matters.
Is it open? ¦Yes. ¦How many? ¦42. ¦是。
报告由三人写成。¦Dr. Li与Mr. Brown同行。¦他们来自U.S.海军。
人口约1,400万人。¦A.I.技术很流行。¦GDP增长3.5%。
作者是英国人。¦J.K.罗琳写了七部。¦全球畅销。
长江（Yangtze River）全长6,300公里。¦It is long. ¦它是亚洲最长的河。
圆周率约为３．１４。¦他算到第七位！¦真的？¦是的。
他说：“桥通车了。”¦众人鼓掌。
“真的吗？”她问。¦没有人回答。
彼は「行こう。」と言った。¦雨だった。""".splitlines()


@pytest.mark.parametrize("marked", TEXTS)
def test_sentences(marked: str) -> None:
    expected = marked.split("¦")
    text = "".join(expected)
    assert [text[start:end] for start, end in sentence_spans(text)] == expected


def test_line_breaks_of_either_kind_end_list_items_and_paragraphs() -> None:
    for end in ("\n", "\r\n"):
        text = f"- first item{end}- second item{end}{end}A paragraph. More of it."
        found = [text[a:b].strip() for a, b in sentence_spans(text)]
        assert found == ["- first item", "- second item", "A paragraph.", "More of it."]


@given(
    st.lists(
        st.sampled_from(["大桥通车。", "Dr. Li came. ", "好！", "“是。”", "\n", " " * 70, "x" * 70, "1. "]),
        max_size=400,
    )
)
def test_long_texts_are_covered_without_gap_or_overlap(parts: list[str]) -> None:
    text = "".join(parts)
    spans = sentence_spans(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)


@given(st.integers(1, 300))
def test_a_long_line_is_cut_like_a_short_one(times: int) -> None:
    """The segmenter is given long lines in runs; where a run ends must not show."""
    one = "大桥于一九五七年通车。全长一千六百米！“真的吗？”她问。"
    assert len(sentence_spans(one * times)) == 3 * times


@pytest.mark.parametrize("unit", ["“真的吗？”", "“", "。”", "`", ". . ", "An `a` here.\n\n"])
def test_litter_and_quotes_take_no_quadratic_time(unit: str) -> None:
    text = unit * (60_000 // len(unit))
    start = time.process_time()
    spans = sentence_spans(text)
    assert time.process_time() - start < 1
    assert (spans[0][0], spans[-1][1]) == (0, len(text))


@pytest.mark.parametrize(
    ("text", "language"), [("桥は長い", "ja"), ("桥很长", "zh"), ("long", "en"), ("", "en")]
)
def test_language_by_script(text: str, language: str) -> None:
    assert language_of(text) == language
