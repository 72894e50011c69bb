"""Train a grader from any T5: `crag-dspy train-grader --recipe t5-large --pairs train.jsonl --out RUN`.

    RUN/grader/         the artefact: an adapter after LoRA, whole weights after full fine-tuning
    RUN/config.json     the exact recipe, digests of the pairs, versions
    RUN/metrics.json    development AUC before and after, steps, seconds, why it ended
    RUN/curves.jsonl    loss, learning rate and AUC by step
    RUN/dev.jsonl       the development pairs with the final model's raw logits
    RUN/checkpoints/    for --resume

On many GPUs: `torchrun --nproc-per-node 8 -m crag_dspy.commands.cli train-grader ...`, or `accelerate launch`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.training.recipe import Recipe, read_recipe, recipe_names
from crag_dspy.evaluator_train.training.targets import (
    Target,
    hard_labels,
    read_targets,
    split_by_question,
    targets_digest,
)
from crag_dspy.state.files import write_whole

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """Where the grader is and how it went. AUCs are of development pairs; `before` is the untrained one."""

    grader: Path
    auc_before: float
    auc: float
    best_step: int
    steps: int
    seconds: float
    stopped_early: bool
    trained_parameters: int
    parameters: int


def train_grader(
    train: Sequence[Target],
    dev: Sequence[Target],
    recipe: Recipe,
    out: Path | str,
    *,
    resume: bool = False,
    progress: bool = False,
) -> TrainingResult:
    """Train, keep the model with the best development AUC, and save it with all that made it.

    Args:
        train: labels in [0, 1]. Texts longer than one input are trained on their first window.
        dev: of other questions and documents than `train`; soft labels count as relevant from 0.5 on.
        recipe: see `recipe.py`.
        out: the run folder.
        resume: go on from the last whole checkpoint of the same run (same recipe, same pairs), or start.
        progress: a bar on stderr.

    Raises:
        ConfigError: a setting, the pairs, or a run folder that holds another run.
        TrainingError: the loss became NaN or infinite; names the step.
    """
    import torch
    from transformers import set_seed

    from crag_dspy.evaluator_train.training import fitting, learner
    from crag_dspy.graders.loading import open_base, weights_digest
    from crag_dspy.graders.precision import native
    from crag_dspy.graders.prompt_format import PairEncoder, prompt_format

    run = Path(out)
    labels = hard_labels(dev)
    if not train:
        raise ConfigError("there are no training pairs")
    config = _described(recipe, train, dev)
    checkpoint = _claim(run, config, resume)

    set_seed(recipe.training.seed)
    spec, settings = recipe.grader.spec(), recipe.training
    sizes = {name: getattr(recipe.grader, name) for name in ("hidden", "projected", "late")}
    base = open_base(recipe.grader.base, spec, **sizes)
    prepared = learner.prepare(base.scorer, spec.head, recipe.lora, settings)
    encoder = PairEncoder(
        base.tokenizer, prompt_format(spec.prompt_format), spec.max_length, spec.window, spec.overlap
    )
    examples, left_out, cut = fitting.encode(train, encoder)
    longest = f"window={spec.window}" if spec.window else f"max_length={spec.max_length}"
    _warn(left_out, cut, len(train), longest)
    learner.start_late(base.scorer, examples.inputs)
    pairs = [(each.question, each.text) for each in dev]
    devset = fitting.DevSet(pairs, labels, encoder, settings.evaluate_batch_tokens)
    precision = native("cuda" if torch.cuda.is_available() else "cpu")
    trainer = fitting.make_trainer(
        prepared.learner,
        examples,
        devset,
        settings,
        run,
        precision if settings.precision == "auto" else settings.precision,
        progress,
    )
    # The first weights: `train` loads the checkpoint only after this.
    before = devset.auc(devset.raws(prepared.learner))
    started = time.monotonic()
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    raws = devset.raws(prepared.learner)  # of the best weights, which the trainer has put back
    best = devset.auc(raws)
    trained, total = learner.count(prepared.learner)
    result = TrainingResult(
        grader=run / "grader",
        auc_before=before,
        auc=best,
        best_step=int(trainer.state.best_global_step or trainer.state.global_step),
        steps=trainer.state.global_step,
        seconds=time.monotonic() - started,
        stopped_early=trainer.state.global_step < trainer.state.max_steps,
        trained_parameters=trained,
        parameters=total,
    )
    if trainer.is_world_process_zero():
        metrics = {name: value for name, value in asdict(result).items() if name != "grader"}
        whole = spec.model_copy(
            update={
                "base": str(recipe.grader.base) if prepared.peft is not None else "",
                "base_digest": weights_digest(base.folder) if prepared.peft is not None else "",
                "trained_on": (f"{len(train)} pairs, digest {config['pairs']['train']}",),
                "metrics": {"dev_auc": best, "dev_auc_before": before, "dev_pairs": len(dev)},
                "made_with": {"recipe": recipe.model_dump(mode="json"), "versions": config["versions"]},
            }
        )
        learner.save_trained(prepared, run / "grader", whole, base.tokenizer)
        _write(run / "metrics.json", metrics)
        rows = [{**asdict(each), "raw": raw} for each, raw in zip(dev, raws, strict=True)]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_whole(run / "dev.jsonl", lines)
    return result


def _described(recipe: Recipe, train: Sequence[Target], dev: Sequence[Target]) -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "recipe": recipe.model_dump(mode="json"),
        "pairs": {
            "train": targets_digest(train),
            "dev": targets_digest(dev),
            "train_count": len(train),
            "dev_count": len(dev),
        },
        "versions": {name: version(name) for name in ("torch", "transformers", "peft")},
    }


def _claim(run: Path, config: dict[str, Any], resume: bool) -> Path | None:
    """Make the run folder this run's; the checkpoint to go on from, if any."""
    from crag_dspy.evaluator_train.training.fitting import last_whole_checkpoint

    file = run / "config.json"
    if _rank() > 0:  # of many processes the first one claims
        return last_whole_checkpoint(run / "checkpoints") if resume else None
    if file.is_file():
        if not resume:
            raise ConfigError(f"out: {run.name} already holds a run: resume it, or name another folder")
        before = json.loads(file.read_text(encoding="utf-8"))
        for part in ("recipe", "pairs"):
            if before.get(part) != config[part]:
                raise ConfigError(
                    f"out: {run.name} holds a run with another {part}: {_difference(before, config, part)}"
                )
        found: Path | None = last_whole_checkpoint(run / "checkpoints")
        return found
    run.mkdir(parents=True, exist_ok=True)
    _write(file, config)
    return None


def _rank() -> int:
    """Number of this process among those that torchrun or accelerate started; 0 when it is alone."""
    return int(os.environ.get("RANK", "0"))


def _difference(before: dict[str, Any], now: dict[str, Any], part: str) -> str:
    flat = [
        {
            f"{section}.{key}" if isinstance(values, dict) else section: value
            for section, values in config.get(part, {}).items()
            for key, value in (values.items() if isinstance(values, dict) else [("", values)])
        }
        for config in (before, now)
    ]
    changed = sorted(
        name for name in flat[0].keys() | flat[1].keys() if flat[0].get(name) != flat[1].get(name)
    )
    return f"{changed[0]} was {flat[0].get(changed[0])!r} and is {flat[1].get(changed[0])!r}"


def _warn(left_out: int, cut: int, total: int, limit: str) -> None:
    if left_out == total:
        raise ConfigError("none of the training pairs has a token that this tokenizer knows")
    if left_out:
        logger.warning(
            "%d of %d training pairs have no token that this tokenizer knows: left out", left_out, total
        )
    if cut:
        logger.warning(
            "%d of %d training texts are longer than %s and are trained on their first window",
            cut,
            total,
            limit,
        )


def _write(path: Path, plain: Any) -> None:
    write_whole(path, json.dumps(plain, indent=2, ensure_ascii=False) + "\n")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipe", required=True, help=f"{', '.join(recipe_names())}, or a TOML file")
    parser.add_argument("--pairs", required=True, nargs="+", metavar="FILE", help="training pairs")
    parser.add_argument(
        "--dev", nargs="+", metavar="FILE", help="development pairs; default: a tenth of --pairs"
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the run folder")
    parser.add_argument("--base", help="another base than the recipe's: a folder or a hub id")
    parser.add_argument("--head", choices=("true_false", "regression", "segments"))
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", dest="changes")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --out")
    parser.add_argument("--json", action="store_true", help="one JSON line on stdout")


def run(args: argparse.Namespace) -> int:
    changes = [f"grader.{name}={value}" for name in ("base", "head") if (value := getattr(args, name))]
    if args.head:
        changes.append('grader.prompt_format=""')  # the recipe's is for the recipe's head
    recipe = read_recipe(args.recipe, [*changes, *args.changes])
    train = [target for path in args.pairs for target in read_targets(path)]
    if args.dev:
        dev = [target for path in args.dev for target in read_targets(path)]
    else:
        train, dev = split_by_question(train, 0.1)
        logger.warning(
            "no --dev: %d pairs, a tenth of the questions, are kept apart for development", len(dev)
        )
    result = train_grader(train, dev, recipe, args.out, resume=args.resume, progress=sys.stderr.isatty())
    if _rank() > 0:
        return 0
    if args.json:
        sys.stdout.write(json.dumps({**asdict(result), "grader": str(result.grader)}) + "\n")
        return 0
    from rich.console import Console

    Console().print(
        f"{result.grader}: development AUC {result.auc_before:.3f} -> {result.auc:.3f} "
        f"(step {result.best_step} of {result.steps}, {result.seconds:.0f} s, "
        f"{result.trained_parameters:,} of {result.parameters:,} parameters trained)",
        highlight=False,
    )
    return 0
