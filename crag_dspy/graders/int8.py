"""Weights stored as 8-bit integers: a quarter of the size on disk, full precision again once loaded.

Symmetric, one scale a row: `weight[i, j] ~ int8[i, j] * scale[i]`. A safetensors file holds `name` (int8) and
`name.scale` (fp32 or fp16, one a row) for each matrix, and every other tensor as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.errors import ArtefactError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

SCALE = ".scale"


def quantise(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Matrices to int8 rows with their scales; vectors and scalars to fp32. The largest of a row is exact."""

    stored: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        if tensor.ndim != 2 or not tensor.is_floating_point():
            stored[name] = tensor.float().contiguous() if tensor.is_floating_point() else tensor.contiguous()
            continue
        stored[name], stored[name + SCALE] = quantised_rows(tensor)
    return stored


def quantised_rows(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(int8 of the same shape, one fp32 scale a row); a row of zeros has the scale 0."""
    import torch

    rows = matrix.float()
    scale = rows.abs().amax(dim=1) / 127
    safe = torch.where(scale > 0, scale, torch.ones_like(scale))
    return (rows / safe[:, None]).round().clamp(-127, 127).to(torch.int8), scale


def dequantise(stored: Mapping[str, torch.Tensor], source: str) -> dict[str, torch.Tensor]:
    """The fp32 tensors of what `quantise` stored; ArtefactError naming `source` and a tensor not whole."""
    import torch

    state: dict[str, torch.Tensor] = {}
    for name, tensor in stored.items():
        if name.endswith(SCALE) and name.removesuffix(SCALE) in stored:
            continue
        if tensor.dtype != torch.int8:
            state[name] = tensor.float() if tensor.is_floating_point() else tensor
            continue
        scale = stored.get(name + SCALE)
        if scale is None or scale.shape != tensor.shape[:1]:
            raise ArtefactError(
                f"{source}: {name} has no scale for each of its rows: export the grader again"
            )
        state[name] = tensor.float() * scale.float()[:, None]
    return state
