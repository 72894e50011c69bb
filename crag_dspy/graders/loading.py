"""From a name, a folder or a hub id to a live model: what is refused, is refused here and says why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from crag_dspy.errors import ArtefactError
from crag_dspy.graders import artefact
from crag_dspy.graders.artefact import GraderSpec
from crag_dspy.graders.prompt_format import prompt_format as format_named

MODEL_TYPES = ("t5", "mt5", "umt5")
HUB_FILES = ("*.json", "*.safetensors", "*.model", "vocab.txt")
_TASK_HEADS = {"SEQ_2_SEQ_LM": "true_false", "SEQ_CLS": "regression", "FEATURE_EXTRACTION": "segments"}


@dataclass(frozen=True, slots=True)
class Opened:
    """A grader in memory: fp32, on the CPU, its adapter merged."""

    spec: GraderSpec
    scorer: Any
    tokenizer: Any
    fingerprint: str


def resolve(source: str | Path) -> Path:
    """The folder behind the name of a shipped grader, a path, or a hub id (downloaded once, safetensors only)."""
    text = str(source)
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if re.fullmatch(r"[\w.-]+", text):
        shipped = Path(str(resources.files("crag_dspy.weights")))
        if (shipped / text).is_dir():
            return shipped / text
        known = artefact.known_names(shipped.iterdir()) or ["none"]
        hint = f"not a shipped grader ({', '.join(known)}) nor a folder"
    elif not re.fullmatch(r"[\w.-]+/[\w.-]+", text):
        raise ArtefactError(f"grader {text!r}: no such folder")
    else:
        hint = "not a folder"
    return _from_hub(text, hint)


def _from_hub(name: str, hint: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(HUB_FILES)))
    except (OSError, ValueError, RuntimeError) as error:  # offline, unknown, gated: all subclasses of these
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ArtefactError(f"grader {name!r}: {hint}, and the hub did not give it: {first}") from error


def open_grader(
    source: str | Path,
    adapter: str | Path | Literal[False] | None = None,
    prompt_format: str | None = None,
    words: tuple[str, str] | None = None,
) -> Opened:
    """Load a grader of this library, an adapter, an official CRAG checkpoint or a monoT5 one.

    Args:
        source: see `resolve`.
        adapter: a PEFT folder or hub id to put on it; None for the artefact's own, if any; False for none at all.
        prompt_format, words: override what is recognised from the checkpoint.

    Raises:
        ArtefactError: naming the file that is missing, truncated or of another model, and what to do.
    """
    folder = resolve(source)
    alone = (folder / artefact.ADAPTER_CONFIG).is_file() and not (folder / "config.json").is_file()
    if alone and adapter is not None:
        raise ArtefactError(
            f"{folder.name} is an adapter itself: give adapter= only with the model it belongs on"
        )
    if alone:
        base, given = _base_of(folder), folder
    else:
        base, given = folder, resolve(adapter) if adapter else None
    own = base / artefact.ADAPTER_FOLDER
    adapters = [
        place for place in (own, given) if place is not None and place.is_dir() and adapter is not False
    ]

    spec, found = _described(base, given)
    if own not in adapters:
        found = {name: digest for name, digest in found.items() if not name.startswith(own.name + "/")}
    if given is not None:
        found |= artefact.digests(given, inside="adapter:")
    return _build(_overridden(spec, prompt_format, words), base, adapters, found)


def _base_of(adapter: Path) -> Path:
    spec = artefact.read_spec(adapter)
    named = (
        spec.base
        if spec and spec.base
        else _json(adapter, artefact.ADAPTER_CONFIG).get("base_model_name_or_path")
    )
    if not named:
        raise ArtefactError(
            f"{adapter.name}/{artefact.ADAPTER_CONFIG}: base_model_name_or_path is empty: name the base"
        )
    return resolve(adapter / named if (adapter / named).is_dir() else named)


def weights_digest(folder: Path) -> str:
    """One digest of all the weights of a model folder, whatever files they are in."""
    import hashlib

    weights = {name: d for name, d in artefact.digests(folder).items() if name.endswith(".safetensors")}
    return hashlib.sha256(json.dumps(weights, sort_keys=True).encode()).hexdigest()


def _described(base: Path, adapter: Path | None) -> tuple[GraderSpec, dict[str, str]]:
    """What the adapter says it is, else what the base says, else what its configuration tells; and all digests."""
    found = artefact.digests(base)
    spec = artefact.read_spec(base)
    if spec is not None:
        artefact.verify(base, spec, found)
    if adapter is not None:
        spec = _adapter_spec(base, adapter) or spec
    return spec if spec is not None else _recognised(base), found


def _adapter_spec(base: Path, adapter: Path) -> GraderSpec | None:
    spec = artefact.read_spec(adapter)
    if spec is None:
        head = _TASK_HEADS.get(str(_json(adapter, artefact.ADAPTER_CONFIG).get("task_type")))
        base_spec = artefact.read_spec(base)
        return (
            None
            if head is None or (base_spec and base_spec.head == head)
            else _plain_spec(adapter.name, head)
        )
    artefact.verify(adapter, spec, artefact.digests(adapter))
    if spec.base_digest and spec.base_digest != weights_digest(base):
        raise ArtefactError(
            f"{adapter.name}: was trained on another model than {base.name}: its weights differ. Give the base it was "
            f"trained on ({spec.base or 'not named'}), or train the adapter again"
        )
    return spec


def _recognised(folder: Path) -> GraderSpec:
    config = _json(folder, "config.json")
    if config.get("model_type") not in MODEL_TYPES:
        raise ArtefactError(
            f"{folder.name}/config.json: model_type {config.get('model_type')!r} is not a T5 ({', '.join(MODEL_TYPES)})"
        )
    kind = str((config.get("architectures") or ["?"])[0])
    if kind.endswith("ForSequenceClassification"):
        return _plain_spec(folder.name, "regression")
    if kind.endswith("ForConditionalGeneration"):
        return _plain_spec(folder.name, "true_false")
    raise ArtefactError(
        f"{folder.name}/config.json: a {kind} has no head to grade with: give adapter=, or a folder with "
        f"{artefact.SPEC_FILE}"
    )


def _plain_spec(name: str, head: str) -> GraderSpec:
    """What is known of a checkpoint that says nothing itself: the formats of the public ones."""
    settings = {
        "regression": {"prompt_format": "crag", "scale": "clip"},  # trained towards -1 and 1
        "true_false": {"prompt_format": "monot5", "scale": "tanh"},
        "segments": {"prompt_format": "segments", "scale": "tanh"},
    }[head]
    return GraderSpec.model_validate({"name": name, "head": head, **settings})


def _overridden(spec: GraderSpec, prompt_format: str | None, words: tuple[str, str] | None) -> GraderSpec:
    changes: dict[str, Any] = {}
    if prompt_format is not None:
        changes["prompt_format"] = format_named(prompt_format).name
    if words is not None:
        changes["words"] = tuple(words)
    return spec.model_copy(update=changes)


def _build(spec: GraderSpec, base: Path, adapters: list[Path], found: dict[str, str]) -> Opened:
    """The tokenizer and the head are those of the last adapter that brings its own, else the base's."""
    from crag_dspy.graders.heads import Regression, SegmentHead, Segments, TrueFalse, word_id

    def nearest(name: str) -> Path:
        return next((place for place in reversed(adapters) if (place / name).is_file()), base)

    format_named(spec.prompt_format)
    tokenizer = _tokenizer(nearest("tokenizer_config.json"))
    backbone, missing = _backbone(base, spec.head)
    for adapter in adapters:
        backbone, missing = _with_adapter(backbone, adapter, spec.head, missing)
    if missing:
        raise ArtefactError(
            f"{base.name}: the weights lack {missing[0]}{_others(missing)}: "
            + (
                "the head was not saved. With PEFT name it in modules_to_save=['classification_head'], and train again"
                if "classification_head" in missing[0]
                else "export the grader again"
            )
        )
    if spec.head == "true_false":
        words = spec.words
        scorer: Any = TrueFalse(backbone, word_id(tokenizer, words[0]), word_id(tokenizer, words[1]))
    elif spec.head == "regression":
        scorer = Regression(backbone)
    else:
        head_file = nearest(artefact.HEAD_FILE) / artefact.HEAD_FILE
        scorer = Segments(backbone, SegmentHead.from_state(_tensors(head_file), artefact.HEAD_FILE))
    if tokenizer.eos_token_id is None and backbone.config.eos_token_id is not None:
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(backbone.config.eos_token_id)
    if len(tokenizer) > backbone.config.vocab_size:
        raise ArtefactError(
            f"{base.name}: the tokenizer has {len(tokenizer)} tokens and the model {backbone.config.vocab_size}: "
            "they do not belong together"
        )
    scorer.eval().requires_grad_(False)
    return Opened(spec, scorer, tokenizer, spec.fingerprint_with(found))


def _others(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(folder))
    except (OSError, ValueError, KeyError) as error:
        raise ArtefactError(
            f"{folder.name}: no tokenizer can be read: copy tokenizer.json beside the weights"
        ) from error


def _backbone(folder: Path, head: str) -> tuple[Any, list[str]]:
    import torch
    import transformers

    auto = {
        "true_false": transformers.AutoModelForSeq2SeqLM,
        "regression": transformers.AutoModelForSequenceClassification,
        "segments": transformers.AutoModelForTextEncoding,
    }[head]
    _json(folder, "config.json")
    config = transformers.AutoConfig.from_pretrained(str(folder))
    if config.model_type not in MODEL_TYPES:
        raise ArtefactError(f"{folder.name}/config.json: model_type {config.model_type!r} is not a T5")
    if head == "regression" and not str((config.architectures or [""])[0]).endswith("SequenceClassification"):
        config.num_labels = 1  # a base without a head of its own: the adapter brings it
    options: dict[str, Any] = {"config": config, "dtype": torch.float32, "output_loading_info": True}
    stored = folder / artefact.INT8_FILE
    try:
        with _without_progress_bar():
            if stored.is_file():
                from crag_dspy.graders.int8 import dequantise

                state = dequantise(_tensors(stored), stored.name)
                model, info = auto._model_mapping[type(config)].from_pretrained(
                    None, state_dict=state, **options
                )
            else:
                if not any(folder.glob("*.safetensors")):
                    raise ArtefactError(_no_safetensors(folder))
                model, info = auto.from_pretrained(str(folder), use_safetensors=True, **options)
    except ArtefactError:
        raise
    except Exception as error:  # noqa: BLE001 - transformers and safetensors raise many kinds for a broken file
        raise ArtefactError(
            f"{folder.name}: the weights cannot be read: {error}: copy the whole folder again"
        ) from error
    return model, sorted(info["missing_keys"])


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    """A bar for a load of milliseconds is noise in the middle of somebody's answer."""
    from transformers.utils import logging as transformers_logging

    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


def _with_adapter(model: Any, adapter: Path, head: str, missing: list[str]) -> tuple[Any, list[str]]:
    from peft import PeftModel

    for name in (artefact.ADAPTER_CONFIG, artefact.ADAPTER_WEIGHTS):
        if not (adapter / name).is_file():
            raise ArtefactError(
                f"{adapter.name}: {name} is missing: adapters are PEFT folders saved as safetensors"
            )
    brought = _tensors(adapter / artefact.ADAPTER_WEIGHTS)
    if head == "regression" and not any("classification_head" in name for name in brought):
        raise ArtefactError(
            f"{adapter.name}/{artefact.ADAPTER_WEIGHTS}: the regression head was not saved with the adapter, so its "
            "scores would be random. Train again with modules_to_save=['classification_head']"
        )
    try:
        merged = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise ArtefactError(
            f"{adapter.name}: does not fit the model {model.config.model_type}: {error}"
        ) from error
    still = [
        name
        for name in missing
        if not any(name in given.replace(".modules_to_save", "") for given in brought)
    ]
    return merged, still


def _tensors(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise ArtefactError(
            f"{path.parent.name}: {path.name} is missing: copy the whole folder, or export again"
        )
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ArtefactError(
            f"{path.parent.name}: {path.name} is truncated or not safetensors: copy it again"
        ) from error


def _no_safetensors(folder: Path) -> str:
    pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.ckpt") for path in folder.glob(pattern))
    if pickled:
        return (
            f"{folder.name}: {pickled[0]} is pickled, which can run code when read, so it is not opened. Convert it "
            "where you trust it: AutoModel...from_pretrained(folder).save_pretrained(folder)"
        )
    return f"{folder.name}: {artefact.WEIGHTS_FILE} is missing: copy the whole folder, or export the grader again"


def _json(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    if not path.is_file():
        raise ArtefactError(f"{folder.name}: {name} is missing: it is not a whole model folder")
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ArtefactError(
            f"{folder.name}: {name} is truncated or not JSON: copy the whole folder again"
        ) from error
    if not isinstance(plain, dict):
        raise ArtefactError(f"{folder.name}: {name} must hold a JSON object")
    return plain
