"""How a grader is trained, as one strict TOML file: an unknown or misspelt setting is an error, not ignored.

[grader]     name, base, head, prompt_format, words, max_length, window, overlap, attention, hidden, projected, late
[lora]       r, alpha, dropout, targets        (leave the section out to train all weights)
[training]   epochs, batch_size, accumulate, learning_rate, ...
"""

from __future__ import annotations

import difflib
import tomllib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from crag_dspy.errors import ConfigError
from crag_dspy.graders.artefact import GraderSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT_OF_HEAD = {"true_false": "monot5", "regression": "crag", "segments": "segments"}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GraderSection(_Section):
    """The grader to be; `hidden`, `projected` and `late` are sizes of a new `segments` head (see `SegmentHead`)."""

    name: str
    base: str
    head: Literal["true_false", "regression", "segments"] = "true_false"
    prompt_format: Literal["", "crag", "monot5", "segments"] = ""
    words: tuple[str, str] = ("true", "false")
    max_length: int = Field(default=512, ge=32)
    window: int | None = Field(default=None, ge=8)
    overlap: int = Field(default=32, ge=0)
    attention: Literal["together", "apart"] = "together"
    hidden: int = Field(default=128, ge=0)
    projected: int | None = Field(default=None, ge=1)
    late: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _format_fits(self) -> Self:
        if (self.prompt_format == "segments") != (self.head == "segments") and self.prompt_format:
            raise ValueError(f"prompt_format {self.prompt_format!r} does not go with head {self.head!r}")
        return self

    def spec(self) -> GraderSpec:
        """What grader.json says before anything is trained."""
        return GraderSpec(
            name=self.name,
            head=self.head,
            prompt_format=self.prompt_format or FORMAT_OF_HEAD[self.head],
            scale="clip" if self.head == "regression" else "tanh",
            max_length=self.max_length,
            window=self.window,
            overlap=self.overlap,
            words=self.words,
            attention=self.attention,
        )


class LoraSection(_Section):
    """LoRA (arXiv 2106.09685) on the linear layers whose names end in one of `targets`."""

    r: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.05, ge=0, lt=1)
    targets: tuple[str, ...] = ("q", "k", "v", "o", "wi", "wi_0", "wi_1", "wo")


class TrainingSection(_Section):
    """`batch_size` is a device's; an optimiser step sees batch_size * accumulate * devices pairs.

    `evaluate_every` (steps) is also how often a checkpoint is written. Training stops after `patience`
    evaluations in a row without a better AUC. `freeze` names parameters (by a part of their name) that full
    fine-tuning leaves alone. `head_learning_rate` is for the `segments` head, None for the same as the rest.
    """

    epochs: float = Field(default=2.0, gt=0)
    max_steps: int = Field(default=-1, ge=-1)
    batch_size: int = Field(default=16, ge=1)
    accumulate: int = Field(default=1, ge=1)
    learning_rate: float = Field(default=3e-4, gt=0)
    head_learning_rate: float | None = Field(default=None, gt=0)
    warmup: float = Field(default=0.05, ge=0, lt=1)
    weight_decay: float = Field(default=0.01, ge=0)
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    gradient_checkpointing: bool = False
    evaluate_every: int = Field(default=500, ge=1)
    evaluate_batch_tokens: int = Field(default=8192, ge=1)
    patience: int = Field(default=4, ge=1)
    freeze: tuple[str, ...] = ()
    seed: int = Field(default=0, ge=0)

    @field_validator("precision", mode="before")
    @classmethod
    def _no_fp16(cls, value: Any) -> Any:
        if str(value) in ("fp16", "float16", "16", "half"):
            raise ValueError("T5 overflows in fp16 and its loss becomes NaN: use bf16 or fp32")
        return value


class Recipe(_Section):
    """A whole recipe; `lora=None` trains all weights."""

    grader: GraderSection
    lora: LoraSection | None = None
    training: TrainingSection = TrainingSection()


def read_recipe(source: str | Path, changes: Iterable[str] = ()) -> Recipe:
    """A recipe of this package by name ("t5-large"), or a TOML file, with `section.key=value` changes.

    Values of changes are TOML; what is not is a string, so `grader.base=google/mt5-base` needs no quotes.
    """
    plain = _toml(source)
    for change in changes:
        _apply(plain, change)
    try:
        return Recipe.model_validate(plain)
    except ValidationError as error:
        raise ConfigError(f"recipe {str(source)!r}: {_explained(error)}") from error


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    folder = resources.files("crag_dspy.evaluator_train.training.recipes")
    return sorted(
        entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")
    )


def _toml(source: str | Path) -> dict[str, Any]:
    if str(source) in recipe_names():
        text = (resources.files("crag_dspy.evaluator_train.training.recipes") / f"{source}.toml").read_text(
            "utf-8"
        )
    elif Path(source).is_file():
        text = Path(source).read_text(encoding="utf-8")
    else:
        raise ConfigError(f"recipe {str(source)!r}: no such file, and not one of {', '.join(recipe_names())}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"recipe {str(source)!r}: not TOML: {error}") from error


def _apply(plain: dict[str, Any], change: str) -> None:
    path, equals, value = change.partition("=")
    section, dot, key = path.strip().partition(".")
    if not equals or not dot or not key:
        raise ConfigError(f"--set takes section.key=value, got {change!r}: for example training.epochs=1")
    try:
        parsed = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    plain.setdefault(section, {})[key] = parsed


def _explained(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(first["loc"][-1]), _known(first["loc"]), 1)
        return f"unknown setting {where}" + (f": did you mean {near[0]}?" if near else "")
    return f"{where}: {first['msg'].removeprefix('Value error, ')}, got {first.get('input')!r:.80}"


def _known(where: tuple[int | str, ...]) -> list[str]:
    sections: dict[str, type[BaseModel]] = {
        "grader": GraderSection,
        "lora": LoraSection,
        "training": TrainingSection,
    }
    section = sections.get(str(where[0])) if len(where) > 1 else Recipe
    return list(section.model_fields) if section else []
