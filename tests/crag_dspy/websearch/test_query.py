"""`clean_query`: whatever a model wrote becomes one line that an engine accepts."""

import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crag_dspy.websearch.query import QUERY_LIMIT, clean_query, cut_at_word

QUESTION = "When does water boil?"


@pytest.mark.parametrize(
    "raw",
    [
        "water boiling point",
        '"water boiling point"',
        "“water boiling point”",
        "`water boiling point`",
        "「water boiling point」",
        "Search query: water boiling point",
        "**Query:** water boiling point",
        "Rewritten question: water boiling point",
        "Keywords: water boiling point",
        "搜索关键词：water boiling point",
        "改写后的问题: water boiling point",
        "Here is the search query:\n\nwater boiling point",
        "Sure! Here's a better query: water boiling point",
        "```\nwater boiling point\n```",
        '```json\n{"query": "water boiling point"}\n```',
        'The query is in the block.\n```text\n"water boiling point"\n```\nIt is short.',
        '{"query": "water boiling point"}',
        '{"search_query": "water boiling point", "reasoning": "because"}',
        '{"answer": "water boiling point"}',
        '{"queries": ["water boiling", "point"]}',
        '["water", "boiling", "point"]',
        "{'query': 'water boiling point'}",
        '{"query": "water boiling point',
        '{"reasoning": "because", "query": "water boiling point",',
        '{"query": "Search query: \\"water boiling point\\""}',
        "water boiling point\n\nI chose these words because they are common.",
        "- water\n- boiling\n- point",
        "1. water\n2. boiling point",
        "water\tboiling\r\npoint",
        "water boiling\x00 point\x1b",
        "wa\u200bter boiling\u2028point\ufeff",
        '"water boiling point',
        "<think>Boiling, in keywords?</think>\nwater boiling point",
        "water boiling point [[ ## completed ## ]]",
        "```water boiling point```",
        '```json {"query": "water boiling point"}```',
        '{"action": "search", "action_input": "water boiling point"}',
        '{"action": "search", "action_input": {"query": "water boiling point"}}',
        '{"name": "web_search", "arguments": {"query": "water boiling point"}}',
        '{"name": "web_search", "arguments": "{\\"query\\": \\"water boiling point\\"}"}',
        '[{"name": "search", "arguments": {"q": "water boiling point"}}]',
        "{'action': 'search', 'action_input': 'water boiling point'}",
        '<tool_call>\n{"name": "search", "arguments": {"query": "water boiling point"}}\n</tool_call>',
        '<tool_call>{"name": "search", "arguments": {"query": "water boiling point"}}',
        'I will search.\n<tool_call>{"arguments": {"query": "water boiling point"}}</tool_call>',
        '<function=web_search>{"query": "water boiling point"}</function>',
        "<tool_call><function=search><parameter=query>water boiling point</parameter></function></tool_call>",
        "<search>water boiling point</search>",
        '[TOOL_CALLS] [{"name": "search", "arguments": {"query": "water boiling point"}}]',
        "Action: search\nAction Input: water boiling point",
        'Thought: I need it.\nAction: search\nAction Input: "water boiling point"\nObservation: 100 degrees',
        'Action: search\nAction Input: {"query": "water boiling point"}',
        "**Action:** search\n**Action Input:** water boiling point",
        "Action: search[water boiling point]",
        'search("water boiling point")',
        "search('water boiling point')",
        "search(water boiling point)",
        "Search[water boiling point]",
        'web_search(query="water boiling point", max_results=5)',
        'tavily.search("water boiling point", max_results=3)',
        'search({"query": "water boiling point"})',
        '```python\nsearch("water boiling point")\n```',
    ],
)
def test_the_wrapping_goes_and_the_query_stays(raw: str) -> None:
    assert clean_query(raw, QUESTION) == ("water boiling point", [])


@pytest.mark.parametrize(
    "raw",
    [
        '"boiling point" water',
        '"boiling point" OR "freezing point"',
        "site:wikipedia.org water",
        "This is Spinal Tap: who directed it",
        "Mission: Impossible cast",
        "search engine history",
        "query optimisation in databases",
        "1. FC Köln stadium",
        "《红楼梦》作者是谁",
        "what's water's boiling point",
        "می‌خواهم بدانم",  # the zero-width non-joiner is spelling
        "C++ templates {fmt}",
        "Search (2018 film) director",
        "binary search (worst case)",
        "Lights, camera, action: history of the phrase",
        "derivative of f(x)",
        "List<query> in C#",
        "什么是之乎者也",
        "桃之夭夭",
    ],
)
def test_what_is_not_wrapping_stays(raw: str) -> None:
    assert clean_query(raw, QUESTION) == (raw, [])


@pytest.mark.parametrize(
    "raw",
    [
        None,
        "",
        "  \n",
        "```\n```",
        '{"query": ""}',
        '{"query": null}',
        "{}",
        "[]",
        "N/A",
        "None.",
        '"""',
        "?!",
        '{"action": "search"}',
        '{"name": "web_search", "arguments": {}}',
        "{'tool': 'search'}",
        "to or from",
        "what is it",
        "之 的 了",
        "之的了",
        "这是什么",
        "Action: search",
        "Action: search\nAction Input:",
        "search()",
        'search("")',
        "<tool_call></tool_call>",
        '<tool_call>{"name": "search", "arguments": {}}</tool_call>',
        "<think>water boiling point?",
    ],
)
def test_nothing_is_replaced_by_the_question_and_recorded(raw: str | None) -> None:
    text, notes = clean_query(raw, f"  {QUESTION}\n")
    assert text == QUESTION
    assert len(notes) == 1
    assert "original question" in notes[0]


def test_a_long_query_is_cut_between_words_and_the_cut_recorded() -> None:
    raw = "boiling " * 100
    text, notes = clean_query(raw, QUESTION)
    assert text == " ".join(["boiling"] * 50)
    assert notes == ["The query was cut from 799 to 399 characters (limit 400)."]


def test_a_long_chinese_query_is_cut_between_characters() -> None:
    text, notes = clean_query("水在海平面的沸点是多少" * 50, QUESTION)
    assert len(text) == QUERY_LIMIT
    assert len(notes) == 1


def test_a_long_question_is_cut_as_well() -> None:
    text, notes = clean_query("", "why " * 200)
    assert len(text) <= QUERY_LIMIT
    assert len(notes) == 2


@pytest.mark.parametrize(
    "raw",
    [
        '{"query": "' + " " * 19_000 + "x",
        "query: " * 2_800,
        "\"'" * 5_000 + "'\"" * 5_000,
        "「'" * 5_000 + "'」" * 5_000,
        "<tool_call>" * 1_800,
        "Action: search\n" * 1_300,
        "search(" * 2_800,
        "search[" * 2_800 + "]",
        'search("' + "a" * 19_000,
    ],
    ids=["blanks", "labels", "quotes", "nested", "tags", "steps", "calls", "brackets", "open"],
)
def test_a_model_that_runs_wild_costs_no_time(raw: str) -> None:
    """Nested wrapping once cost time by the square of its depth."""
    began = time.monotonic()
    clean_query(raw, QUESTION)
    assert time.monotonic() - began < 3


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="limit"):
        clean_query("water", QUESTION, limit=0)


def test_a_combining_mark_stays_with_its_letter() -> None:
    assert cut_at_word("e\u0301" * 5, 3) == "e\u0301"


pieces = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.sampled_from(
            ['"', "'", "```", "```json\n", "\n\n", '{"query": "', '"}', "Query: ", "[", "]", "水", "\\u0007"]
        ),
    ),
    max_size=12,
).map("".join)


@given(pieces, st.integers(1, 60))
@example('"a b" c' * 20, 7)
@example('["\\n\\u0000water"]', 20)
def test_every_cleaned_query_can_be_sent(raw: str, limit: int) -> None:
    text, notes = clean_query(raw, QUESTION, limit)
    assert 1 <= len(text) <= limit
    assert text == " ".join(text.split())
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in text)
    assert all(note.endswith(".") for note in notes)


@given(pieces)
def test_cleaning_twice_is_cleaning_once(raw: str) -> None:
    once = clean_query(raw, QUESTION, limit=10_000).text
    assert clean_query(once, QUESTION, limit=10_000) == (once, [])


@given(st.text(max_size=80), st.integers(1, 40))
def test_a_cut_is_a_prefix_that_ends_no_word_early(text: str, limit: int) -> None:
    cut = cut_at_word(text, limit)
    assert text.startswith(cut)
    assert len(cut) <= limit
    if len(text) <= limit:
        assert cut == text
