"""`crag-dspy paper-data`: what can be checked of the paper's own data, which has no gold answers.

crag-dspy paper-data --folder crag-paper                 # every file: its rows, its size, what is wrong with it
crag-dspy paper-data --folder crag-paper --limit 100     # and our refinement of Biography's passages beside the paper's
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder",
        metavar="FOLDER",
        help="of popqa, pubhealth, arc_challenge, biography; default: crag-paper in $CRAG_DATASETS",
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=LIMIT,
        metavar="N",
        help=f"the first N Biography questions are refined; 0 for none (default: {LIMIT})",
    )
    parser.add_argument(
        "--grader", default="mini", metavar="NAME", help="a shipped grader or a folder (default: mini)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")


def run(args: argparse.Namespace) -> int:
    """Check and compare; returns 1 when a file was refused, else 0."""
    if args.limit < 0:
        raise ConfigError(f"--limit must be at least 0, got {args.limit}")
    from crag_dspy.files.paper import TASKS, paper_data, read_paper
    from crag_dspy.optimize.comparison.paper_refinement import refined_beside

    home = paper_data(args.folder)
    files = [_checked(task, kind, home) for task in TASKS if (home / task).is_dir() for kind in _kinds()]
    beside: dict[str, Any] | None = None
    if args.limit and (home / "biography").is_dir():
        rows = read_paper("biography", home, ["correct"])[: args.limit]
        sys.stderr.write(f"Refining the passages of {len(rows)} Biography questions with {args.grader}\n")
        beside = refined_beside(rows, args.grader).to_json()
    if args.json:
        sys.stdout.write(json.dumps({"files": files, "biography": beside}, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("\n".join([*_file_lines(files), *(_beside_lines(beside) if beside else [])]) + "\n")
    return int(any(file["refused"] for file in files))


def _kinds() -> Sequence[str]:
    from crag_dspy.files.paper import KINDS

    return KINDS


def _checked(task: str, kind: str, home: Any) -> dict[str, Any]:
    from crag_dspy.files.paper import read_paper
    from crag_dspy.text.matching import words

    said: dict[str, Any] = {
        "task": task,
        "file": f"ref_{kind}.txt",
        "rows": None,
        "words": None,
        "refused": None,
    }
    try:
        rows = read_paper(task, home, [kind])
    except ConfigError as error:
        return {**said, "refused": str(error)}
    sizes = [len(words(row.references[kind])) for row in rows]
    return {**said, "rows": len(rows), "words": round(sum(sizes) / len(sizes), 1)}


def _file_lines(files: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"{'task':<14} {'file':<18} {'questions':>9} {'words each':>10}"]
    for file in files:
        if file["refused"]:
            lines.append(f"{file['task']:<14} {file['file']:<18} refused: {file['refused']}")
        else:
            lines.append(f"{file['task']:<14} {file['file']:<18} {file['rows']:>9} {file['words']:>10.1f}")
    return lines


def _beside_lines(beside: dict[str, Any]) -> list[str]:
    lines = [
        "",
        f"Biography, {beside['questions']} questions: what is kept of their passages",
        f"{'':<20} {'words':>8} {'share kept':>10} {'name in it':>10} {'nothing kept':>12}",
        f"{'retrieved':<20} {beside['retrieved_words']:>8.0f} {'':>10} {beside['retrieved_named']:>10.1%} {'':>12}",
    ]
    for name, key in (("the paper's", "theirs"), ("ours", "ours")):
        kept = beside[key]
        cells = (
            f"{kept['words']:>8.0f} {kept['share']['mean']:>10.1%} {kept['named']:>10.1%} {kept['empty']:>12}"
        )
        lines.append(f"{name:<20} {cells}")
    overlap = beside["overlap"]
    return [
        *lines,
        f"overlap of the two (token F1): {overlap['mean']:.3f} [{overlap['low']:.3f}, {overlap['high']:.3f}]",
    ]
