"""The blocks of a text: they cover it, and each knows what it stands under."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.text.markdown import Block, blocks, texts_of

LINES = st.lists(
    st.sampled_from([
        "# Install", "## Windows", "Ports", "=====", "-----", "---", "- one", "  - two", "    - three", "1. first",
        "7) seventh", "| a | b |", "|---|---|", "| 1 | 2 |", "```python", "```", "  ```", "~~~", "> said", "> - quoted",
        "> ```", "", "  ", "Plain words. And more:", "    indented", "\tx", "title: y", "步骤如下：", "| 甲 | 乙 |",
        "[a]: b", "<div>",
    ]),
    max_size=30,
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
# Letters, spaces and sentence marks, with line breaks: nothing that Markdown reads.
PLAIN = st.text(alphabet="abc .,!?。，“”中文ABC\n", max_size=200)


def said(text: str, block: Block) -> tuple[str, str, list[str], list[str]]:
    headings = texts_of(text, [(heading.start, heading.end) for heading in block.headings])
    return (
        block.kind,
        text[block.start : block.end].strip(),
        list(headings),
        list(texts_of(text, block.lead)),
    )


@given(LINES, ENDS)
def test_blocks_cover_the_text_in_order_and_lead_from_before(lines: list[str], end: str) -> None:
    text = end.join(lines)
    found = blocks(text)
    assert "".join(text[block.start : block.end] for block in found) == text
    for block in found:
        before = [(heading.start, heading.end) for heading in block.headings] + list(block.lead)
        assert all(0 <= start < stop <= block.end for start, stop in before)
        levels = [heading.level for heading in block.headings]
        assert levels == sorted(set(levels))


@given(PLAIN)
def test_plain_text_is_one_block_of_prose(text: str) -> None:
    assert blocks(text) == ((Block(0, len(text), "prose"),) if text else ())


def test_a_block_stands_under_the_headings_above_it() -> None:
    text = "Top.\n\nGuide\n=====\n\nA.\n\n## Linux ##\n\nB.\n\nWindows\n---\nC.\n\n# 安装\n\nD."
    assert [said(text, block)[:3] for block in blocks(text)] == [
        ("prose", "Top.", []),
        ("heading", "Guide\n=====", []),
        ("prose", "A.", ["Guide"]),
        ("heading", "## Linux ##", ["Guide"]),
        ("prose", "B.", ["Guide", "Linux"]),
        ("heading", "Windows\n---", ["Guide"]),
        ("prose", "C.", ["Guide", "Windows"]),
        ("heading", "# 安装", []),
        ("prose", "D.", ["安装"]),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "It was built in 1931.\n---\nIt is open.",  # a sentence above dashes
        "Two lines\nof one paragraph\n---\nIt is open.",
        "# " + "A very long line that says a lot " * 8,
        "> # quoted\n> It is open.",
        "    # a comment in indented code",
        "#hashtag",
    ],
)
def test_what_is_no_heading(text: str) -> None:
    assert {block.kind for block in blocks(text)} == {"prose"}


def test_items_come_with_the_sentence_before_and_the_items_above() -> None:
    text = "It is old. The ports are:\n\n- Linux\n  - admin: 8080\n- Windows\n  - admin: 8081\n\n    Only there.\n\n"
    text += "End."
    assert [said(text, block) for block in blocks(text)] == [
        ("prose", "It is old. The ports are:", [], []),
        ("item", "- Linux", [], ["The ports are:"]),
        ("item", "- admin: 8080", [], ["The ports are:", "Linux"]),
        ("item", "- Windows", [], ["The ports are:"]),
        ("item", "- admin: 8081", [], ["The ports are:", "Windows"]),
        ("prose", "Only there.", [], ["The ports are:", "Windows", "admin: 8081"]),
        ("prose", "End.", [], []),
    ]


@pytest.mark.parametrize(
    ("before", "lead"),
    [
        ("Install it as follows", ["Install it as follows"]),
        ("It is old. 步骤如下：", ["步骤如下："]),
        ("It is old.", []),
    ],
)
def test_a_sentence_that_ends_leads_to_nothing(before: str, lead: list[str]) -> None:
    text = f"{before}\n- one\n- two"
    assert [said(text, block)[3] for block in blocks(text)] == [[], lead, lead]


def test_one_line_with_a_dash_is_prose_and_so_are_long_items() -> None:
    assert [block.kind for block in blocks("- Hello there. I am Bob.")] == ["prose"]
    assert [block.kind for block in blocks("- " + "It is long. " * 40 + "\n- short")] == ["prose", "item"]


def test_rows_come_with_their_header() -> None:
    table = "| Plan | Price |\n|---|--:|\n| Free | 0 |\n| Pro | 49 |\nThat is all."
    header = "| Plan | Price |\n|---|--:|"
    assert [said(table, block) for block in blocks(table)] == [
        ("row", f"{header}\n| Free | 0 |", [], []),
        ("row", "| Pro | 49 |", [], [header]),
        ("prose", "That is all.", [], []),
    ]


@pytest.mark.parametrize("indent", ["", "  ", "   "])
def test_fenced_code_is_whole_in_a_list_too(indent: str) -> None:
    code = f"{indent}```sh\n{indent}make. All.\n\n{indent}# no heading\n{indent}```"
    text = f"1. Build it:\n\n{code}\n2. Test it.\n"
    (found,) = [block for block in blocks(text) if block.kind == "code"]
    assert text[found.start : found.end].rstrip() == code


@pytest.mark.parametrize(
    "text",
    [
        "```\nIt was cut. Here.",
        "- ```\n  Cut. Here.\n\nEnd.\n```",
        "> ```\n> Cut. Here.\n\nEnd.",
        "````\nCut.\n```\nEnd.",
    ],
)
def test_a_fence_that_nothing_closes_where_it_stands_is_prose(text: str) -> None:
    assert "code" not in {block.kind for block in blocks(text)}


def test_a_front_matter_is_fields() -> None:
    text = "---\ntitle: Ports\ntags:\n  - net\n# none\nauthor: Ada\n---\nIt is old."
    assert [said(text, block)[:2] for block in blocks(text)] == [
        ("rule", "---"),
        ("row", "title: Ports"),
        ("row", "tags:\n  - net\n# none"),
        ("row", "author: Ada"),
        ("rule", "---"),
        ("prose", "It is old."),
    ]
    assert not [b for b in blocks("---\n\nA rule above. It is old.\n\n---\n") if b.kind == "row"]


def test_what_a_long_text_repeats_is_bounded() -> None:
    wide = "| " + "a | " * 5000 + "\n" + "|-" * 5000 + "|\n" + "| 1 |\n" * 3
    deep = "".join("  " * level + "- " + "word " * 70 + "\n" for level in range(12))
    for text in (wide, deep):
        assert max(sum(end - start for start, end in block.lead) for block in blocks(text)) < 1300
    assert not re.search("ever", "".join(texts_of("never", [(0, 1)])))
