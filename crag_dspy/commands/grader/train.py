"""`crag-dspy grader train`: a grader from any T5, with LoRA or all weights.

The same command goes on from the last checkpoint of its run; a finished one only says again how it went.

On many GPUs: `torchrun --nproc-per-node 8 -m crag_dspy grader train ...`, or `accelerate launch`.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from crag_dspy.commands.output import answer, answer_json
from crag_dspy.commands.parsing import Files, json_argument

if TYPE_CHECKING:
    import argparse

EXAMPLE = "crag-dspy grader train --recipe t5-large --pairs pairs/train.jsonl --dev pairs/dev.jsonl"
RUN = "runs/grader"
DEV_SHARE = 0.1

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from crag_dspy.evaluator_train.training.recipe import recipe_names

    parser.add_argument("--recipe", required=True, help=f"{', '.join(recipe_names())}, or a TOML file")
    parser.add_argument("--pairs", required=True, action=Files, metavar="A,B", help="files of training pairs")
    parser.add_argument(
        "--dev", action=Files, metavar="A,B", help="files of development pairs; default: a tenth of --pairs"
    )
    parser.add_argument("--base", help="another base than the recipe's: a folder or a hub id")
    parser.add_argument("--head", choices=("true_false", "regression", "segments"), help="another head")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="of the recipe, such as training.epochs=2; may be repeated",
    )
    parser.add_argument("--run", default=RUN, metavar="FOLDER", help="keeps the grader and how it was made")
    parser.add_argument("--fresh", action="store_true", help="throw away what the folder has")
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Train, or go on; returns 0."""
    from crag_dspy.evaluator_train.pairs.pair_files import read_pairs
    from crag_dspy.evaluator_train.pairs.splits import split_by_question
    from crag_dspy.evaluator_train.training.grader import rank, train_grader
    from crag_dspy.evaluator_train.training.recipe import read_recipe

    changes = [f"grader.{name}={value}" for name in ("base", "head") if (value := getattr(args, name))]
    if args.head:
        changes.append('grader.prompt_format=""')  # the recipe's is for the recipe's head
    recipe = read_recipe(args.recipe, [*changes, *args.set])
    train = [pair for path in args.pairs for pair in read_pairs(path, labels="soft")]
    if args.dev:
        dev = [pair for path in args.dev for pair in read_pairs(path, labels="soft")]
    else:
        train, dev = split_by_question(train, DEV_SHARE)
        logger.warning(
            "no --dev: %d pairs, a tenth of the questions, are kept apart for development", len(dev)
        )
    result = train_grader(train, dev, recipe, args.run, fresh=args.fresh, progress=sys.stderr.isatty())
    if rank() > 0:  # of many processes one tells
        return 0
    if args.json:
        answer_json({**asdict(result), "grader": str(result.grader)})
    else:
        answer(
            f"{result.grader}: development AUC {result.auc_before:.3f} -> {result.auc:.3f} "
            f"(step {result.best_step} of {result.steps}, {result.seconds:.0f} s, "
            f"{result.trained_parameters:,} of {result.parameters:,} parameters trained)"
        )
    return 0
