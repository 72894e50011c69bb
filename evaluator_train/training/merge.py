"""Make a portable grader: `crag-dspy grader merge` folds the adapter into its base.

With `keep_adapter` base and adapter stay apart in one folder, as in the grader that ships: an int8 base loses nothing
where its adapter was trained on those very weights, and a merged one would be rounded again.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from crag_dspy.graders.artefact import GraderSpec, Storage


def merge(
    source: Path | str,
    out: Path | str,
    *,
    storage: Storage = "fp32",
    name: str | None = None,
    keep_adapter: bool = False,
    **changes: Any,
) -> GraderSpec:
    """Write the grader at `source` as a folder that needs no other.

    Args:
        source: what `T5Grader.from_pretrained` opens: an adapter, a grader folder, a checkpoint, a hub id.
        out: a new folder.
        storage: "fp32", "bf16", or "int8" (a quarter of the size, full precision again once loaded).
        name: the grader's name; None keeps it.
        keep_adapter: store the adapter beside the base, in bf16 unless `storage` is fp32, instead of merging it.
        changes: other fields of grader.json, such as `window`, `overlap` and `trained_on`.
    """
    from crag_dspy.graders.artefact import SPEC_FILE, GraderSpec, save_artefact
    from crag_dspy.graders.loading import open_grader

    target = Path(out)
    if (target / SPEC_FILE).exists():
        raise ConfigError(f"out: {target.name} already holds a grader: name another folder")
    opened = open_grader(source)
    plain = {**opened.spec.model_dump(), "base": "", "base_digest": "", **changes}
    try:
        spec = GraderSpec.model_validate(plain | ({"name": name} if name else {}))
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{first['loc'][0]}: {first['msg']}, got {first.get('input')!r}") from error
    head = opened.scorer.head.state_dict() if spec.head == "segments" else None
    model = opened.scorer.backbone
    with tempfile.TemporaryDirectory() as scratch:
        if keep_adapter:
            model = _apart(source, opened.folder, spec.head, storage, Path(scratch))
        return save_artefact(
            target,
            spec,
            tokenizer=opened.tokenizer,
            model=model,
            head=head,
            adapter=scratch if keep_adapter else None,
            storage=storage,
        )


def _apart(source: Path | str, base: Path, head: str, storage: Storage, scratch: Path) -> Any:
    """The base's own model; its adapter is written to `scratch`, naming no base."""
    import torch

    from crag_dspy.graders.artefact import ADAPTER_CONFIG, ADAPTER_FOLDER, ADAPTER_WEIGHTS, save_tensors
    from crag_dspy.graders.backbones import load_backbone, read_json, tensors
    from crag_dspy.graders.loading import resolve

    folder, own = resolve(source), base / ADAPTER_FOLDER
    if folder != base and own.is_dir():
        raise ConfigError(f"{base.name} has an adapter of its own: merge that base first, or merge both")
    adapter = own if folder == base else folder
    if not (adapter / ADAPTER_WEIGHTS).is_file():
        raise ConfigError(f"{folder.name} has no adapter to keep: leave out keep_adapter (--keep-adapter)")
    dtype = torch.float32 if storage == "fp32" else torch.bfloat16
    brought = {name: tensor.to(dtype) for name, tensor in tensors(adapter / ADAPTER_WEIGHTS).items()}
    save_tensors(brought, scratch / ADAPTER_WEIGHTS)
    config = {**read_json(adapter, ADAPTER_CONFIG), "base_model_name_or_path": ""}
    (scratch / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return load_backbone(base, head)[0]
