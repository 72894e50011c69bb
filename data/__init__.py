"""The small knowledge base, the small web and the questions of the demo, as package data.

Each kind is one or more `<kind>.<lang>.jsonl` files, one object a line; README.md beside them gives the
fields, the provenance and the licence. Another language is another file: nothing here names the languages.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

Row = dict[str, Any]

SPLITS = ("train", "dev", "test")


def knowledge(lang: str | None = None) -> list[Row]:
    """The passages that play the internal knowledge base: `id, title, text, url, lang`.

    `lang` ("en", "zh") keeps one language, None all of them. Raises ValueError for a language without a file.
    """
    return _rows("knowledge", lang)


def web(lang: str | None = None) -> list[Row]:
    """The passages that play the web, for `IndexSearch`: `id, title, text, url, lang`.

    `lang` ("en", "zh") keeps one language, None all of them. Raises ValueError for a language without a file.
    """
    return _rows("web", lang)


def questions(split: str | None = None, lang: str | None = None) -> list[Row]:
    """The questions: `id, question, answers, relevant_ids, split, lang, expect`.

    `answers` holds the gold answer and then its aliases, and is empty where `expect` is "none": nothing in
    either collection answers that question. `split` is one of `SPLITS`, or None for all of them; `lang` as in
    `knowledge`.
    Raises ValueError for an unknown split or a language without a file.
    """
    if split is not None and split not in SPLITS:
        raise ValueError(
            f"split={split!r} is not a split of the sample questions: use one of {', '.join(SPLITS)}, or None"
        )
    return [row for row in _rows("questions", lang) if split in (None, row["split"])]


def _rows(kind: str, lang: str | None) -> list[Row]:
    folder = resources.files(__name__)
    languages = sorted(
        name.removeprefix(f"{kind}.").removesuffix(".jsonl")
        for name in (entry.name for entry in folder.iterdir())
        if name.startswith(f"{kind}.") and name.endswith(".jsonl")
    )
    if lang is not None and lang not in languages:
        raise ValueError(f"lang={lang!r} has no {kind} sample: use one of {', '.join(languages)}, or None")
    rows: list[Row] = []
    for language in languages if lang is None else [lang]:
        text = folder.joinpath(f"{kind}.{language}.jsonl").read_text(encoding="utf-8")
        # Not splitlines(): JSON strings may hold U+2028 and the like unescaped.
        rows.extend(json.loads(line) for line in text.split("\n") if line.strip())
    return rows
