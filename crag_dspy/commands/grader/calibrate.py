"""`crag-dspy grader calibrate`: make a grader's scores probabilities, and suggest thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.commands.output import answer, answer_json
from crag_dspy.commands.parsing import Files, json_argument

if TYPE_CHECKING:
    import argparse

EXAMPLE = "crag-dspy grader calibrate runs/grader/grader --pairs pairs/dev.jsonl"
METHODS = ("platt", "temperature")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("grader", metavar="GRADER", help="folder of the grader; its grader.json is changed")
    parser.add_argument(
        "--pairs", required=True, action=Files, metavar="A,B", help="files of development pairs"
    )
    parser.add_argument(
        "--method", choices=METHODS, default="platt", help="platt also shifts, temperature only scales"
    )
    parser.add_argument(
        "--prior", type=float, metavar="SHARE", help="share of relevant texts where it will be used"
    )
    parser.add_argument(
        "--sure",
        type=float,
        default=0.9,
        metavar="SHARE",
        help="relevant of the texts above the upper threshold",
    )
    parser.add_argument(
        "--missed",
        type=float,
        default=0.05,
        metavar="SHARE",
        help="of the relevant texts that may lie below the lower one",
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Calibrate; returns 0."""
    from crag_dspy.evaluator_train.measuring.calibration import calibrate_artefact
    from crag_dspy.evaluator_train.pairs.pair_files import read_pairs

    report = calibrate_artefact(
        args.grader,
        [pair for path in args.pairs for pair in read_pairs(path)],
        method=args.method,
        prior=args.prior,
        precision=args.sure,
        missed=args.missed,
        write=not args.dry_run,
    )
    if args.json:
        answer_json(report.to_json())
        return 0
    cuts = report.cuts
    answer(
        f"a = {report.a:.4g}, b = {report.b:.4g} on {report.pairs} pairs ({report.relevant} relevant)\n"
        f"calibration error {report.error_before:.3f} -> {report.error_after:.3f}, "
        f"log loss {report.log_loss_before:.3f} -> {report.log_loss_after:.3f} (five folds)\n"
        f"upper {cuts.upper:.3f}: {cuts.precision:.0%} of {cuts.trusted:.0%} of the texts are relevant\n"
        f"lower {cuts.lower:.3f}: {cuts.missed:.1%} of the relevant texts lie below, "
        f"with {cuts.dropped:.0%} of all"
    )
    return 0
