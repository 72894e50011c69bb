"""The largest prefix sum over time, against adding it up."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.optimize.thresholds.prefix_max import max_prefix_sums


@given(
    st.integers(1, 9),
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(-9, 9)), max_size=40),
)
def test_it_is_the_largest_prefix_sum_at_every_time(
    leaves: int, times: int, updates: list[tuple[int, int, int]]
) -> None:
    rows = np.array([(leaf % leaves, time % times, change) for leaf, time, change in updates], dtype=np.int64)
    leaf, time, change = rows.reshape(-1, 3).T
    expected = []
    for now in range(times):
        array = np.zeros(leaves, dtype=np.int64)
        np.add.at(array, leaf[time <= now], change[time <= now])
        expected.append(np.cumsum(array).max())
    assert max_prefix_sums(leaf, time, change, leaves, times).tolist() == expected
