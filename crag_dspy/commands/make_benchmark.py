"""`crag-dspy make-benchmark`: a folder with two indexes, questions and a crag.toml, out of a SQuAD file.

crag-dspy make-benchmark xquad.en.json --out bench-en
crag-dspy compare bench-en/questions.test.jsonl --config bench-en/crag.toml
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.commands.output import answer, answer_json
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from crag_dspy.optimize.questions.squad_benchmark import Articles, Benchmark

ABOUT, CONFIG = "benchmark.json", "crag.toml"
EXAMPLE = "crag-dspy make-benchmark xquad.en.json --out bench"
FILES = {"kb": "kb.jsonl", "web": "web.jsonl", "dev": "questions.dev.jsonl", "test": "questions.test.jsonl"}
INDEXES = {"kb": "kb.index", "web": "web.index"}

_CONFIG = """# Made by `crag-dspy make-benchmark`. Paths are relative to this file.

[retriever]
kind = "local"
path = "{kb}"

[search]                # an index that plays the web
kind = "index"
path = "{web}"

[grader]
source = "mini"

[lm]
kind = "local"          # or: model = "openai/gpt-4o-mini"
temperature = 0.0
max_tokens = 64
cache = false           # seconds are of answers that were made now

[settings]              # chosen on XQuAD's dev questions, for the shipped grader and language model
k = 5
top_n = 3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="SQUAD", help="SQuAD JSON: XQuAD, SQuAD, CMRC 2018, ...")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="made; must not exist yet")
    parser.add_argument("--fresh", action="store_true", help="replace the benchmark that is there")
    parser.add_argument(
        "--kb",
        type=float,
        default=0.45,
        metavar="SHARE",
        help="of articles in the knowledge base",
    )
    parser.add_argument(
        "--web",
        type=float,
        default=0.45,
        metavar="SHARE",
        help="of articles that only the web has",
    )
    parser.add_argument(
        "--both",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="of articles that both have; the rest is in neither",
    )
    parser.add_argument("--dev-limit", type=int, metavar="N", help="dev questions (default: all there are)")
    parser.add_argument("--test-limit", type=int, metavar="N", help="test questions (default: all there are)")
    parser.add_argument(
        "--test-share", type=float, default=0.6, metavar="SHARE", help="of questions for test"
    )
    what = "titles or numbers with commas, or FILE, or FILE:NAME of a JSON object of lists"
    parser.add_argument("--only-articles", metavar="WHAT", help=f"ask about these alone: {what}")
    parser.add_argument(
        "--exclude-articles", metavar="WHAT", help="ask nothing about these; they stay documents"
    )
    parser.add_argument("--test-articles", metavar="WHAT", help="the test questions are of these")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of dealing")
    parser.add_argument(
        "--embedder",
        default="mini",
        metavar="NAME",
        help="of the indexes; none searches by words only",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Build the folder; returns 0. It appears whole or not at all."""
    from crag_dspy.optimize.questions.squad_benchmark import squad_benchmark

    if args.out.exists() and not args.fresh:
        raise ConfigError(
            f"{args.out} exists: give --out another folder, or --fresh to replace the benchmark"
        )
    if args.out.exists() and not (args.out / ABOUT).is_file():
        raise ConfigError(f"{args.out} is no benchmark (it has no {ABOUT}): it is not replaced")
    benchmark = squad_benchmark(
        args.source,
        kb=args.kb,
        web=args.web,
        both=args.both,
        test_share=args.test_share,
        dev=args.dev_limit,
        test=args.test_limit,
        articles=_articles(args),
        seed=args.seed,
    )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=args.out.parent, prefix=f".{args.out.name}-"))
    try:
        write_benchmark(benchmark, draft, args.embedder)
        shutil.rmtree(args.out, ignore_errors=True)
        draft.rename(args.out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    if args.json:
        answer_json(benchmark.about)
    else:
        answer(_for_people(benchmark.about, args.out))
    return 0


def write_benchmark(benchmark: Benchmark, folder: Path, embedder: str = "mini") -> None:
    """Files and indexes into an empty folder.

    Args:
        embedder: of both indexes, or "none" to search by words.
    """
    from crag_dspy.retrievers.local import LocalIndex

    for name, rows in {**benchmark.documents, **benchmark.questions}.items():
        _write_lines(folder / FILES[name], rows)
    for name, index in INDEXES.items():
        # Whole paragraphs: `relevant_ids` then name what is retrieved.
        LocalIndex.build(
            folder / index, folder / FILES[name], None if embedder == "none" else embedder, chunk_words=None
        )
    (folder / CONFIG).write_text(_CONFIG.format(**INDEXES), encoding="utf-8")
    (folder / ABOUT).write_text(
        json.dumps({**benchmark.about, "embedder": embedder}, ensure_ascii=False, indent=2) + "\n",
        encoding="utf-8",
    )
    os.chmod(folder, 0o755)  # a temporary folder is its maker's alone


def _articles(args: argparse.Namespace) -> Articles:
    from crag_dspy.optimize.questions.squad_benchmark import Articles, read_articles, titles_of

    given = (args.only_articles, args.exclude_articles, args.test_articles)
    titles = titles_of(args.source) if any(given) else []
    only, exclude, test = (None if one is None else read_articles(one, titles) for one in given)
    return Articles(only=only, exclude=exclude or (), test=test)


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _for_people(about: dict[str, Any], out: Path) -> str:
    passages = about["documents"]
    lines = [f"{out}: {passages['kb']} passages in the knowledge base, {passages['web']} in the web"]
    for split, counts in about["questions"].items():
        where = ", ".join(f"{counts.get(expect, 0)} {name}" for expect, name in _WHERE)
        lines.append(f"{split}: {counts['all']} questions ({where})")
    lines.append(f"crag-dspy compare {out / FILES['test']} --config {out / CONFIG}")
    return "\n".join(lines)


_WHERE = (
    ("internal", "of the knowledge base"),
    ("web", "of the web"),
    ("both", "of both"),
    ("none", "that nothing answers"),
)
