"""`crag-dspy demo`: corrective RAG on the sample data, with a language model in this process.

crag-dspy demo                   a few questions, and what happened to each
crag-dspy demo --json            the whole test split, measured: one JSON object a question, then a summary
crag-dspy demo --split dev       the same for people
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from crag_dspy.commands.output import answer, answer_json, note, show, show_table
from crag_dspy.commands.status import OK, SOME_FAILED
from crag_dspy.errors import ConfigError
from crag_dspy.graders.named import WRITTEN

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from crag_dspy.commands.demo_systems import Systems

# Test questions chosen to show every path: answers in the knowledge base, on the web, in both and nowhere.
EXAMPLE = "crag-dspy demo --json --lang en --limit 20"
SHOWN = (
    "q-en-128",
    "q-en-126",
    "q-en-020",
    "q-en-058",
    "q-en-068",
    "q-en-060",
    "q-zh-015",
    "q-zh-053",
)
LANGUAGES = ("en", "zh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="measure a whole split: JSON lines, the summary last"
    )
    parser.add_argument(
        "--split", choices=("train", "dev", "test"), help="measure this split (with --json: test)"
    )
    parser.add_argument("--lang", choices=LANGUAGES, help="questions of one language")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N questions of each language")
    parser.add_argument(
        "--lm",
        default="local",
        metavar="MODEL",
        help="what dspy.LM takes, such as openai/gpt-4o-mini",
    )
    parser.add_argument(
        "--grader",
        default="mini",
        metavar="NAME",
        help=WRITTEN,
    )
    parser.add_argument(
        "--embedder",
        default="mini",
        metavar="NAME",
        help="of the indexes; none searches by words",
    )
    parser.add_argument(
        "--cache", metavar="FOLDER", help="for the indexes (default: the user's cache folder)"
    )


def run(args: argparse.Namespace) -> int:
    """Show or measure; returns 0, or 1 when some question failed."""
    if args.limit is not None and args.limit < 1:
        raise ConfigError(f"--limit must be at least 1, got {args.limit}")
    measuring = args.json or args.split is not None
    questions = chosen(args.split or "test", args.lang, args.limit, None if measuring else SHOWN)
    note("Opening the sample knowledge base, the sample web, the grader and the language model ...")

    from crag_dspy.commands.demo_systems import open_systems

    with open_systems(args.lm, args.grader, args.embedder, args.cache) as systems:
        failed = _measure(systems, questions, args) if measuring else _show(systems, questions)
    return SOME_FAILED if failed else OK


def chosen(
    split: str, lang: str | None, limit: int | None, ids: Sequence[str] | None
) -> list[dict[str, Any]]:
    """The sample questions of a split, a language, and where given of some ids; the first `limit` of each language."""
    from crag_dspy import sample

    rows = [row for row in sample.questions(split, lang) if ids is None or row["id"] in ids]
    if ids is not None:
        rows.sort(key=lambda row: ids.index(row["id"]))
    seen: Counter[str] = Counter()
    taken = []
    for row in rows:
        seen[row["lang"]] += 1
        if limit is None or seen[row["lang"]] <= limit:
            taken.append(row)
    return taken


def _show(systems: Systems, questions: Sequence[dict[str, Any]]) -> int:
    """Each question as it is answered; returns how many failed."""
    from crag_dspy.commands.demo_scores import verdicts

    actions: Counter[str] = Counter()
    right = abstained = failed = 0
    for asked in questions:
        prediction = systems.crag(question=asked["question"])
        show(prediction.trace.tree())
        expected = " / ".join(asked["answers"]) or "(nothing in the sample data answers this)"
        answer(f"    expected: {expected}\n")
        actions[prediction.action.value] += 1
        said = verdicts(prediction, asked)
        abstained += said["abstained"]
        right += said["right"]
        failed += prediction.failed is not None
    counts = ", ".join(f"{count} {action}" for action, count in sorted(actions.items()))
    answer(
        f"{len(questions)} chosen questions: {counts}; {abstained} without an answer; {right} right. "
        f"Grader {systems.grader}, language model {systems.lm}.\n"
        "`crag-dspy demo --json` measures the whole test split."
    )
    return failed


def _measure(systems: Systems, questions: Sequence[dict[str, Any]], args: argparse.Namespace) -> int:
    """The whole split, and its summary; returns how many questions failed."""
    from tqdm import tqdm

    from crag_dspy.commands.demo_scores import measure, summary

    rows = []
    for asked in tqdm(questions, desc="asking", unit="question", file=sys.stderr):
        rows.append(measure(systems, asked))
        if args.json:
            answer_json(rows[-1])
    by_language = {lang: [row for row in rows if row["lang"] == lang] for lang in LANGUAGES}
    whole = {
        **summary(rows),
        "by_language": {lang: summary(some) for lang, some in by_language.items() if some},
        "split": args.split or "test",
        "lm": systems.lm,
        "grader": systems.grader,
        "context_unit": systems.unit,
        "rag_passages": systems.rag.k,
        "settings": systems.crag.settings.to_json(),
    }
    if args.json:
        answer_json({"summary": whole})
    else:
        _print_table(whole)
    return int(whole["failed"])


def _print_table(whole: dict[str, Any]) -> None:
    columns = {"all": whole, **whole["by_language"]}
    named = whole["by_language"][next(iter(whole["by_language"]))]
    rows = [
        [name.replace("_", " "), *(_shown(column[name]) for column in columns.values())]
        for name, value in whole.items()
        if isinstance(value, int | float) and name in named
    ]
    title = f"{whole['split']} questions; {whole['lm']}; grader {whole['grader']}"
    show_table(("", *columns), rows, title)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
