"""Fold an adapter into its base: `crag-dspy merge-grader RUN/grader --out FOLDER` makes a portable grader."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from crag_dspy.graders.artefact import GraderSpec, Storage


def merge(
    source: Path | str, out: Path | str, *, storage: Storage = "fp32", name: str | None = None
) -> GraderSpec:
    """Write the grader at `source` (its adapter merged) as whole weights.

    Args:
        source: what `T5Grader.from_pretrained` opens: an adapter, a grader folder, a checkpoint, a hub id.
        out: a new folder.
        storage: "fp32", "bf16", or "int8" (a quarter of the size, full precision again once loaded).
        name: the grader's name; None keeps it.
    """
    from crag_dspy.graders.artefact import SPEC_FILE, save_artefact
    from crag_dspy.graders.loading import open_grader

    target = Path(out)
    if (target / SPEC_FILE).exists():
        raise ConfigError(f"out: {target.name} already holds a grader: name another folder")
    opened = open_grader(source)
    spec = opened.spec.model_copy(update={"base": "", "base_digest": "", **({"name": name} if name else {})})
    head = opened.scorer.head.state_dict() if spec.head == "segments" else None
    return save_artefact(
        target, spec, tokenizer=opened.tokenizer, model=opened.scorer.backbone, head=head, storage=storage
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("grader", help="an adapter or grader folder, or a hub id")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--storage", choices=("fp32", "bf16", "int8"), default="fp32")
    parser.add_argument("--name", help="default: the name it has")
    parser.add_argument("--json", action="store_true", help="one JSON line on stdout")


def run(args: argparse.Namespace) -> int:
    spec = merge(args.grader, args.out, storage=args.storage, name=args.name)
    size = sum(path.stat().st_size for path in Path(args.out).iterdir())
    if args.json:
        line = {"grader": str(args.out), "name": spec.name, "fingerprint": spec.fingerprint, "bytes": size}
        sys.stdout.write(json.dumps(line) + "\n")
    else:
        sys.stdout.write(f"{args.out}: {spec.name}, {size / 1e6:.1f} MB, fingerprint {spec.fingerprint}\n")
    return 0
