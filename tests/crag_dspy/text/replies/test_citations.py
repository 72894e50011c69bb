"""Citations are read alike everywhere, and only where they are citations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.text.replies import check_citations, uncited


@pytest.mark.parametrize(
    ("answer", "sources", "clean", "cited", "dropped"),
    [
        ("It is 5 [1][2].", 2, "It is 5 [1][2].", (1, 2), ()),
        ("It is 5 [16].", 5, "It is 5.", (), (16,)),
        ("是1931年【2】。另见［9］。", 3, "是1931年【2】。另见。", (2,), (9,)),
        ("[0] none", 1, "none", (), (0,)),
        ("no citation", 0, "no citation", (), ()),
        ("It is 5 [1, 16].", 5, "It is 5 [1].", (1,), (16,)),
        ("It is 5 [2-4] and [1、2].", 5, "It is 5 [2-4] and [1、2].", (2, 3, 4, 1), ()),
        ("It is 5 [4–6].", 5, "It is 5 [4, 5].", (4, 5), (6,)),
        ("Seen in [2004] by 3 [7, 8].", 5, "Seen in [2004] by 3.", (), (7, 8)),
        ("It is 5 [1-999].", 5, "It is 5 [1, 2, 3, 4, 5].", (1, 2, 3, 4, 5), (999,)),
        ("`arr[0]` is the first [1].", 1, "`arr[0]` is the first [1].", (1,), ()),
        ("Use arr[0] or x_2[7] [1].", 1, "Use arr[0] or x_2[7] [1].", (1,), ()),
        ("```py\nx = [7]\n```\nas shown [1]", 1, "```py\nx = [7]\n```\nas shown [1]", (1,), ()),
        ("It opened in 1931[1].", 1, "It opened in 1931[1].", (1,), ()),
        ("Paris【9】.", 1, "Paris.", (), (9,)),
    ],
)
def test_citations(
    answer: str, sources: int, clean: str, cited: tuple[int, ...], dropped: tuple[int, ...]
) -> None:
    checked = check_citations(answer, sources)
    assert (checked.answer, checked.cited, checked.dropped) == (clean, cited, dropped)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("Paris [1]", "Paris"),
        ("巴黎【1】", "巴黎"),
        ("巴黎［1］。", "巴黎。"),
        ("Paris [1、2]", "Paris"),
        ("Paris [1; 2] and Rome [3-4].", "Paris and Rome."),
        ("arr[0]", "arr[0]"),
        ("a `list[1]`", "a `list[1]`"),
        ("[1]", "[1]"),
    ],
)
def test_an_answer_without_its_citations(answer: str, text: str) -> None:
    assert uncited(answer) == text


@given(st.text(st.sampled_from("[]【】1290,-– a`\n"), max_size=40), st.integers(0, 9))
def test_what_is_kept_points_at_a_source(answer: str, sources: int) -> None:
    checked = check_citations(answer, sources)
    assert all(1 <= n <= sources for n in checked.cited)
    assert not any(1 <= n <= sources for n in checked.dropped)
    assert check_citations(checked.answer, sources).cited == checked.cited or checked.dropped
