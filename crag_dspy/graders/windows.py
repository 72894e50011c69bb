"""Long texts as overlapping windows, and inputs of many lengths as batches. Pure arithmetic on lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence


def windows(length: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """Cut `length` tokens into windows of at most `size`, neighbours sharing at least `overlap` tokens.

    Every token is in some window, the windows have nearly equal lengths (a last window of three tokens would
    be judged on nothing), and a text that fits, an empty one too, is one window.
    """
    if size < 1 or not 0 <= overlap < size:
        raise ConfigError(
            f"windows need size >= 1 and 0 <= overlap < size, got size={size}, overlap={overlap}"
        )
    if length <= size:
        return [(0, length)]
    step = size - overlap
    count = -(-(length - overlap) // step)
    starts = [round(i * (length - size) / (count - 1)) for i in range(count)]
    return [(start, start + size) for start in starts]


def batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group inputs of near lengths, so that padding to the longest of a batch costs little.

    Args:
        lengths: tokens of each input.
        budget: tokens of a batch at most, padding counted; an input longer than that is a batch alone.

    Returns:
        Indices into `lengths`: each exactly once, longest first, so that a batch too big for memory fails at
        once.
    """
    if budget < 1:
        raise ConfigError(f"batch_tokens must be at least 1, got {budget}")
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] <= budget:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups
