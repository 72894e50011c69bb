"""`crag-dspy thresholds`: the best thresholds on your questions, exactly.

    crag-dspy thresholds                                    # the sample's dev questions
    crag-dspy thresholds dev.jsonl --config crag.toml --price-search 0.05 --out crag.json

Every question is run at most three times, whatever number of thresholds is tried. The runs are kept in a
folder: the same command goes on where it stopped, and another price or policy takes no further run.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from crag_dspy.commands.options import (
    add_metric_arguments,
    add_program_arguments,
    add_question_arguments,
    check_target,
    opened_program,
    program_alone,
    read_metric,
    read_questions,
    recorded,
    stop_after,
    stop_argument,
)
from crag_dspy.commands.output import kept_in, note, show_table, tell
from crag_dspy.commands.paying import add_paying_arguments, paying
from crag_dspy.commands.side_by_side import no_lm_argument
from crag_dspy.commands.status import OK, SOME_FAILED
from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_dspy.optimize.thresholds.frontier import FrontierPoint

EXAMPLE = "crag-dspy thresholds dev.jsonl --config crag.toml --price-search 0.05 --out crag.json"
RUN = "runs/thresholds"
_SHOWN = 12  # points of the frontier


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_question_arguments(parser, split="dev", by=True)
    add_program_arguments(parser)
    add_metric_arguments(parser)
    add_paying_arguments(parser)
    group = parser.add_argument_group("search")
    group.add_argument("--policy", choices=("max", "vote"), help="default: the program's")
    group.add_argument("--folds", type=int, default=5, metavar="N", help="of the cross-validated estimate")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of folds and tests")
    group.add_argument(
        "--grid",
        action="append",
        metavar="SETTING=A,B",
        help="twice: a grid over two settings instead, such as --grid top_n=2,5 --grid strip_threshold=-0.5,0",
    )
    group.add_argument("--run", default=RUN, metavar="FOLDER", help="keeps the runs; the same again goes on")
    group.add_argument("--fresh", action="store_true", help="throw away what the folder has")
    stop_argument(group)
    no_lm_argument(group)
    group.add_argument(
        "--out", metavar="FILE", help="write the program with its new settings to this file too"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(args: argparse.Namespace) -> int:
    """Search; returns 0, and 1 when some runs failed and count as failures."""
    check_target(args.out)
    axes = _axes(args.grid)
    examples = read_questions(args)
    metric = read_metric(args)
    if args.folds < 2:
        raise ConfigError(f"--folds must be at least 2, got {args.folds}")

    from crag_dspy.optimize.report.page import write_report
    from crag_dspy.optimize.thresholds.search import search_thresholds
    from crag_dspy.optimize.thresholds.settings_grid import grid

    common: dict[str, Any] = {
        "run": args.run,
        "threads": args.threads,
        "fresh": args.fresh,
        "stop_after": stop_after(args),
        "folds": args.folds,
        "seed": args.seed,
        "by": args.by,
    }
    with opened_program(args) as program, paying(args):
        if axes:
            gridded = grid(program, examples, metric, axes, **common)
            tell(args, gridded)
            best, failures = gridded.program, gridded.failures
        else:
            found = search_thresholds(
                program,
                examples,
                metric,
                policy=args.policy,
                config=recorded(args),
                **common,
            )
            tell(args, found)
            if not args.json:
                _show_frontier(found.frontier, found.best.n, found.metric)
            best, failures = found.program, found.failures
            write_report(args.run)
        if args.out:
            (_whole(args, best) if args.no_lm else best).save(args.out)
    kept_in(args.run, None if axes else "report.html")
    if args.out:
        note(f"Program saved to {args.out}.")
    return SOME_FAILED if failures else OK


def _whole(args: argparse.Namespace, found: Any) -> Any:
    """The program with its language model, with the settings that were found without it."""
    from crag_dspy.optimize.thresholds.search import settings_of

    whole = program_alone(args)
    own = settings_of(whole)
    own.update({**{name: getattr(settings_of(found), name) for name in own.RULES}, "rewrite": own.rewrite})
    return whole


def _axes(given: Sequence[str] | None) -> dict[str, list[Any]]:
    """Settings and values; a value is a number where it reads as one."""
    if not given:
        return {}
    axes: dict[str, list[Any]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise ConfigError(f"--grid must be like top_n=2,5, got {text!r}")
        axes[name.strip().replace("-", "_")] = [_value(value.strip()) for value in values.split(",")]
    if len(axes) != 2:
        raise ConfigError(f"--grid is given twice, for two settings; got {', '.join(axes)}")
    return axes


def _value(text: str) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _show_frontier(points: Sequence[FrontierPoint], questions: int, metric: str) -> None:
    """The frontier; of many points the corners of its hull, evenly spaced."""
    shown = list(points)
    if len(shown) > _SHOWN:
        shown = [point for point in points if point.on_hull]
        step = max(1, -(-len(shown) // _SHOWN))
        shown = [*shown[::step], *([shown[-1]] if (len(shown) - 1) % step else [])]
    rows = [
        (
            f"{point.searches} ({point.searches / questions:.0%})",
            *(f"{value:.3f}" for value in (point.value, point.upper, point.lower)),
        )
        for point in shown
    ]
    title = f"{metric} bought by web searches (best for each number of them)"
    show_table(("searches", "value", "upper", "lower"), rows, title)
