"""A verdict is read as what it says; what says both or neither is None, never a guess (field case 1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.text.replies import read_relevance

YES = [
    "yes", "Yes.", "YES!", "**Yes**", '"yes"', "I think so", "I believe so.", "Yes, it is relevant.", "relevant",
    "The passage is relevant.", "True", "Relevant: yes", "Yes - the passage mentions no date, but names the author.",
    "Yes. It does not say when, though.", "No doubt it is relevant", "not irrelevant", "It isn't unrelated.",
    "The question asks who wrote it. The passage is not about sales. Verdict: yes", "1", "yep", "Certainly.",
    "<think>Is it? not relevant maybe</think>Yes", '{"verdict": "yes"}', "Yes", "The passage answers it: yes.",
    "是", "是的。", "相关", "这段文字与问题相关。", "有关", "有帮助", "答案：是", "相關",
]  # fmt: skip
NO = [
    "no", "No.", "No, unrelated", "no, it is not relevant", "Not relevant", "irrelevant", "The passage is irrelevant.",
    "I don't think so", "I do not believe so.", "It does not answer the question.", "It doesn't mention the author",
    "There is no information about it.", "False", "unrelated", "Relevance: no", "0", "nope", "It isn't related.",
    "No. The passage is related to France only.", "off-topic", "The passage is not very helpful", "not at all relevant",
    "The text hardly mentions it", "The passage mentions Paris. Verdict: no", "n/a: not related",
    "否", "不是", "不相关", "不相关。", "无关", "没有关系", "与问题无关。", "不太相关", "毫无关系", "没有帮助",
    "不能回答", "不相關",
    "答案：否",
]  # fmt: skip
UNREADABLE = [
    "", "   ", "Yes and no.", "yes/no", "Yes or no?", "maybe", "Perhaps relevant", "I am not sure.", "It depends.",
    "Partially relevant", "I cannot tell", "42", "The capital of France is Paris.", "unclear",
    "可能相关", "不确定", "无法判断",
    "部分相关", "relevant and irrelevant", "<think>yes yes yes", "[]",
]  # fmt: skip


@pytest.mark.parametrize("reply", YES)
def test_says_relevant(reply: str) -> None:
    assert read_relevance(reply) == 1.0


@pytest.mark.parametrize("reply", NO)
def test_says_irrelevant(reply: str) -> None:
    assert read_relevance(reply) == -1.0


@pytest.mark.parametrize("reply", UNREADABLE)
def test_cannot_be_read(reply: str) -> None:
    assert read_relevance(reply) is None


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("-1", -1.0),
        ("−1", -1.0),
        ("- yes", 1.0),
        ("1.0", 1.0),
        ("0.0", -1.0),
        ("Score: 1", 1.0),
        ("Relevance score: 0.", -1.0),
        ("8/10", 0.6),
        ("Score: 8/10", 0.6),
        ("Score: 9 out of 10", 0.8),
        ("I would rate it 2 out of 10.", -0.6),
        ("5/5", 1.0),
        ("85%", 0.7),
        ("2.0", None),
        ("Score: 7", None),
        ("11/10", None),
        ("3 of 4 bridges are named, so yes", 1.0),
        ("Yes. The passage names 8 of 10 bridges.", 1.0),
        ("<think>It scores 2/10? No.</think> Verdict: yes", 1.0),
        ("[[ ## verdict ## ]]\nyes\n\n[[ ## completed ## ]]", 1.0),
        ("no [[ ## completed ## ]]", -1.0),
        ("The passage is not relevant.</think>\nYes", 1.0),
    ],
)
def test_a_number_is_read_on_its_own_scale_or_not_at_all(reply: str, score: float | None) -> None:
    assert read_relevance(reply) == (None if score is None else pytest.approx(score))


@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(reply: str) -> None:
    score = read_relevance(reply)
    assert score is None or -1 <= score <= 1


@given(
    st.sampled_from(["yes", "no", "relevant", "not relevant", "相关", "不相关"]),
    st.sampled_from(["", ".", "!", "。", "\n"]),
)
def test_case_and_punctuation_change_no_verdict(word: str, end: str) -> None:
    assert read_relevance(f"  {word.upper()}{end} ") == read_relevance(word)
