"""Half a character: what a cut inside an emoji leaves, and no tokenizer takes."""

from __future__ import annotations

import re

_HALF = re.compile("[\ud800-\udfff]")


def encodable(text: str) -> str:
    """`text` as UTF-8 can write it: two halves that belong together joined, a half alone as U+FFFD."""
    if not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
