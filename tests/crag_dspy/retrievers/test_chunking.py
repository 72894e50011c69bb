import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.retrievers.chunking import chunk, count_words

TEXTS = st.text(
    alphabet=st.one_of(
        st.sampled_from(list("ab .!?\n#|`-长江大桥。！「」 \t1")), st.characters(codec="utf-8")
    ),
    max_size=400,
)


def pieces(text: str, max_words: int | None) -> list[str]:
    return [text[start:end] for start, end in chunk(text, max_words)]


@given(text=TEXTS, max_words=st.integers(1, 30))
def test_chunks_are_in_order_and_lose_no_character(text: str, max_words: int) -> None:
    spans = chunk(text, max_words)
    assert all(start < end for start, end in spans)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
    kept = "".join(text[start:end] for start, end in spans)
    assert re.sub(r"\s", "", kept) == re.sub(r"\s", "", text)


@given(text=TEXTS, max_words=st.integers(1, 30))
def test_no_chunk_is_longer_than_asked(text: str, max_words: int) -> None:
    assert all(count_words(piece) <= max_words for piece in pieces(text, max_words))


@given(text=TEXTS)
def test_a_short_text_is_one_chunk_without_its_outer_space(text: str) -> None:
    assert pieces(text, None) == ([text.strip()] if text.strip() else [])


def test_sentences_stay_whole() -> None:
    text = "The tower is tall. It was built in 1889. Visitors climb it. It is painted every seven years."
    assert pieces(text, 9) == [
        "The tower is tall. It was built in 1889.",
        "Visitors climb it. It is painted every seven years.",
    ]


def test_chinese_sentences_stay_whole_and_characters_are_counted() -> None:
    text = "武汉长江大桥建成于一九五七年。它全长一千六百七十米。列车在下层通行。"
    assert pieces(text, 20) == ["武汉长江大桥建成于一九五七年。", "它全长一千六百七十米。列车在下层通行。"]


def test_a_sentence_longer_than_a_chunk_is_cut_between_words() -> None:
    text = " ".join(f"w{number}" for number in range(25)) + "."
    assert [piece.split()[0] for piece in pieces(text, 10)] == ["w0", "w10", "w20"]


def test_a_run_without_spaces_is_bounded_too() -> None:
    assert max(len(piece) for piece in pieces("x" * 10_000, 20)) <= 20 * 40


def test_a_heading_opens_a_chunk_and_headings_in_a_row_stay_together() -> None:
    text = "# Guide\n\n## Install\n\nRun the installer.\n\n## Remove\n\nRun it again."
    assert pieces(text, 8) == ["# Guide\n\n## Install\n\nRun the installer.", "## Remove\n\nRun it again."]


def test_a_comment_in_code_is_not_a_heading() -> None:
    text = "Run this.\n\n```\n# not a heading\nmake\n```\n\n" + "Then wait. " * 3
    assert pieces(text, 10) == [
        "Run this.\n\n```\n# not a heading\nmake\n```",
        "Then wait. Then wait. Then wait.",
    ]


@pytest.mark.parametrize("max_words", [0, -1, True, 2.5, "10"])
def test_a_size_that_is_no_size_is_refused(max_words: object) -> None:
    with pytest.raises(ConfigError, match="chunk_words"):
        chunk("text", max_words)  # type: ignore[arg-type]
