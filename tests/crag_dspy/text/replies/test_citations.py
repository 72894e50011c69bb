"""Citations are read alike everywhere, and only where they are citations."""

from __future__ import annotations

import pytest

from crag_dspy.text.replies import check_citations


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
    ],
)
def test_citations(
    answer: str, sources: int, clean: str, cited: tuple[int, ...], dropped: tuple[int, ...]
) -> None:
    checked = check_citations(answer, sources)
    assert (checked.answer, checked.cited, checked.dropped) == (clean, cited, dropped)
