"""A grader as something that learns: its loss, its trainable parts, and how they are saved. Imports torch."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from crag_dspy.errors import ConfigError
from crag_dspy.graders.artefact import GraderSpec, save_artefact
from crag_dspy.graders.backbones import HEAD_MODULE
from crag_dspy.graders.batches import collate
from crag_dspy.graders.heads import Segments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from crag_dspy.evaluator_train.training.recipe import LoraSection, TrainingSection
    from crag_dspy.graders.prompt_format import EncodedPair

_TASKS = {"true_false": "SEQ_2_SEQ_LM", "regression": "SEQ_CLS", "segments": "FEATURE_EXTRACTION"}


class Learner(nn.Module):
    """A scorer with the loss of its head.

    `true_false` and `segments`: cross-entropy of sigmoid(raw) against the label in [0, 1]; for `true_false`
    that is the softmax over the two verdict words. `regression`: squared distance to 2 * label - 1, as the
    official CRAG evaluator was trained.
    """

    def __init__(self, scorer: nn.Module, head: str) -> None:
        super().__init__()
        self.scorer = scorer
        self.head = head

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, segments: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        raw = self.scorer(input_ids, attention_mask, segments)
        if self.head == "regression":
            loss = nn.functional.mse_loss(raw, 2 * labels - 1)
        else:
            loss = nn.functional.binary_cross_entropy_with_logits(raw, labels)
        return {"loss": loss, "logits": raw}

    def trained_state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the parameters that training changes, and no frozen base."""
        return {name: value.detach() for name, value in self.named_parameters() if value.requires_grad}

    def load_trained_state(self, state: dict[str, Tensor]) -> None:
        """Put `trained_state` back; ConfigError when it is another model's."""
        own = {name for name, value in self.named_parameters() if value.requires_grad}
        if own != set(state):
            odd = sorted(own ^ set(state))[0]
            raise ConfigError(
                f"the checkpoint was written with other settings: {odd} is in one of the two only"
            )
        self.load_state_dict(state, strict=False)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A learner with its trainable parts chosen; `peft` is the LoRA-wrapped T5, None for full fine-tuning."""

    learner: Learner
    peft: Any


def prepare(scorer: Any, head: str, lora: LoraSection | None, training: TrainingSection) -> Prepared:
    """Choose what learns: LoRA matrices and the head, or everything but what `freeze` names."""
    peft = _with_lora(scorer.backbone, head, lora) if lora is not None else None
    if peft is None:
        scorer.backbone.requires_grad_(True)
        _freeze(scorer.backbone, training.freeze)
    elif training.freeze:
        raise ConfigError("training.freeze is for full fine-tuning: with [lora] the base is frozen anyway")
    if isinstance(scorer, Segments):
        scorer.head.requires_grad_(True)
    if training.gradient_checkpointing:
        scorer.backbone.gradient_checkpointing_enable()
        scorer.backbone.enable_input_require_grads()
    return Prepared(Learner(scorer, head), peft)


def start_late(scorer: Any, inputs: Sequence[EncodedPair], count: int = 512) -> None:
    """Start a new late interaction at the states of the first inputs; one that has learned is left alone.

    The bias goes where the mean of their logits is 0: from far off it would take Adam thousands of steps to get there.
    """
    head = scorer.head if isinstance(scorer, Segments) else None
    if head is None or head.late is None or bool(head.late.importance.weight.any()):
        return
    scorer.eval()
    device = str(head.late.scale.device)
    batches = [collate(inputs[start : start + 32], device) for start in range(0, min(count, len(inputs)), 32)]
    with torch.no_grad():
        states = [scorer.states(**batch) for batch in batches]
        marked = [batch["segments"] for batch in batches]
        head.late.start_from(torch.cat([one[mark > 0] for one, mark in zip(states, marked, strict=True)]))
        raws = torch.cat([head(*each) for each in zip(states, marked, strict=True)])
        head.cosine.bias.sub_(raws.mean())


def _with_lora(backbone: Any, head: str, lora: LoraSection) -> Any:
    """Puts LoRA into `backbone` itself and returns PEFT's view of it, which can save the adapter."""
    from peft import LoraConfig, TaskType, get_peft_model

    names = {
        name.rpartition(".")[2] for name, module in backbone.named_modules() if isinstance(module, nn.Linear)
    }
    present = [target for target in lora.targets if target in names]
    if not present:
        raise ConfigError(
            f"lora.targets: none of {', '.join(lora.targets)} is in this model, which has {sorted(names)}"
        )
    config = LoraConfig(
        task_type=TaskType(_TASKS[head]),
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=present,
        # PEFT freezes a classification head and leaves it out of the adapter unless it is named.
        modules_to_save=[HEAD_MODULE] if head == "regression" else None,
    )
    return get_peft_model(backbone, config)


def _freeze(backbone: Any, parts: tuple[str, ...]) -> None:
    for part in parts:
        found = [value for name, value in backbone.named_parameters() if part in name]
        if not found:
            raise ConfigError(f"training.freeze: no parameter has {part!r} in its name")
        for value in found:
            value.requires_grad_(False)


def save_trained(prepared: Prepared, folder: Path, spec: GraderSpec, tokenizer: Any) -> GraderSpec:
    """Write the grader: an adapter alone after LoRA (`spec.base` names its base), else whole weights."""
    scorer: Any = prepared.learner.scorer
    head = scorer.head.state_dict() if isinstance(scorer, Segments) else None
    if prepared.peft is None:
        return save_artefact(folder, spec, tokenizer=tokenizer, model=scorer.backbone, head=head)
    for config in prepared.peft.peft_config.values():
        config.base_model_name_or_path = spec.base
        config.inference_mode = True
    with tempfile.TemporaryDirectory() as scratch:
        prepared.peft.save_pretrained(scratch, save_embedding_layers=False)
        return save_artefact(folder, spec, tokenizer=tokenizer, adapter=scratch, head=head)


def parameter_groups(learner: Learner, training: TrainingSection) -> list[dict[str, Any]]:
    """The `segments` head apart where it has its own learning rate; no decay on biases and norms."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, value in learner.named_parameters():
        if value.requires_grad:
            in_head = name.startswith("scorer.head.")
            rate = (
                training.head_learning_rate
                if in_head and training.head_learning_rate
                else training.learning_rate
            )
            decay = training.weight_decay if value.ndim > 1 else 0.0
            groups.setdefault((rate, decay), []).append(value)
    return [{"params": values, "lr": rate, "weight_decay": decay} for (rate, decay), values in groups.items()]


def count(learner: Learner) -> tuple[int, int]:
    """(trained, all) parameters."""
    sizes = [(value.numel(), value.requires_grad) for value in learner.parameters()]
    return sum(size for size, trained in sizes if trained), sum(size for size, _ in sizes)
