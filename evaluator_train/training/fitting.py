"""The Hugging Face Trainer, told what this library needs of it. Imports torch and transformers.

What differs from the plain Trainer: the development AUC is computed by the same batching and windows as
`T5Grader.score`; a loss that is not finite ends the run at its step; checkpoints hold the trained parameters
only and are marked once whole, so that a run killed in the middle of writing one resumes from the one before;
batches are grouped by length in an order that depends on seed and epoch alone, so that a resumed run sees the
same ones.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from crag_dspy.errors import TrainingError
from crag_dspy.evaluator_train.measuring.ranking import auc
from crag_dspy.evaluator_train.pairs.labels import soft_labels
from crag_dspy.evaluator_train.training.learner import Learner, parameter_groups
from crag_dspy.graders.artefact import save_tensors
from crag_dspy.graders.batches import collate, raw_scores
from crag_dspy.state.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crag_dspy.evaluator_train.pairs.pair_files import Pair
    from crag_dspy.evaluator_train.training.recipe import TrainingSection
    from crag_dspy.graders.prompt_format import EncodedPair, PairEncoder

WHOLE = "whole"  # file that marks a checkpoint as completely written
TRAINED = "trained.safetensors"


@dataclass(frozen=True, slots=True)
class DevSet:
    """Development pairs and how to score them; `labels` are 0 or 1."""

    pairs: list[tuple[str, str]]
    labels: list[int]
    encoder: PairEncoder
    batch_tokens: int

    def raws(self, learner: Learner) -> list[float | None]:
        """The raw logits, None for a pair that cannot be judged; TrainingError where the model gives NaN."""
        learner.eval()
        device = str(next(learner.parameters()).device)
        scorer: Any = learner.scorer
        raws = raw_scores(scorer, self.encoder, self.pairs, self.batch_tokens, device).raws
        if any(raw is not None and math.isnan(raw) for raw in raws):
            raise TrainingError("the model gave NaN on the development pairs: lower training.learning_rate")
        return raws

    def auc(self, raws: Sequence[float | None]) -> float:
        """AUC of raw logits; a pair that cannot be judged counts as irrelevant."""
        lowest = min((raw for raw in raws if raw is not None), default=0.0) - 1
        return float(auc(self.labels, [lowest if raw is None else raw for raw in raws]))


class ByLength(torch.utils.data.Sampler[int]):
    """All indices, batches of near lengths in random order; the order depends on seed and epoch alone."""

    def __init__(self, lengths: Sequence[int], batch: int, seed: int) -> None:
        self._lengths, self._batch, self._seed, self._epoch = lengths, batch, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        random = torch.Generator().manual_seed(self._seed * 1_000_003 + self._epoch)
        order = torch.randperm(len(self._lengths), generator=random).tolist()
        pool = self._batch * 50  # wide enough for near lengths, small enough to keep the order random
        by_length = [
            index
            for start in range(0, len(order), pool)
            for index in sorted(order[start : start + pool], key=lambda i: self._lengths[i])
        ]
        groups = [by_length[start : start + self._batch] for start in range(0, len(order), self._batch)]
        last = [groups.pop()] if len(groups[-1]) < self._batch else []
        shuffled = [groups[i] for i in torch.randperm(len(groups), generator=random).tolist()]
        return iter([index for group in shuffled + last for index in group])


class Examples(torch.utils.data.Dataset[tuple[Any, float]]):
    """Encoded training pairs with their labels."""

    def __init__(self, inputs: Sequence[EncodedPair], labels: Sequence[float]) -> None:
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[EncodedPair, float]:
        return self.inputs[index], self.labels[index]


def encode(pairs: Sequence[Pair], encoder: PairEncoder) -> tuple[Examples, int, int]:
    """Training examples, how many were left out (no tokens), and how many were cut to their first window.

    A label says that a text holds the answer, not where, so only one window of it can be trained on.
    """
    questions, texts = (
        list(dict.fromkeys(pair.question for pair in pairs)),
        list(dict.fromkeys(pair.text for pair in pairs)),
    )
    asked = dict(zip(questions, encoder.pieces(questions), strict=True))
    pieces = dict(zip(texts, encoder.pieces(texts), strict=True))
    inputs, labels, cut = [], [], 0
    for pair, label in zip(pairs, soft_labels(pairs, "training pairs"), strict=True):
        question, text = asked[pair.question], pieces[pair.text]
        if question.ids and text.ids:
            windows = encoder.inputs(question, text)
            cut += len(windows) > 1
            inputs.append(windows[0])
            labels.append(label)
    return Examples(inputs, labels), len(pairs) - len(inputs), cut


class GraderTrainer(Trainer):
    """See the module's docstring. Private methods of Trainer are overridden where it has no public hook."""

    def __init__(self, *, learner: Learner, dev: DevSet, settings: TrainingSection, **options: Any) -> None:
        super().__init__(model=learner, data_collator=_collated, **options)
        self._learner, self._dev, self._settings = learner, dev, settings

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        if self.optimizer is None:
            self.optimizer = torch.optim.AdamW(parameter_groups(self._learner, self._settings))
        return self.optimizer

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        result = super().compute_loss(*args, **kwargs)
        loss = result[0] if isinstance(result, tuple) else result
        if not bool(torch.isfinite(loss).all()):
            raise TrainingError(
                f"the loss is {loss.detach().mean().item()} at step {self.state.global_step + 1}: lower "
                "training.learning_rate, or set training.precision=fp32. The last checkpoint is from before"
            )
        return result

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        metrics = {"eval_auc": self._dev.auc(self._dev.raws(self._learner))}
        self._learner.train()
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _get_train_sampler(self, train_dataset: Any = None) -> torch.utils.data.Sampler[int]:
        dataset: Any = train_dataset or self.train_dataset
        lengths = [len(each.ids) for each in dataset.inputs]
        return ByLength(lengths, self.args.train_batch_size, self.args.seed)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        save_tensors(self._learner.trained_state(), folder / TRAINED)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()  # each process writes its own random state
        if self.is_world_process_zero():
            (self._folder(self.state.global_step) / WHOLE).touch()

    def _folder(self, step: int) -> Path:
        return Path(str(self.args.output_dir)) / f"checkpoint-{step}"

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        from safetensors.torch import load_file

        self._learner.load_trained_state(load_file(Path(resume_from_checkpoint) / TRAINED))

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(str(self._folder(int(self.state.best_global_step or 0))))


def _collated(examples: Sequence[tuple[EncodedPair, float]]) -> dict[str, torch.Tensor]:
    labels = torch.tensor([label for _, label in examples], dtype=torch.float32)
    return {**collate([encoded for encoded, _ in examples]), "labels": labels}


def last_whole_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that was completely written, or None."""
    whole = [path for path in folder.glob("checkpoint-*") if (path / WHOLE).is_file()]
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


class CurveLog(TrainerCallback):
    """Writes what is logged as JSON lines, one a log, and shows a progress bar on stderr."""

    def __init__(self, file: Path, progress: bool) -> None:
        self._file, self._progress, self._bar = file, progress, None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._progress and state.is_world_process_zero:
            from tqdm import tqdm

            self._bar = tqdm(total=state.max_steps, initial=state.global_step, unit="step", desc="training")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if self._bar is not None and logs:
            shown = {name: f"{logs[name]:.4g}" for name in ("loss", "eval_auc") if name in logs}
            self._bar.set_postfix(shown, refresh=False)
        if state.is_world_process_zero:  # rewritten whole: after a resume it holds no step twice
            lines = [json.dumps(entry) for entry in state.log_history]
            write_whole(self._file, "\n".join(lines) + "\n")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._bar is not None:
            self._bar.close()


class EvaluateAtEnd(TrainerCallback):
    """Measures (and saves) the last step too, so that what was learnt after the last evaluation counts."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step >= state.max_steps:
            control.should_evaluate = control.should_save = control.should_log = True


def make_trainer(
    learner: Learner,
    examples: Examples,
    dev: DevSet,
    settings: TrainingSection,
    run: Path,
    precision: str,
    progress: bool,
) -> GraderTrainer:
    """A trainer whose checkpoints, curves and best model live under `run`."""
    arguments = TrainingArguments(
        output_dir=str(run / "checkpoints"),
        num_train_epochs=settings.epochs,
        max_steps=settings.max_steps if settings.max_steps > 0 else -1,
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.learning_rate,
        warmup_steps=settings.warmup,
        weight_decay=settings.weight_decay,
        bf16=precision == "bf16",
        eval_strategy="steps",
        eval_steps=settings.evaluate_every,
        save_strategy="steps",
        save_steps=settings.evaluate_every,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="auc",
        greater_is_better=True,
        logging_steps=max(1, settings.evaluate_every // 10),
        logging_nan_inf_filter=False,
        seed=settings.seed,
        data_seed=settings.seed,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = GraderTrainer(
        learner=learner,
        dev=dev,
        settings=settings,
        args=arguments,
        train_dataset=examples,
        eval_dataset=examples,  # never read: `evaluate` scores `dev`
        callbacks=[
            EvaluateAtEnd(),
            EarlyStoppingCallback(settings.patience),
            CurveLog(run / "curves.jsonl", progress),
        ],
    )
    for unwanted in (PrinterCallback, ProgressCallback):  # they print to stdout, which is for answers
        trainer.remove_callback(unwanted)
    return trainer
