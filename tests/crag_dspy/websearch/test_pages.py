"""`passages_from`: sizes hold for any results."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.websearch.pages import passages_from

texts = st.one_of(st.none(), st.text(max_size=200), st.integers())
results = st.lists(
    st.fixed_dictionaries(
        {
            "url": st.one_of(
                texts, st.sampled_from(["https://a.com/1", "http://b.org", "ftp://c.net", "https://en.a.com"])
            )
        },
        optional={
            "content": texts,
            "raw_content": texts,
            "title": texts,
            "score": st.one_of(st.none(), st.floats(), st.booleans(), st.text(max_size=3)),
            "published_date": texts,
        },
    ),
    max_size=8,
)


@given(results, st.integers(1, 100), st.integers(1, 300))
def test_pages_keep_their_limits_and_can_be_cited(
    found: list[dict[str, Any]], page_chars: int, total_chars: int
) -> None:
    passages = passages_from(found, page_chars=page_chars, total_chars=total_chars)
    assert sum(len(passage.text) for passage in passages) <= total_chars
    for passage in passages:
        assert 1 <= len(passage.text) <= page_chars
        assert passage.url.startswith(("http://", "https://"))
        assert passage.id == passage.url
        assert passage.score is None or abs(passage.score) < float("inf")


@given(results)
def test_a_preference_orders_and_drops_nothing(found: list[dict[str, Any]]) -> None:
    plain = passages_from(found, total_chars=10**9)
    preferring = passages_from(found, total_chars=10**9, prefer=["a.com"])
    preferred = [passage for passage in plain if "a.com" in passage.url]
    assert preferring == preferred + [passage for passage in plain if passage not in preferred]
