"""A benchmark out of a SQuAD file: what is in the knowledge base, what only the "web" has, and what nobody has.

Whole articles are dealt to three places, so that a question's evidence is in one of them and nowhere else. The
questions are dealt to dev and test by article too: thresholds and prompts that are chosen on dev have never seen a
document of the test questions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from crag_dspy.errors import ConfigError
from crag_dspy.files.squad import read_squad
from crag_dspy.optimize.questions.datasets import load
from crag_dspy.text.scripts import language_of

Row = dict[str, Any]

EXPECT = {
    "kb": "internal",
    "web": "web",
    "both": "both",
    "neither": "none",
}  # the words of the sample's questions
SPLITS = ("dev", "test")


@dataclass(frozen=True)
class Articles:
    """Which articles the questions come from; documents are always made of all.

    Attributes:
        only: questions of these alone; None for all.
        exclude: no question of these (what a grader was trained on, say).
        test: the test questions are of these, and the dev questions of the others; None draws them.
    """

    only: Collection[str] | None = None
    exclude: Collection[str] = ()
    test: Collection[str] | None = None


@dataclass(frozen=True)
class Benchmark:
    """Rows as they are written: `documents` by place ("kb", "web"), `questions` by split, and how they were made."""

    documents: Mapping[str, Sequence[Row]]
    questions: Mapping[str, Sequence[Row]]
    about: Row


def squad_benchmark(
    source: str | Path,
    *,
    kb: float = 0.45,
    web: float = 0.45,
    both: float = 0.0,
    test_share: float = 0.6,
    dev: int | None = None,
    test: int | None = None,
    articles: Articles | None = None,
    seed: int = 0,
) -> Benchmark:
    """Deal the articles of a SQuAD file.

    Args:
        source: SQuAD JSON with at least two articles; a translation of it is dealt the same way.
        kb, web: shares of the articles (by their questions) in the knowledge base alone and in the web alone, in
            (0, 1).
        both: the share in both, in [0, 1). What the three leave is in neither, and its questions have no answer in
            the documents.
        test_share: share of the questions that are test's, where `articles.test` does not say which, in (0, 1).
        dev, test: questions a split; None keeps all. A larger number holds the smaller one's questions.
        articles: which articles are asked about, by title.
        seed: of dealing and of the order of questions.

    Returns:
        Questions have the fields of the sample's (`answers` is empty where `expect` is "none"; the file's own answers
        are then in `withheld`) and stand in an order whose every beginning is a fair sample of all.

    Raises:
        ConfigError: shares out of range, an unknown article, or too few of them.
    """
    for name, share in (("kb", kb), ("web", web), ("test_share", test_share)):
        if not 0 < share < 1:
            raise ConfigError(f"{name} must be between 0 and 1, got {share!r}")
    if not 0 <= both < 1:
        raise ConfigError(f"both must be between 0 and 1, got {both!r}")
    if kb + web + both > 1 + 1e-9:
        raise ConfigError(f"kb, web and both must add up to at most 1, got {kb} + {web} + {both}")
    for name, count in (("dev", dev), ("test", test)):
        if count is not None and count < 1:
            raise ConfigError(f"{name} must be at least 1 question, got {count!r}")
    rows = [example.toDict() for example in load(source, format="squad")]
    sizes = Counter(str(row["document"]) for row in rows)
    groups = _groups(sizes, articles or Articles(), test_share, seed)
    shares = {"kb": kb, "web": web, "both": both, "neither": max(0.0, 1 - kb - web - both)}
    place = {
        title: where
        for name, titles in groups.items()
        for where, dealt in _deal(titles, sizes, shares, f"{seed} {name}").items()
        for title in dealt
    }
    lang = language_of(rows[0]["question"])
    documents = _documents(source, place, lang)
    wanted = {"dev": dev, "test": test}
    questions = {
        split: _ordered(
            [_question(row, split, place, lang) for row in rows if row["document"] in titles], seed
        )[: wanted[split]]
        for split, titles in ((split, set(groups[split])) for split in SPLITS)
    }
    about = {
        "source": Path(source).name,
        "sha256": sha256(Path(source).read_bytes()).hexdigest(),
        "language": lang,
        "seed": seed,
        "shares": shares,
        "documents": {name: len(found) for name, found in documents.items()},
        "questions": {
            split: {"all": len(found), **Counter(row["expect"] for row in found)}
            for split, found in questions.items()
        },
        "articles": {
            title: {"place": place[title], "split": name} for name in groups for title in groups[name]
        },
    }
    return Benchmark(documents, questions, about)


def read_articles(given: str, titles: Sequence[str]) -> list[str]:
    """Titles out of what a command line says.

    Args:
        given: a file, or titles and numbers with commas between; a file holds a JSON list, lines, or a JSON object
            of lists, of which "FILE:NAME" is one. A number is the place of an article in the SQuAD file, from 0.
        titles: those of the file, in order.

    Raises:
        ConfigError: naming what is no article, or the lists that there are.
    """
    path, _, key = given.rpartition(":") if not Path(given).is_file() and ":" in given else (given, "", "")
    if Path(path).is_file():
        items = _listed_in(Path(path), key)
    else:
        items = [item.strip() for item in given.split(",") if item.strip()]
    found = []
    for item in items:
        numbered = str(item).isdecimal() and str(item) not in titles
        known = int(item) < len(titles) if numbered else item in titles
        if not known:
            raise ConfigError(
                f"no article {item!r}: the file has {len(titles)}, from {titles[0]!r} (number 0)"
            )
        found.append(titles[int(item)] if numbered else str(item))
    if not found:
        raise ConfigError(f"{given!r} names no article")
    return found


def titles_of(source: str | Path) -> list[str]:
    """The articles with questions, in the order of the file."""
    return list(dict.fromkeys(str(example.document) for example in load(source, format="squad")))


def _listed_in(path: Path, key: str) -> list[Any]:
    text = path.read_text(encoding="utf-8-sig")
    try:
        plain = json.loads(text)
    except json.JSONDecodeError:
        return [line.strip() for line in text.splitlines() if line.strip()]
    if isinstance(plain, dict):
        if key not in plain:
            raise ConfigError(f"{path.name} has the lists {', '.join(plain)}: write FILE:NAME, got {key!r}")
        plain = plain[key]
    if not isinstance(plain, list):
        raise ConfigError(f"{path.name} must hold a list of articles, got {type(plain).__name__}")
    return plain


def _groups(
    sizes: Mapping[str, int], articles: Articles, test_share: float, seed: int
) -> dict[str, list[str]]:
    """Articles by what is asked about them: "dev", "test", or "" for nothing."""
    for name, given in (("only", articles.only), ("exclude", articles.exclude), ("test", articles.test)):
        unknown = [title for title in given or () if title not in sizes]
        if unknown:
            raise ConfigError(f"articles.{name}: no article {unknown[0]!r} in the file")
    both = [title for title in articles.test or () if title in articles.exclude]
    if both:
        raise ConfigError(f"article {both[0]!r} is excluded, and named for test: leave it out of one of them")
    asked = [
        title
        for title in sizes
        if (articles.only is None or title in articles.only) and title not in articles.exclude
    ]
    if articles.test is not None:
        chosen = set(articles.test)
        asked += [title for title in sizes if title in chosen and title not in asked]  # named is asked
        dealt = {split: [t for t in asked if (t in chosen) == (split == "test")] for split in SPLITS}
    else:
        dealt = _deal(asked, sizes, {"dev": 1 - test_share, "test": test_share}, f"{seed} splits")
    empty = [split for split in SPLITS if not dealt[split]]
    if empty:
        raise ConfigError(
            f"{len(asked)} articles to ask about leave none for {empty[0]}: name fewer for the other"
        )
    return {**dealt, "": [title for title in sizes if title not in asked]}


def _deal(
    titles: Sequence[str], sizes: Mapping[str, int], shares: Mapping[str, float], seed: str
) -> dict[str, list[str]]:
    """Whole articles to the names in `shares`, each to the one that lacks most questions."""
    order = sorted(titles)
    Random(seed).shuffle(order)
    lacks = {name: share * sum(sizes[title] for title in titles) for name, share in shares.items()}
    dealt: dict[str, list[str]] = {name: [] for name in shares}
    for title in sorted(
        order, key=lambda title: -sizes[title]
    ):  # large first: as near as whole articles come
        name = max(lacks, key=lambda name: lacks[name])
        dealt[name].append(title)
        lacks[name] -= sizes[title]
    return dealt


def _documents(source: str | Path, place: Mapping[str, str], lang: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {"kb": [], "web": []}
    for paragraph in read_squad(source):
        where = place.get(paragraph.document)
        title = paragraph.title.replace("_", " ")
        for name in ("kb", "web") if where == "both" else (where,):
            if name in found:
                text = paragraph.text.strip()
                found[name].append({"id": paragraph.id, "title": title, "text": text, "lang": lang})
    for where, rows in found.items():
        if not rows:
            raise ConfigError(f"no article is left for {where}: use more articles, or a larger share")
    return found


def _question(row: Row, split: str, place: Mapping[str, str], lang: str) -> Row:
    where = place[row["document"]]
    held = where != "neither"
    return {
        "id": str(row.get("id", "")),
        "question": row["question"],
        "answers": row["answers"] if held else [],
        **({} if held else {"withheld": row["answers"]}),
        "relevant_ids": row["relevant_ids"] if held and row["answers"] else [],
        "document": row["document"],
        "split": split,
        "lang": lang,
        "expect": EXPECT[where] if row["answers"] else EXPECT["neither"],
    }


def _ordered(rows: list[Row], seed: int) -> list[Row]:
    """Shuffled, with the kinds of questions spread evenly: every beginning is a fair sample."""
    rows = sorted(rows, key=lambda row: (row["document"], row["id"], row["question"]))
    Random(seed).shuffle(rows)
    totals = Counter(row["expect"] for row in rows)
    seen: Counter[str] = Counter()
    ranked = []
    for number, row in enumerate(rows):
        ranked.append(((seen[row["expect"]] + 0.5) / totals[row["expect"]], number, row))
        seen[row["expect"]] += 1
    return [row for _, _, row in sorted(ranked, key=lambda item: item[:2])]
