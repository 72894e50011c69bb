"""Train a grader from any T5 (`crag-dspy grader train`), into the folder of a run.

RUN/grader/         the artefact: an adapter after LoRA, whole weights after full fine-tuning
RUN/config.json     the exact recipe, digests of the pairs, versions
RUN/metrics.json    development AUC before and after, steps, seconds, why it ended
RUN/curves.jsonl    loss, learning rate and AUC by step
RUN/dev.jsonl       the development pairs with the final model's raw logits
RUN/checkpoints/    to go on from
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.labels import pairs_digest, soft_labels, verdicts
from crag_dspy.state.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_dspy.evaluator_train.pairs.pair_files import Pair
    from crag_dspy.evaluator_train.training.recipe import Recipe

logger = logging.getLogger(__name__)

METRICS = "metrics.json"  # written last


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
    train: Sequence[Pair],
    dev: Sequence[Pair],
    recipe: Recipe,
    run: Path | str,
    *,
    fresh: bool = False,
    progress: bool = False,
) -> TrainingResult:
    """Train, keep the model with the best development AUC, and save it with all that made it.

    Args:
        train: labels in [0, 1]. Texts longer than one input are trained on their first window.
        dev: of other questions and documents than `train`; soft labels count as relevant from 0.5 on.
        recipe: see `recipe.py`.
        run: the run folder. One that has the same run (same recipe, same pairs) goes on from its last whole checkpoint.
        fresh: throw away what the folder has.
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

    folder = Path(run)
    labels = verdicts(dev, "development pairs", rounded=True)
    if not train:
        raise ConfigError("there are no training pairs")
    soft_labels(train, "training pairs")
    config = _described(recipe, train, dev)
    checkpoint = _claim(folder, config, fresh)
    if not fresh and (finished := _finished(folder)) is not None:
        return finished

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
        folder,
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
        grader=folder / "grader",
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
        learner.save_trained(prepared, folder / "grader", whole, base.tokenizer)
        rows = [
            {"question": each.question, "text": each.text, "label": each.label, "raw": raw}
            for each, raw in zip(dev, raws, strict=True)
        ]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_whole(folder / "dev.jsonl", lines)
        _write(folder / METRICS, metrics)
    return result


def _described(recipe: Recipe, train: Sequence[Pair], dev: Sequence[Pair]) -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "recipe": recipe.model_dump(mode="json"),
        "pairs": {
            "train": pairs_digest(train),
            "dev": pairs_digest(dev),
            "train_count": len(train),
            "dev_count": len(dev),
        },
        "versions": {name: version(name) for name in ("torch", "transformers", "peft")},
    }


def _claim(run: Path, config: dict[str, Any], fresh: bool) -> Path | None:
    """Make the run folder this run's; the checkpoint to go on from, if any."""
    from crag_dspy.evaluator_train.training.fitting import last_whole_checkpoint

    file = run / "config.json"
    if rank() > 0:  # of many processes the first one claims
        return None if fresh else last_whole_checkpoint(run / "checkpoints")
    if file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))
        if "recipe" not in before or "pairs" not in before:
            raise ConfigError(f"run: {run.name} holds a run of another kind: name another folder")
        if fresh:
            _empty(run)
            _write(file, config)
            return None
        for part in ("recipe", "pairs"):
            if before.get(part) != config[part]:
                raise ConfigError(
                    f"run: {run.name} holds a run with another {part}: {_difference(before, config, part)}; "
                    "name another folder, or begin afresh (fresh=True, --fresh)"
                )
        found: Path | None = last_whole_checkpoint(run / "checkpoints")
        return found
    run.mkdir(parents=True, exist_ok=True)
    _write(file, config)
    return None


def _finished(run: Path) -> TrainingResult | None:
    """What a run that went to its end said: the trainer would add a step to it."""
    file = run / METRICS
    if not file.is_file() or not (run / "grader").is_dir():
        return None
    return TrainingResult(grader=run / "grader", **json.loads(file.read_text(encoding="utf-8")))


def _empty(run: Path) -> None:
    """Remove what a training writes, and nothing else."""
    for name in ("grader", "checkpoints"):
        shutil.rmtree(run / name, ignore_errors=True)
    for name in (METRICS, "curves.jsonl", "dev.jsonl"):
        (run / name).unlink(missing_ok=True)


def rank() -> int:
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
