"""Whether reading a text takes time in proportion to its length: CPU seconds at n, 2n, 4n and 8n characters.

    assert_linear(check_text, "[9]" + " " * n)     # as a function of n: lambda n: "[9]" + " " * n
    for unit in HOSTILE: assert_linear(check_text, repeated(unit))

The time of this thread alone is measured, the best of three. Twice the text may take FACTOR times as long, which leaves
room for a busy machine: eight times the text may take 27 times as long, where a quadratic pattern takes 64 times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FACTOR = 3.0  # a doubling; 2 is linear, 4 is quadratic
# A pattern that is quadratic takes a nanosecond or two a pair: 0.06 seconds at 8 x 1,000 characters.
NOISE = 0.02  # CPU seconds at 8 x 1,000 characters that tell nothing about growth

# What once took time by the square of its length, or was built for such patterns.
HOSTILE = (
    " ", "\n", "\t", "\r\n", "\u3000", "a", "A\n", "A ", "a. ", "A.", "a.b", "。", "，", "，a", "x,", "x;",
    '"', "'", "“", "”", "“”", "”“", "「", "」", "a “b", '"a. ', "”. ", "'\"", '"' * 31 + "a",
    "“" * 31 + "。", "(", ")", "(a. ", "[", "]", "[[", "【", "[9", "[9 ", "[9]", "[9] ", "[1-999]", "[1,",
    "[1-", "[1 -", "[9].", "<", "< ", "</", "<w", "<think>", "</think>", "<think", "<|", "|", "|-",
    "|- ", "-", "--", "- ", ":", ": ", "answer:", "answer is", "answer ", "1", "1.", "1. ", "1,",
    "1,000,", "1.1", "1/", "1:", "-1", "9/10 ", "$1.5 ", "%", "١", "not ", "no ", "no yes ", "n't ",
    "but ", "the context ", "the context does not ", "i do not ", "not in the ", "不", "没有", "我", "无法",
    "是", "的", "か", "가", "ก", "é", "\u0301", "\u0323\u0301", "a\u0301", "\u200b", "\ufffd", "\x00",
    "\ud800", "`", "```", "```a", "``", "*", "**", "#", "# ", "{", "{'", '{"a":', '["', '{"query": "',
    "\\", '\\"', "u.s. ", "A. B. ", "+", "++", "C++", "½", "²", "ﷺaaaaaaaaaa", "★", "query: ", "[[ ## a ## ]]",
    "[[ ##", "Dr. ", "fig. ", "support ", "fully ", "1 to 5 ", "a'b ", "《", "《》", "i.e. ", "...", "？",
    "? ", "！”", "a-", "a-b ", "_",
)  # fmt: skip


def repeated(unit: str) -> Callable[[int], str]:
    """Texts of n characters made of one unit."""
    return lambda n: (unit * (n // len(unit) + 1))[:n]


def assert_linear(
    function: Callable[[str], Any], text_of: Callable[[int], str], n: int = 1000, factor: float = FACTOR
) -> None:
    """Fails when the time of `function` grows faster than its text.

    Args:
        function: what reads a text.
        text_of: the text of about n characters; see `repeated`.
        n: the shortest text; the longest has 8 n. More of them for a function that is fast and may still be quadratic.
        factor: how much longer twice the text may take, on average over the three doublings.
    """
    # The longest first: where it takes no time there is nothing to compare.
    nothing = NOISE * n / 1000
    if _thread_seconds(function, text_of(8 * n)) <= nothing:
        return
    seconds: list[float] = []
    for size in (n, 2 * n, 4 * n, 8 * n):
        text = text_of(size)
        seconds.append(min(_thread_seconds(function, text) for _ in range(3)))
    shown = ", ".join(f"{value:.4f}" for value in seconds)
    said = f"{getattr(function, '__name__', function)} on {text_of(24)!r}: CPU seconds at n = {n}, 2n, 4n, 8n: {shown}"
    assert seconds[-1] <= max(nothing, seconds[0] * factor**3), said


def _thread_seconds(function: Callable[[str], Any], text: str) -> float:
    start = time.thread_time()
    function(text)
    return time.thread_time() - start
