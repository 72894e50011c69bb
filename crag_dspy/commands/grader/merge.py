"""`crag-dspy grader merge`: fold a LoRA adapter into its base, for a folder that needs no other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crag_dspy.commands.output import answer, answer_json
from crag_dspy.commands.parsing import Listed, json_argument

if TYPE_CHECKING:
    import argparse

EXAMPLE = "crag-dspy grader merge runs/grader/grader --storage int8 --out my-grader"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("grader", metavar="GRADER", help="an adapter or grader folder, or a hub id")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="a new folder")
    parser.add_argument(
        "--storage", choices=("fp32", "bf16", "int8"), default="fp32", help="int8 is a quarter of the size"
    )
    parser.add_argument("--keep-adapter", action="store_true", help="store it beside the base, not merged")
    parser.add_argument("--name", help="of the grader; default: the name it has")
    parser.add_argument("--window", type=int, metavar="N", help="tokens of a text that are judged at once")
    parser.add_argument("--overlap", type=int, metavar="N", help="tokens that two windows share")
    parser.add_argument(
        "--trained-on", action=Listed, metavar="A,B", help="what grader.json says of the data"
    )
    json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Write the folder; returns 0."""
    from crag_dspy.evaluator_train.training.merge import merge

    given = {field: getattr(args, field) for field in ("window", "overlap", "trained_on")}
    spec = merge(
        args.grader,
        args.out,
        storage=args.storage,
        name=args.name,
        keep_adapter=args.keep_adapter,
        **{field: value for field, value in given.items() if value is not None},
    )
    size = sum(path.stat().st_size for path in Path(args.out).rglob("*") if path.is_file())
    if args.json:
        answer_json(
            {"grader": str(args.out), "name": spec.name, "fingerprint": spec.fingerprint, "bytes": size}
        )
    else:
        answer(f"{args.out}: {spec.name}, {size / 1e6:.1f} MB, fingerprint {spec.fingerprint}")
    return 0
