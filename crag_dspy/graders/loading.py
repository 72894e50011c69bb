"""From a name, a folder or a hub id to a live grader: what is refused, is refused here and says why."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from crag_dspy.errors import ArtefactError
from crag_dspy.graders import artefact
from crag_dspy.graders.artefact import GraderSpec
from crag_dspy.graders.backbones import (
    HEAD_MODULE,
    load_backbone,
    load_tokenizer,
    merge_adapter,
    read_json,
    require_t5,
    tensors,
)
from crag_dspy.graders.prompt_format import prompt_format as format_named

HUB_FILES = ("*.json", "*.safetensors", "*.model", "vocab.txt")
_TASK_HEADS = {"SEQ_2_SEQ_LM": "true_false", "SEQ_CLS": "regression", "FEATURE_EXTRACTION": "segments"}


@dataclass(frozen=True, slots=True)
class Opened:
    """A grader in memory: fp32, on the CPU, its adapter merged. `folder` is the base's."""

    spec: GraderSpec
    scorer: Any
    tokenizer: Any
    fingerprint: str
    folder: Path


def resolve(source: str | Path) -> Path:
    """The folder behind the name of a shipped grader, a path, or a hub id (safetensors and JSON only).

    A name that is shipped means the shipped one: write "./mini" for a folder of that name here.
    """
    text = str(source)
    path = Path(source).expanduser()
    known = shipped()
    if text in known:
        return known[text]
    if path.is_dir():
        return path
    if re.fullmatch(r"[\w.-]+", text):
        hint = f"not a shipped grader ({', '.join(known) or 'none'}) nor a folder"
    elif re.fullmatch(r"[\w.-]+/[\w.-]+", text):
        hint = "not a folder"
    else:
        raise ArtefactError(f"grader {text!r}: no such folder")
    return _from_hub(text, hint)


def shipped() -> dict[str, Path]:
    """The graders inside the package, by name."""
    root = Path(str(resources.files("crag_dspy.weights")))
    return {path.name: path for path in sorted(root.iterdir()) if (path / artefact.SPEC_FILE).is_file()}


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
        adapter: a PEFT folder or hub id to put on top (after the artefact's own, if it has one); False for no
            adapter at all.
        prompt_format, words: override what is recognised from the checkpoint.

    Raises:
        ArtefactError: naming the file that is missing, truncated or of another model, and what to do.
    """
    folder = resolve(source)
    alone = (folder / artefact.ADAPTER_CONFIG).is_file() and not (folder / "config.json").is_file()
    if alone and adapter is not None:
        raise ArtefactError(
            f"{folder.name} is an adapter itself: give adapter= only with the model it is for"
        )
    base = _base_of(folder) if alone else folder
    given = folder if alone else resolve(adapter) if adapter else None
    own = base / artefact.ADAPTER_FOLDER
    places = (own, given) if adapter is not False else ()
    adapters = [place for place in places if place is not None and place.is_dir()]

    found = artefact.digests(base)
    spec = _described(base, given, found)
    if own not in adapters:
        found = {name: digest for name, digest in found.items() if not name.startswith(own.name + "/")}
    if given is not None:
        found |= artefact.digests(given, inside="adapter:")
    changes: dict[str, Any] = {"words": tuple(words)} if words else {}
    changes["prompt_format"] = format_named(prompt_format or spec.prompt_format).name
    return _build(spec.model_copy(update=changes), base, adapters, found)


def open_base(
    source: str | Path,
    spec: GraderSpec,
    *,
    hidden: int = 128,
    projected: int | None = None,
    late: int | None = None,
) -> Opened:
    """A model to train with the head of `spec`: a grader's own head is trained on, a missing one is new.

    Args:
        source: a shipped grader, a folder or a hub id; its adapter, if it has one, is merged.
        spec: of the grader to be; its head, words and prompt format count.
        hidden, projected, late: sizes of a new `segments` head, see `SegmentHead`. New heads are drawn at random:
            seed torch first. A head without late interaction gets one of this size.
    """
    folder = resolve(source)
    before = artefact.read_spec(folder)
    found = artefact.digests(folder)
    if before is not None:
        artefact.verify(folder, before, found)
    own = folder / artefact.ADAPTER_FOLDER
    fresh = before is None or before.head != spec.head
    opened = _build(
        spec, folder, [own] if own.is_dir() else [], found, new_head=(hidden, projected) if fresh else None
    )
    if spec.head == "segments":
        opened.scorer.head.single = None  # of the encoder as it was before it learned
    if late is not None and spec.head == "segments" and opened.scorer.head.late is None:
        from crag_dspy.graders.late import LateInteraction

        opened.scorer.head.late = LateInteraction(opened.scorer.backbone.config.d_model, late)
    return opened


def weights_digest(folder: Path) -> str:
    """One digest of all the weights of a model folder, whatever files they are in."""
    weights = {name: d for name, d in artefact.digests(folder).items() if name.endswith(".safetensors")}
    return hashlib.sha256(json.dumps(weights, sort_keys=True).encode()).hexdigest()


def _base_of(adapter: Path) -> Path:
    spec = artefact.read_spec(adapter)
    config = read_json(adapter, artefact.ADAPTER_CONFIG)
    named = spec.base if spec and spec.base else config.get("base_model_name_or_path")
    if not named:
        raise ArtefactError(
            f"{adapter.name}/{artefact.ADAPTER_CONFIG}: base_model_name_or_path is empty: name the base there"
        )
    return resolve(adapter / named if (adapter / named).is_dir() else named)


def _described(base: Path, adapter: Path | None, found: dict[str, str]) -> GraderSpec:
    """What the adapter says it is, else what the base says, else what the base's configuration tells."""
    spec = artefact.read_spec(base)
    if spec is not None:
        artefact.verify(base, spec, found)
    if adapter is not None:
        spec = _adapter_spec(base, adapter, spec)
    return spec if spec is not None else _recognised(base)


def _adapter_spec(base: Path, adapter: Path, base_spec: GraderSpec | None) -> GraderSpec | None:
    spec = artefact.read_spec(adapter)
    if spec is None:
        head = _TASK_HEADS.get(str(read_json(adapter, artefact.ADAPTER_CONFIG).get("task_type")))
        known = head is None or (base_spec is not None and base_spec.head == head)
        return base_spec if known else _plain_spec(adapter.name, str(head))
    artefact.verify(adapter, spec, artefact.digests(adapter))
    if spec.base_digest and spec.base_digest != weights_digest(base):
        raise ArtefactError(
            f"{adapter.name}: was trained on another model than {base.name}: its weights differ. Give the "
            f"base it was trained on ({spec.base or 'not named'}), or train the adapter again"
        )
    return spec


def _recognised(folder: Path) -> GraderSpec:
    kind = str((require_t5(folder).get("architectures") or ["?"])[0])
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


def _build(
    spec: GraderSpec,
    base: Path,
    adapters: list[Path],
    found: dict[str, str],
    new_head: tuple[int, int | None] | None = None,
) -> Opened:
    """The tokenizer and the head are those of the last adapter that brings its own, else the base's."""
    from crag_dspy.graders.heads import Regression, SegmentHead, Segments, TrueFalse, word_id
    from crag_dspy.read_once.single import SingleVector

    def nearest(name: str) -> Path:
        return next((place for place in reversed(adapters) if (place / name).is_file()), base)

    backbone, missing = load_backbone(base, spec.head)
    tokenizer = load_tokenizer(nearest("tokenizer_config.json"), backbone.config)
    for adapter in adapters:
        backbone, missing = merge_adapter(backbone, adapter, spec.head, missing)
    if new_head is not None:
        missing = [name for name in missing if not name.startswith(HEAD_MODULE)]
    if missing:
        raise ArtefactError(_lacking(base, missing))
    if spec.head == "true_false":
        positive, negative = (word_id(tokenizer, word) for word in spec.words)
        scorer: Any = TrueFalse(backbone, positive, negative)
    elif spec.head == "regression":
        scorer = Regression(backbone)
    elif new_head is not None:
        scorer = Segments(
            backbone, SegmentHead(backbone.config.d_model, *new_head), spec.attention == "apart"
        )
    else:
        head_file = nearest(artefact.HEAD_FILE) / artefact.HEAD_FILE
        head = SegmentHead.from_state(tensors(head_file), artefact.HEAD_FILE)
        if (base / artefact.SINGLE_FILE).is_file():
            head.single = SingleVector.from_state(tensors(base / artefact.SINGLE_FILE))
        scorer = Segments(backbone, head, spec.attention == "apart")
    scorer.eval().requires_grad_(False)
    return Opened(spec, scorer, tokenizer, spec.fingerprint_with(found), base)


def _lacking(base: Path, missing: list[str]) -> str:
    if HEAD_MODULE in missing[0]:
        fix = f"the head was not saved. With PEFT name it: modules_to_save=['{HEAD_MODULE}'], and train again"
    else:
        fix = "it is another kind of model than this head needs, or not whole: export the grader again"
    return f"{base.name}: the weights lack {missing[0]} and {len(missing) - 1} more: {fix}"
