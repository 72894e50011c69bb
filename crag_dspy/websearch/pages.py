"""From the results of a search service to passages: which fields, in what order, and how much of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from crag_dspy.errors import SearchResponseError
from crag_dspy.live.notes import note
from crag_dspy.passages import Passage
from crag_dspy.websearch.query import cut_at_word

# About 5,000 tokens a page and 25,000 a search: refinement scores every strip of it.
PAGE_CHARS = 20_000
TOTAL_CHARS = 100_000


def passages_from(
    results: Sequence[Any],
    *,
    page_chars: int = PAGE_CHARS,
    total_chars: int = TOTAL_CHARS,
    prefer: Sequence[str] = (),
) -> list[Passage]:
    """Read results that have `url`, `content` and perhaps `raw_content`, `title`, `score`, `published_date`.

    The text is the whole page where there is one, else the snippet. A page over `page_chars` is cut at a
    word; when the cut loses the snippet (the part that matched the query), the snippet stands before it.
    Results without an http(s) `url` or without text are left out; `prefer`red domains come first, in the
    service's order otherwise.

    Raises:
        SearchResponseError: no result is an object; one among others is left out, and noted.
    """
    objects = [result for result in results if isinstance(result, Mapping)]
    if others := [type(result).__name__ for result in results if not isinstance(result, Mapping)]:
        if not objects:
            raise SearchResponseError(f"A search result must be an object, got {others[0]}.")
        note(f"{len(others)} of {len(results)} search results are no objects ({others[0]}), left out")
    pages = [_page(result, page_chars) for result in objects]
    kept = sorted((page for page in pages if page is not None), key=lambda page: not _is_of(page.url, prefer))
    return _within(kept, total_chars)


def _page(result: Mapping[str, Any], page_chars: int) -> Passage | None:
    url, snippet, page = _text(result, "url"), _text(result, "content"), _text(result, "raw_content")
    whole = page or snippet
    if _scheme(url) not in ("http", "https") or not whole:
        return None
    metadata: dict[str, Any] = {}
    text = cut_at_word(whole, page_chars)
    if text != whole:
        metadata["cut_from"] = len(whole)
        if snippet and snippet not in text:
            text = cut_at_word(f"{snippet}\n\n{text}", page_chars)
    if published := _text(result, "published_date"):
        metadata["published"] = published
    return Passage(
        text, id=url, title=_text(result, "title"), url=url, score=_score(result), metadata=metadata
    )


def _within(pages: Sequence[Passage], total_chars: int) -> list[Passage]:
    kept: list[Passage] = []
    left = total_chars
    for page in pages:
        text = cut_at_word(page.text, left)
        if text != page.text:  # the limit falls into this page
            metadata = {"cut_from": len(page.text), **page.metadata}
            return (
                [*kept, Passage(text, page.id, page.title, page.url, page.score, metadata)] if text else kept
            )
        kept.append(page)
        left -= len(text)
    return kept


def _is_of(url: str, domains: Sequence[str]) -> bool:
    host = urlsplit(url).hostname or ""
    return any(host == domain or host.endswith(f".{domain}") for domain in map(str.lower, domains))


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme.lower()
    except ValueError:
        return ""


def _text(result: Mapping[str, Any], name: str) -> str:
    value = result.get(name)
    return value.strip() if isinstance(value, str) else ""


def _score(result: Mapping[str, Any]) -> float | None:
    value = result.get("score")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)
