"""The pairs that the shipped grader was trained and measured on, from the published sets.

    python -m crag_dspy.evaluator_train.mini.public_pairs DATASETS --out pairs

    SET.train.jsonl, SET.dev.jsonl, SET.heldout.jsonl     pairs of one set (see `public_sets`), shuffled
    all.train.jsonl, all.dev.jsonl                        all that may train, and all that may fit (see `kept_apart`)
    texts.txt, questions.txt                              plain text for `distil`

What a development or held-out file holds is in no training file: not the question, not the text, and no long run of
words of either; what a held-out file holds is not in the plain text. Seed 0 gives the very held-out pairs of the
shipped grader; another seed gives other splits of the other sets, on which the shipped one must not be measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.mini.as_script import run_script
from crag_dspy.evaluator_train.mini.kept_apart import DEV, TEST
from crag_dspy.evaluator_train.mini.public_sets import LANGUAGES, PLAIN_FILES, PublicSets, refined
from crag_dspy.evaluator_train.mini.public_text import key, runs, sentences
from crag_dspy.evaluator_train.pairs.pair_files import Pair, write_pairs
from crag_dspy.files.paper import rows_of
from crag_dspy.files.squad import by_article, read_squad

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from crag_dspy.evaluator_train.mini.public_sets import Embed

SEED = 20240115  # of seed 0
ENCODER = "minilm"
ARTICLES = ("xquad", "qnli")  # sets whose development pairs are of XQuAD's articles
ASKED = ("popqa", "pubhealth", "arc_challenge", "biography")
TEXT_LENGTHS = (12, 700)  # characters of a plain text


def public_pairs(folder: Path | str, embed: Embed, seed: int = 0) -> tuple[dict[str, list[Pair]], Random]:
    """Pairs by `set/split`, without leaks and duplicates, shuffled; and the stream that shuffles what follows.

    Args:
        folder: with the files named in `public_sets.FILES`.
        embed: unit vectors of texts, shape (n, d), for QNLI: the seed's own splits need MiniLM's.
        seed: 0 for the splits of the shipped grader.
    """
    random = Random(SEED + seed)
    sets = PublicSets(Path(folder), random)
    sets.make(embed)
    heldout, dev, train = (
        {name: pairs for name, pairs in sets.pairs.items() if name.partition("/")[2].startswith(split)}
        for split in ("heldout", "dev", "train")
    )
    dev = _without(dev, heldout, sets.held["heldout"])
    train = _without(train, {**heldout, **dev}, [text for held in sets.held.values() for text in held])
    clean = {}
    for name in sets.pairs:
        first: dict[tuple[str, str], Pair] = {}
        for pair in (heldout.get(name) or dev.get(name) or train.get(name)) or []:
            first.setdefault((key(pair.question), key(pair.text)), pair)
        clean[name] = list(first.values())
        random.shuffle(clean[name])
    return clean, random


def _without(
    sets: Mapping[str, Sequence[Pair]], guards: Mapping[str, Sequence[Pair]], paragraphs: Iterable[str]
) -> dict[str, list[Pair]]:
    """`sets` without the pairs that share a question, a text or a run of words with a guard or a paragraph."""
    guarded = {text for pairs in guards.values() for pair in pairs for text in (pair.question, pair.text)}
    whole = set(map(key, guarded))
    seen = {run for text in (*guarded, *paragraphs) for run in runs(text)}

    def apart(pair: Pair) -> bool:
        texts = (pair.question, pair.text)
        return all(key(text) not in whole and seen.isdisjoint(runs(text)) for text in texts)

    return {name: [pair for pair in pairs if apart(pair)] for name, pairs in sets.items()}


def fitting(folder: Path | str, pairs: Mapping[str, Sequence[Pair]], split: str) -> list[Pair]:
    """All pairs of "train" or "dev" on which anything may be fitted: none of an article that is kept apart."""
    chosen = {
        name: rows
        for name, rows in pairs.items()
        if name.endswith(f"/{split}") and (split == "train" or not name.startswith(ARTICLES))
    }
    return [pair for rows in _without(chosen, {}, kept_texts(folder)).values() for pair in rows]


def kept_texts(folder: Path | str) -> list[str]:
    """The paragraphs and the questions of XQuAD's articles that are kept apart, in both languages."""
    found = []
    for language in LANGUAGES:
        articles = by_article(read_squad(Path(folder) / f"xquad/xquad.{language}.json"))
        for number in {*TEST, *DEV} & set(range(len(articles))):
            for paragraph in articles[number]:
                found += [paragraph.text, *(str(row["question"]) for row in paragraph.questions)]
    return found


def plain_text(
    folder: Path | str, pairs: Mapping[str, Sequence[Pair]], seed: int = 0
) -> tuple[list[str], list[str]]:
    """(texts, questions) to distil on: the paper's knowledge and the training pairs, nothing of a held-out pair.

    Texts are one, two or four sentences long.
    """
    random, source = Random(SEED + seed), Path(folder)
    passages = [passage for name in PLAIN_FILES for passage in refined(source / name)]
    for line in rows_of(source / "crag-paper/biography/retrieved_passages.txt"):
        passages += [passage.partition(" // ")[2] for passage in line.split("[sep]")]
    texts, start = [], 0
    cut = [sentence for passage in passages for sentence in sentences(passage)]
    while start < len(cut):
        size = random.choices((1, 2, 4), (0.75, 0.17, 0.08))[0]
        texts.append(" ".join(cut[start : start + size]))
        start += size
    asked = [line for name in ASKED for line in rows_of(source / f"crag-paper/{name}/questions.txt")]
    for name, rows in pairs.items():
        if name.endswith("/train") and not name.startswith(("biography", "plain-text")):
            texts += [pair.text for pair in rows]
            asked += [pair.question for pair in rows]
    held = {
        key(text)
        for name, rows in pairs.items()
        if "/heldout" in name
        for pair in rows
        for text in (pair.question, pair.text)
    }
    kept = {run for text in kept_texts(source) for run in runs(text)}
    return _distinct(texts, held, kept), _distinct(asked, held, kept)


def _distinct(texts: Iterable[str], held: set[str], kept: set[str]) -> list[str]:
    shortest, longest = TEXT_LENGTHS
    plain = dict.fromkeys(" ".join(text.split()) for text in texts)
    return [
        text
        for text in plain
        if shortest < len(text) < longest and key(text) not in held and kept.isdisjoint(runs(text))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files; returns 0."""
    parser = argparse.ArgumentParser(
        prog="python -m crag_dspy.evaluator_train.mini.public_pairs",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("datasets", metavar="DATASETS", help="a folder with the published sets")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=0, help="0 gives the splits of the shipped grader")
    parser.add_argument("--json", action="store_true", help="one JSON line on stdout")
    args = parser.parse_args(arguments)
    from crag_dspy.retrievers.embedders import as_embedder

    if not Path(args.datasets).is_dir():
        raise ConfigError(f"DATASETS: no folder {args.datasets!r}")
    encoder = as_embedder(ENCODER)
    pairs, random = public_pairs(args.datasets, encoder.embed, args.seed)  # type: ignore[union-attr]
    out, counts = Path(args.out), {}
    for name, rows in pairs.items():
        counts[name] = {"pairs": write_pairs(rows, out / f"{name.replace('/', '.')}.jsonl")}
        counts[name]["relevant"] = sum(pair.relevant for pair in rows)
    for split in ("train", "dev"):
        together = fitting(args.datasets, pairs, split)
        random.shuffle(together)
        write_pairs(together, out / f"all.{split}.jsonl")
    for file, lines in zip(("texts", "questions"), plain_text(args.datasets, pairs, args.seed), strict=True):
        (out / f"{file}.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        counts[file] = {"lines": len(lines)}
    if args.json:
        sys.stdout.write(json.dumps(counts) + "\n")
    else:
        for name, count in counts.items():
            sys.stdout.write(f"{name:28s} " + "  ".join(f"{n:6d} {what}" for what, n in count.items()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_script(main))
