"""A grader on disk: a folder that says what it is, and is refused when it is not whole.

    grader.json             head, prompt format, scale, calibration, thresholds, digests (`GraderSpec`)
    config.json             the T5's own configuration
    model.safetensors       weights in fp32 or bf16, or model-int8.safetensors (see int8.py)
    head.safetensors        the `segments` head
    single.safetensors      what makes one vector of a text, for retrieval, optional
    adapter/                a LoRA adapter by PEFT, optional
    tokenizer.json ...      the tokenizer

An adapter alone is an artefact too: adapter_config.json and adapter_model.safetensors in place of weights,
and `base` in grader.json. Nothing here is ever unpickled: weights are safetensors, everything else is JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from crag_dspy.actions import Policy, Thresholds
from crag_dspy.errors import ArtefactError
from crag_dspy.state.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

SPEC_FILE = "grader.json"
HEAD_FILE = "head.safetensors"
SINGLE_FILE = "single.safetensors"  # one vector a text, for retrieval: no part of a score
INT8_FILE = "model-int8.safetensors"
WEIGHTS_FILE = "model.safetensors"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ADAPTER_FOLDER = "adapter"
# Files that take part in a score, wherever they stand in the folder. Cards, curves and logs do not.
SCORING_FILES = (
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    ADAPTER_CONFIG,
    "tokenizer.json",
    "tokenizer_config.json",
    "*.model",
    "vocab.txt",
)

Storage = Literal["fp32", "bf16", "int8"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Calibration(_Part):
    """raw -> a * raw + b before the score is bounded: temperature scaling with a = 1/T, Platt with both."""

    a: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    b: float = Field(default=0.0, allow_inf_nan=False)


class SuggestedThresholds(_Part):
    """The cuts that did best where the grader was tuned, on the scale of this artefact."""

    upper: float = Field(ge=-1, le=1)
    lower: float = Field(ge=-1, le=1)
    policy: Policy = "max"

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        self.cuts()
        return self

    def cuts(self) -> Thresholds:
        return Thresholds(self.upper, self.lower)


class OnceWeights(_Part):
    """How a grader judges from vectors that were made once (see `read_once`): logits of a passage and of a strip.

    Args:
        passage: (bias, weight of the passage's match).
        strip: (bias, weights of the strip's match, of its passage's match, of the share of the question's words).
        evidence_threshold: below which score of the best strip there is no evidence; None suggests none.
    """

    passage: tuple[float, float]
    strip: tuple[float, float, float, float]
    evidence_threshold: float | None = Field(default=None, ge=-1, le=1)

    def of_passage(self, match: float) -> float:
        """The logit that a passage answers; `match` in [-1, 1]."""
        return self.passage[0] + self.passage[1] * match

    def of_strip(self, match: float, whole: float, words: float) -> float:
        """The logit that a strip answers; matches in [-1, 1], `words` in [0, 1]."""
        bias, own, around, shared = self.strip
        return bias + own * match + around * whole + shared * words


class CheckWeights(_Part):
    """How likely an answer is right, from the signals of `check.by_signals`: a logistic regression.

    Args:
        bias, qa, prox, s_ans: of the logit.
        answer_threshold: below which confidence an answer is not supported by its evidence; None suggests none.
    """

    bias: float
    qa: float
    prox: float
    s_ans: float
    answer_threshold: float | None = Field(default=None, ge=0, le=1)

    def confidence(self, qa: float, prox: float, s_ans: float) -> float:
        """In [0, 1]; `qa` and `s_ans` in [-1, 1], `prox` in [0, 1]."""
        logit = self.bias + self.qa * qa + self.prox * prox + self.s_ans * s_ans
        return (1 + math.tanh(logit / 2)) / 2


class GraderSpec(_Part):
    """grader.json. What changes a score is in the fingerprint; what only describes the grader is not.

    Args:
        head: how a logit is read off the model (see heads.py).
        prompt_format: name of the text format (see prompt_format.py).
        scale: "tanh": score = tanh(calibrated / 2), so (score + 1) / 2 is the probability of relevance.
            "clip": score = calibrated cut to [-1, 1], for heads trained towards -1 and 1.
        max_length: tokens of one input. window, overlap: see `PairEncoder`.
        words: the verdict words of the `true_false` head, positive first.
        attention: of the `segments` head: "together": each token sees question and text. "apart": each sees its
            own segment only, so that a text's state does not depend on the question.
        once: how it judges passages that were read once; None for a grader that reads question and text together, or
            was not tuned for it.
        check: how it checks answers; None for one that was not fitted for it.
        base: for an adapter alone, the folder or hub name of the model it belongs on.
        base_digest: digest of the base's weights, so that an adapter is never put on another model.
        files: SHA-256 of each file that takes part in a score, by its path inside the folder.
    """

    format_version: Literal[1] = 1
    name: str
    head: Literal["true_false", "regression", "segments"]
    prompt_format: str
    scale: Literal["tanh", "clip"] = "tanh"
    calibration: Calibration = Calibration()
    thresholds: SuggestedThresholds | None = None
    max_length: int = Field(default=512, ge=32)
    window: int | None = Field(default=None, ge=8)
    overlap: int = Field(default=32, ge=0)
    words: tuple[str, str] = ("true", "false")
    attention: Literal["together", "apart"] = "together"
    once: OnceWeights | None = None
    check: CheckWeights | None = None
    base: str = ""
    base_digest: str = ""
    trained_on: tuple[str, ...] = ()
    metrics: dict[str, Any] = {}
    made_with: dict[str, Any] = {}
    files: dict[str, str] = {}
    fingerprint: str = ""

    def fingerprint_with(self, digests: Mapping[str, str]) -> str:
        """Of the weights, adapter, head and tokenizer in `digests`, the calibration and the prompt format."""
        scoring = (
            "head",
            "prompt_format",
            "scale",
            "calibration",
            "max_length",
            "window",
            "overlap",
            "words",
            "attention",
        )
        plain = {**self.model_dump(mode="json", include=set(scoring)), "files": dict(sorted(digests.items()))}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def read_spec(folder: Path) -> GraderSpec | None:
    """grader.json of a folder, or None where there is none; ArtefactError naming the field that is wrong."""
    path = folder / SPEC_FILE
    if not path.is_file():
        return None
    try:
        return GraderSpec.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ArtefactError(
            f"{folder.name}/{SPEC_FILE}: {field}: {first['msg']}, got {first.get('input')!r:.80}: "
            "export the grader again"
        ) from error
    except UnicodeDecodeError as error:
        raise ArtefactError(f"{folder.name}/{SPEC_FILE}: not UTF-8 JSON: export the grader again") from error


def digests(folder: Path, inside: str = "") -> dict[str, str]:
    """SHA-256 of every scoring file of a folder and its adapter/, by relative path, prefixed by `inside`."""
    places = (folder, folder / ADAPTER_FOLDER)
    found = {path for place in places for pattern in SCORING_FILES for path in place.glob(pattern)}
    scoring = sorted(path for path in found if path.name != SINGLE_FILE)
    return {inside + path.relative_to(folder).as_posix(): _digest(path) for path in scoring}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(folder: Path, spec: GraderSpec, found: Mapping[str, str]) -> None:
    """Refuse a folder whose files are not those that grader.json was written with."""
    for name, digest in spec.files.items():
        if name not in found:
            raise ArtefactError(
                f"{folder.name}: {name} is missing: copy the whole folder, or export the grader again"
            )
        if found[name] != digest:
            size = (folder / name).stat().st_size
            raise ArtefactError(
                f"{folder.name}: {name} ({size:,} bytes) is not the file that {SPEC_FILE} describes: it is "
                "truncated or belongs to another grader. Copy the whole folder again"
            )
    extra = sorted(set(found) - set(spec.files))
    if extra:
        raise ArtefactError(
            f"{folder.name}: {extra[0]} is not named in {SPEC_FILE}: remove it, or export again"
        )
    if spec.fingerprint != spec.fingerprint_with(found):
        raise ArtefactError(
            f"{folder.name}/{SPEC_FILE}: fingerprint does not fit its settings: they were edited. "
            "Use crag_dspy.graders.artefact.update_spec, which keeps them consistent"
        )


def save_artefact(
    folder: Path | str,
    spec: GraderSpec,
    *,
    tokenizer: Any,
    model: Any = None,
    head: Mapping[str, Tensor] | None = None,
    adapter: Path | str | None = None,
    storage: Storage = "fp32",
) -> GraderSpec:
    """Write a grader folder; grader.json comes last, so that a half-written folder is refused.

    Args:
        folder: made when missing. Scoring files of an older grader in it are removed first.
        spec: `files` and `fingerprint` are filled in here.
        tokenizer: a Hugging Face tokenizer.
        model: the T5 of the spec's head (for `segments`: the encoder); None for an adapter alone.
        head: tensors of a `SegmentHead`, for the `segments` head.
        adapter: a PEFT folder to copy, into adapter/ beside a model or into the folder itself without one.
        storage: how the weights are stored; int8 is a quarter of fp32.

    Returns:
        The spec as written.
    """
    target = Path(folder)
    if (spec.head == "segments") != (head is not None):
        raise ArtefactError(
            f"head tensors belong to the segments head, and it needs them; spec.head is {spec.head!r}"
        )
    if model is None and adapter is None:
        raise ArtefactError("nothing to save: give model, adapter or both")
    target.mkdir(parents=True, exist_ok=True)
    for stale in (target / SPEC_FILE, *(target / name for name in digests(target))):
        stale.unlink(missing_ok=True)
    tokenizer.save_pretrained(target)
    if model is not None:
        _save_weights(target, model, storage)
    if head is not None:
        save_tensors({name: tensor.float() for name, tensor in head.items()}, target / HEAD_FILE)
    if adapter is not None:
        _copy_adapter(Path(adapter), target / ADAPTER_FOLDER if model is not None else target)
    return _write_spec(target, spec)


def _save_weights(target: Path, model: Any, storage: Storage) -> None:
    import torch

    config = type(model.config).from_dict({**model.config.to_dict(), "architectures": [type(model).__name__]})
    config.name_or_path = ""  # would be a path of the machine that trained it
    config.dtype = None
    config.save_pretrained(target)
    state: dict[str, Any] = {}
    seen: dict[int, str] = {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() in seen and state[seen[tensor.data_ptr()]].shape == tensor.shape:
            continue  # tied weights are stored once, and tied again by the model's own configuration
        seen[tensor.data_ptr()] = name
        state[name] = tensor.detach().to("cpu").contiguous()
    if storage == "int8":
        from crag_dspy.graders.int8 import quantise

        save_tensors(quantise(state), target / INT8_FILE)
        return
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[storage]
    save_tensors({name: tensor.to(dtype) for name, tensor in state.items()}, target / WEIGHTS_FILE)


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """A safetensors file that everyone may read: its writer makes it readable to its owner only."""
    from safetensors.torch import save_file

    plain = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    save_file(plain, path, {"format": "pt"})
    path.chmod(0o644)


def _copy_adapter(source: Path, target: Path) -> None:
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        if not (source / name).is_file():
            raise ArtefactError(
                f"{source.name}: {name} is missing: it is not a PEFT adapter saved as safetensors"
            )
    target.mkdir(parents=True, exist_ok=True)
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        if source.resolve() != target.resolve():
            shutil.copyfile(source / name, target / name)


def _write_spec(folder: Path, spec: GraderSpec) -> GraderSpec:
    found = digests(folder)
    whole = spec.model_copy(update={"files": found, "fingerprint": spec.fingerprint_with(found)})
    whole = GraderSpec.model_validate(whole.model_dump())
    text = json.dumps(whole.model_dump(mode="json"), indent=2, ensure_ascii=False)
    write_whole(folder / SPEC_FILE, text + "\n")
    return whole


def update_spec(folder: Path | str, **changes: Any) -> GraderSpec:
    """Change fields of grader.json (calibration, thresholds, metrics ...) and renew its fingerprint."""
    target = Path(folder)
    spec = read_spec(target)
    if spec is None:
        raise ArtefactError(f"{target.name}: {SPEC_FILE} is missing: it is not a grader of this library")
    verify(target, spec, digests(target))
    try:
        changed = GraderSpec.model_validate({**spec.model_dump(), **changes})
    except ValidationError as error:
        raise ArtefactError(f"{SPEC_FILE}: {error.errors()[0]['loc']}: {error.errors()[0]['msg']}") from error
    return _write_spec(target, changed)
