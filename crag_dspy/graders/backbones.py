"""The T5 inside a grader folder: its weights, adapters and tokenizer, read without ever unpickling."""

from __future__ import annotations

import json
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ArtefactError
from crag_dspy.graders.artefact import ADAPTER_CONFIG, ADAPTER_WEIGHTS, INT8_FILE, WEIGHTS_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODEL_TYPES = ("t5", "mt5", "umt5")
HEAD_MODULE = "classification_head"  # of a T5ForSequenceClassification


def load_backbone(folder: Path, head: str) -> tuple[Any, list[str]]:
    """The model of a head, in fp32, and the names of the weights that the folder does not have.

    ArtefactError for what is missing, truncated, pickled, or not a T5.
    """
    import torch
    import transformers

    auto = {
        "true_false": transformers.AutoModelForSeq2SeqLM,
        "regression": transformers.AutoModelForSequenceClassification,
        "segments": transformers.AutoModelForTextEncoding,
    }[head]
    require_t5(folder)
    config = transformers.AutoConfig.from_pretrained(str(folder))
    if head == "regression" and not str((config.architectures or [""])[0]).endswith("SequenceClassification"):
        config.num_labels = 1  # a base without a head of its own: an adapter or the training brings it
    options: dict[str, Any] = {"config": config, "dtype": torch.float32, "output_loading_info": True}
    stored = folder / INT8_FILE
    if not stored.is_file() and not any(folder.glob("*.safetensors")):
        raise ArtefactError(_no_safetensors(folder))
    try:
        with _quietly():
            if stored.is_file():
                from crag_dspy.graders.int8 import dequantise

                kind: Any = auto._model_mapping[type(config)]  # type: ignore[index]
                state = dequantise(tensors(stored), stored.name)
                model, info = kind.from_pretrained(None, state_dict=state, **options)
            else:
                model, info = auto.from_pretrained(str(folder), use_safetensors=True, **options)
    except ArtefactError:
        raise
    except Exception as error:  # transformers and safetensors raise many kinds for a broken file
        raise ArtefactError(
            f"{folder.name}: the weights cannot be read: {error}: copy the whole folder again"
        ) from error
    return model, sorted(info["missing_keys"])


def require_t5(folder: Path) -> dict[str, Any]:
    """The plain config.json of a T5 folder; ArtefactError for anything else."""
    config = read_json(folder, "config.json")
    if config.get("model_type") not in MODEL_TYPES:
        raise ArtefactError(
            f"{folder.name}/config.json: model_type {config.get('model_type')!r} is not a T5 "
            f"({', '.join(MODEL_TYPES)})"
        )
    return config


def merge_adapter(model: Any, adapter: Path, head: str, missing: list[str]) -> tuple[Any, list[str]]:
    """`model` with a LoRA adapter folded into its weights, and what is still missing after it."""
    from peft import PeftModel

    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        if not (adapter / name).is_file():
            raise ArtefactError(
                f"{adapter.name}: {name} is missing: adapters are PEFT folders saved as safetensors"
            )
    brought = tensors(adapter / ADAPTER_WEIGHTS)
    if head == "regression" and not any(HEAD_MODULE in name for name in brought):
        raise ArtefactError(
            f"{adapter.name}/{ADAPTER_WEIGHTS}: the regression head was not saved with the adapter, so its "
            f"scores would be random. Train again with modules_to_save=['{HEAD_MODULE}']"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", FutureWarning
            )  # between PEFT and transformers: nothing to do about here
            merged = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise ArtefactError(f"{adapter.name}: does not fit a {model.config.model_type}: {error}") from error
    return merged, [name for name in missing if not any(name in given for given in brought)]


def load_tokenizer(folder: Path, config: Any) -> Any:
    """The tokenizer, with the end-of-sequence token of the model where it names none itself."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtefactError(
            f"{folder.name}: no tokenizer can be read: copy tokenizer.json beside the weights"
        ) from error
    if tokenizer.eos_token_id is None and config.eos_token_id is not None:
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(config.eos_token_id)
    if tokenizer.eos_token_id != config.eos_token_id:
        raise ArtefactError(
            f"{folder.name}: the tokenizer ends a sequence with token {tokenizer.eos_token_id}, the model "
            f"with {config.eos_token_id}: they do not belong together"
        )
    if len(tokenizer) > config.vocab_size:
        raise ArtefactError(
            f"{folder.name}: the tokenizer has {len(tokenizer)} tokens and the model {config.vocab_size}: "
            "they do not belong together"
        )
    return tokenizer


def tensors(path: Path) -> dict[str, Any]:
    """All tensors of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise ArtefactError(f"{path.parent.name}: {path.name} is missing: copy the whole folder")
    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise ArtefactError(
            f"{path.parent.name}: {path.name} is truncated or not safetensors: copy it again"
        ) from error


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object of a model folder."""
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


def _no_safetensors(folder: Path) -> str:
    pickled = sorted(path.name for end in ("*.bin", "*.pt", "*.ckpt") for path in folder.glob(end))
    if pickled:
        return (
            f"{folder.name}: {pickled[0]} is pickled, which can run code when read, so it is not opened. "
            "Convert it where you trust it: AutoModel...from_pretrained(folder).save_pretrained(folder)"
        )
    return f"{folder.name}: {WEIGHTS_FILE} is missing: copy the whole folder, or export the grader again"


@contextmanager
def _quietly() -> Iterator[None]:
    """No progress bar for a load of milliseconds, and no report on weights that are checked here anyway."""
    from transformers import utils

    logging: Any = utils.logging
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
