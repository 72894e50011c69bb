"""Windows cover a text and fit; batches hold every input once and stay in their budget."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ConfigError
from crag_dspy.graders.windows import batches, windows

sizes = st.integers(1, 64).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


@given(st.integers(0, 2000), sizes)
def test_windows_cover_the_text_in_order_and_fit(length: int, size_overlap: tuple[int, int]) -> None:
    size, overlap = size_overlap
    found = windows(length, size, overlap)

    assert found[0][0] == 0
    assert found[-1][1] == length
    assert all(0 < end - start <= size for start, end in found) or length == 0
    for (start, end), (next_start, next_end) in itertools.pairwise(found):
        assert start < next_start <= end - overlap
        assert end < next_end


@given(st.integers(1, 2000), sizes)
def test_there_are_no_more_windows_than_needed(length: int, size_overlap: tuple[int, int]) -> None:
    size, overlap = size_overlap
    count = len(windows(length, size, overlap))

    assert count == 1 if length <= size else size + (count - 2) * (size - overlap) < length


def test_a_text_that_fits_is_one_window() -> None:
    assert windows(10, 10, 3) == [(0, 10)]
    assert windows(11, 10, 3) == [(0, 10), (1, 11)]


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (5, 5), (5, -1)])
def test_windows_that_cannot_advance_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ConfigError):
        windows(10, size, overlap)


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(1, 1000))
def test_batches_hold_each_input_once_within_the_budget(lengths: list[int], budget: int) -> None:
    groups = batches(lengths, budget)

    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        padded = len(group) * max(lengths[index] for index in group)
        assert padded <= budget or len(group) == 1


def test_batches_put_near_lengths_together() -> None:
    assert batches([5, 50, 6, 49], 100) == [[1, 3], [2, 0]]
