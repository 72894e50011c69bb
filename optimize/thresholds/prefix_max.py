"""The largest prefix sum of an array that changes over time, at every time.

A segment tree answers this one update at a time. Here all updates are known beforehand, so the tree is built
level by level with every node's whole history as rows, and each level is a few numpy operations: O(E log E) a
level for E updates, O(E log E log n) in all, and a million updates take seconds rather than minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


def max_prefix_sums(leaf: Ints, time: Ints, change: Ints, leaves: int, times: int) -> Ints:
    """For every time t in 0..times-1, max over i of sum(array[: i + 1]), the array starting as zeros.

    Args:
        leaf, time, change: update j adds `change[j]` to `array[leaf[j]]`, and holds from `time[j]` on.
        leaves: length of the array, at least 1.
        times: number of times, at least 1.
    """
    node, when, change = _sorted_sums(leaf, time, change, times)
    total = _running_sums(node, change)
    best = total.copy()
    width = leaves
    while width > 1:
        node, when, total, best = _one_level_up(node, when, total, best, times)
        width = (width + 1) // 2
    answer = np.zeros(times, dtype=np.int64)
    if len(when):
        answer[when] = best
        last = np.zeros(times, dtype=np.int64)
        last[when] = when
        last = np.maximum.accumulate(last)
        answer = np.where(np.arange(times) < when[0], 0, answer[last])
    return answer


def _sorted_sums(leaf: Ints, time: Ints, change: Ints, times: int) -> tuple[Ints, Ints, Ints]:
    """Updates in order of (leaf, time), those of the same leaf and time added up."""
    code, where = np.unique(leaf * times + time, return_inverse=True)
    summed = np.zeros(len(code), dtype=np.int64)
    np.add.at(summed, where, change)
    return code // times, code % times, summed


def _running_sums(node: Ints, change: Ints) -> Ints:
    """Cumulative sums of `change` that start again with every node."""
    running = np.cumsum(change)
    first = np.flatnonzero(np.diff(node, prepend=-1))
    before = np.repeat(running[first] - change[first], np.diff(np.append(first, len(node))))
    return running - before


def _one_level_up(
    node: Ints, when: Ints, total: Ints, best: Ints, times: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """The histories of the parents, from those of their children; a child is zero until its first update."""
    parent, right = node >> 1, (node & 1).astype(bool)
    code = parent * times + when
    order = np.argsort(code, kind="stable")
    code, parent, right = code[order], parent[order], right[order]
    total, best = total[order], best[order]

    row = np.arange(len(code))
    begin = np.maximum.accumulate(np.where(np.diff(parent, prepend=-1) != 0, row, 0))
    left_total, left_best = _latest(~right, row, begin, total, best)
    right_total, right_best = _latest(right, row, begin, total, best)
    # Both children may change at one time: the later of the two rows has seen both.
    last = np.append(code[1:] != code[:-1], True) if len(code) else np.zeros(0, dtype=bool)
    merged_total = (left_total + right_total)[last]
    merged_best = np.maximum(left_best, left_total + right_best)[last]
    return parent[last], code[last] % times, merged_total, merged_best


def _latest(
    side: npt.NDArray[np.bool_], row: Ints, begin: Ints, total: Ints, best: Ints
) -> tuple[Ints, Ints]:
    """Each row's latest state of one child: that of this side's last row, if it is in the same parent."""
    latest = np.maximum.accumulate(np.where(side, row, -1))
    known = latest >= begin
    return np.where(known, total[latest], 0), np.where(known, best[latest], 0)
