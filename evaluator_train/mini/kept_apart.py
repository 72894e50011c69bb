"""The articles of XQuAD that nothing learns from: README's test articles, and its development articles.

Neither trains nor fits anything (a grader, its calibration, when it stops, weights), in either language. Where other
sets come from the same articles, as QNLI does, their pairs are left out with them.
"""

from __future__ import annotations

TEST = (4, 5, 7, 11, 12, 13, 15, 17, 19, 22, 27, 35, 36, 39)  # numbers of articles in the file, from 0
DEV = (10, 21, 25, 32)


def parts(articles: int) -> dict[str, list[int]]:
    """Numbers of the articles of a file by split: what is not kept apart may be trained on."""
    known = range(articles)
    return {
        "train": [number for number in known if number not in TEST and number not in DEV],
        "dev": [number for number in known if number in DEV],
        "heldout": [number for number in known if number in TEST],
    }
