"""Saying that the evidence is not there, and recognising it in what language models write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.text.replies import ABSTENTIONS, abstention_for, is_abstention

REFUSALS = [
    "",
    " . ",
    "Unknown",
    "The provided context doesn't contain the answer.",
    "Passages do not mention it",
    "不知道。",
    "无法确定",
    "抱歉，我找不到相关信息。",
    "在资料中找不到答案。",
    "The question cannot be answered from the passages.",
    "This is not in the evidence.",
    "There is not enough information.",
    "The context does not mention it.",
    "I don't know.",
    "I cannot answer this question.",
    "I can't answer that.",
    "I couldn't find any information about the bridge.",
    "I could not find any information on this in the provided documents.",
    "I couldn't find the answer in the context.",
    "I was unable to find the answer.",
    "Unable to determine from the context.",
    "Cannot determine.",
    "Not found in provided context.",
    "Not found in the provided context.",
    "Not mentioned.",
    "Not specified in the text.",
    "Not provided",
    "Not stated in the passage.",
    "The answer is not in the context.",
    "The answer is not provided in the given context.",
    "The year is not mentioned in the passage.",
    "The year of construction is not stated.",
    "The author is unknown.",
    "It is unknown who built it.",
    "Unknown.",
    "N/A",
    "None",
    "None.",
    "null",
    "**None** [1]",
    "无",
    "无。",
    "なし",
    "No answer.",
    "There is no answer",
    "There is no information about the designer in the context.",
    "There is no mention of the designer.",
    "There is not enough information to answer the question.",
    "The context does not contain enough information to answer the question.",
    "The context does not specify who designed the bridge, so I cannot answer.",
    "I'm sorry, but I cannot answer this question.",
    "I'm sorry, I don't know.",
    "Sorry, I do not have that information.",
    "I don't have enough information to answer that.",
    "I don't know. The context only talks about bridges.",
    "The evidence does not contain the answer. Please provide more context.",
    "Based on the provided context, I cannot determine who designed it.",
    "Based on the context, it is not possible to determine the year.",
    "The passage discusses the bridge but does not mention who designed it.",
    "Although the context mentions the bridge, it does not say who built it.",
    "The context does not mention the U.S. president.",
    "As an AI language model, I do not have access to that information.",
    "None of the passages mention the designer.",
    "The provided text does not state the year of completion.",
    "The documents do not provide this information.",
    "The question cannot be answered based on the given information.",
    "Insufficient information.",
    "No information available",
    "Unfortunately, the context does not include that.",
    "The context provides no information about the author. Therefore, I cannot answer the question.",
    "I am not sure.",
    "The given passages don't say. [1]",
    "<think>the context says nothing</think>I don't know.",
    "I don’t know",
    "It cannot be determined from the evidence who wrote it.",
    "The context does not provide any information about when it was built.",
    "Answer: unknown",
    "There is no evidence in the context.",
    "It does not say.",
    "我无法确定答案。",
    "我不知道。",
    "根据提供的上下文，无法确定答案。",
    "无法回答这个问题。",
    "根据资料无法回答这个问题。",
    "没有找到相关信息",
    "上下文中没有提到设计者。",
    "文中未提及该人物的出生年份。",
    "提供的资料中没有相关信息。",
    "抱歉，我无法回答这个问题。",
    "很遗憾，资料中没有提到。",
    "没有足够的信息来回答这个问题。",
    "信息不足，无法判断。",
    "现有资料中没有答案。",
    "未知",
    "无法从上下文中得知。",
    "我没有找到答案。",
    "該文未提到作者。",
    "資料の中に答えはありません。",
    "わかりません。",
]
ANSWERS = [
    "The Unknown Soldier",
    "He knew everything",
    "?!5",
    "The context does not mention the year directly. It was designed by John Roebling in 1867.",
    "1931",
    "The context does not name him, but it was built by Ardent.",
    "未知数",
    "No. 5",
    "Paris",
    "no",
    "nothing",
    "没有",
    "无锡",
    "无，因为它在1957年已经拆除",
    "None of them, since it was built in 1931",
    "null hypothesis",
    "北京",
    "John Roebling, who was not known for his modesty.",
    "The treaty does not mention slavery.",
    "It was built in 1900, although the context does not say by whom.",
    "I think it is Paris, but I'm not sure.",
    "I'm not sure, maybe Paris.",
    "He could not find work in Paris.",
    "She cannot be identified with the goddess.",
    "There is no evidence of life on Mars.",
    "No, it was built in 1900.",
    "Information technology",
    "The king did not know the answer.",
    "An unknown artist",
    "Because the data does not fit the model of Ptolemy.",
    "No information technology existed then.",
    "It is not in Paris, it is in Lyon.",
    "It provides water to the city.",
    "The article was written by Smith. It does not say much.",
    "The contents were found in the attic.",
    "Dark matter, whose nature is unknown, makes up 27%.",
    "他不知道父亲是谁，后来成为国王。",
    "没有人住在那里",
    "无法治愈的疾病",
    "没有完成的交响曲",
    "法国没有参加1936年的比赛",
    "《无法回答的问题》",
    "资料显示是1931年建成的。",
    "文中没有直接提到，但可以推断是1931年。",
    "The 1931 data does not include Alaska, so 48 states.",
    "42, which is not mentioned in the original paper.",
    "The answer cannot be 5.",
    "Not in the Bible, but in the Talmud",
    "True, there is no question about it.",
]


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("Who built it?", "evidence"),
        ("谁建的？", "没有答案"),
        ("誰が建てましたか。", "ありません"),
        ("What does the character 茶 mean?", "evidence"),
        ("Who wrote 《红楼梦》?", "evidence"),
        ("What does さくら mean?", "evidence"),
        ("《The Crown》的主演是谁？", "没有答案"),
        ("iPhone 15 Pro Max什么时候发布？", "没有答案"),
    ],
)
def test_an_abstention_is_in_the_language_of_the_question_and_recognised(question: str, word: str) -> None:
    assert word in abstention_for(question)
    assert is_abstention(f" {abstention_for(question)}\n")


@pytest.mark.parametrize("answer", [*REFUSALS, *ABSTENTIONS.values()])
def test_ways_of_not_knowing(answer: str) -> None:
    assert is_abstention(answer)


@pytest.mark.parametrize("answer", ANSWERS)
def test_answers_are_not_refusals(answer: str) -> None:
    assert not is_abstention(answer)


@given(st.sampled_from(ANSWERS), st.sampled_from(REFUSALS[2:]))
def test_a_refusal_beside_an_answer_takes_nothing_from_it(answer: str, refusal: str) -> None:
    assert not is_abstention(f"{refusal}\n{answer}")


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    assert is_abstention(text) in (True, False)
