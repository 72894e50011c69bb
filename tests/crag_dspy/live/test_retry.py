"""`Retry`: the policy that web search and Weaviate share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.live.retry import Retry
from crag_dspy.websearch.transport import parse_retry_after

seconds = st.floats(0, 1e6)


@given(st.integers(1, 20), seconds, st.one_of(st.none(), seconds), st.integers(0, 5), st.floats(0.1, 100))
def test_a_call_never_outlives_its_timeout(
    tries: int, elapsed: float, asked: float | None, retries: int, timeout: float
) -> None:
    pause = Retry(timeout, retries, backoff=0.5).pause(tries, elapsed, asked)
    if pause is not None:
        assert tries <= retries
        assert pause >= 0
        assert elapsed + pause < timeout


@given(st.integers(1, 6))
def test_the_pause_doubles_and_half_of_it_is_random(tries: int) -> None:
    pause = Retry(timeout=1e6, retries=10, backoff=0.5).pause(tries, 0.0)
    assert pause is not None
    assert 0.25 * 2 ** (tries - 1) <= pause <= 0.5 * 2 ** (tries - 1)


def test_what_the_service_asks_is_waited_exactly() -> None:
    assert Retry(timeout=10, retries=1).pause(1, 2.0, asked=7.5) == 7.5
    assert Retry(timeout=10, retries=1).pause(1, 3.0, asked=7.5) is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("-3", 0.0),
        ("0.5", 0.5),
        (None, None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_retry_after_in_seconds(header: str | None, expected: float | None) -> None:
    assert parse_retry_after(header) == expected


def test_retry_after_as_a_date() -> None:
    in_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    parsed = parse_retry_after(in_a_minute)
    assert parsed is not None
    assert 55 < parsed <= 60
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
