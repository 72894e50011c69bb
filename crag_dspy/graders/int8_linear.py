"""Matrix products in 8-bit integers on the CPU. Imports torch: only functions that need a model import this.

Weights have one scale a row, activations one a token, taken as they come: tokens of very different sizes
share a batch, and one scale for all of them (as torch's own dynamic quantisation has) costs five times the
error.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crag_dspy.errors import ConfigError
from crag_dspy.graders.int8 import quantised_rows

# Read once a text and not once a token: nothing to win, and the score is read off them.
EXACT = ("lm_head", "classification_head")


class Int8Linear(nn.Module):
    """A linear layer for inference: int8 x int8 -> int32, scaled back to fp32."""

    weight: Tensor
    scale: Tensor

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        rows, scale = quantised_rows(layer.weight.detach())
        # Transposed as the product reads it, and into memory of its own: a view of one column has strides that the
        # product misreads. T5 looks at the dtype of `weight` before it calls a layer.
        weight = torch.empty(layer.in_features, layer.out_features, dtype=torch.int8)
        self.register_buffer("weight", weight.copy_(rows.t()))
        self.register_buffer("scale", scale)
        self.bias = layer.bias

    def forward(self, states: Tensor) -> Tensor:
        """(..., in) to (..., out), in fp32."""
        tokens, size = quantised_rows(states.reshape(-1, states.shape[-1]))
        whole = torch._int_mm(tokens, self.weight)
        out = whole.to(torch.float32).mul_(size[:, None]).mul_(self.scale)
        if self.bias is not None:
            out = out + self.bias
        return out.view(*states.shape[:-1], -1)


def use_int8(model: nn.Module) -> None:
    """Put `Int8Linear` in the place of every linear layer of `model` but its heads."""
    if not hasattr(torch, "_int_mm"):
        raise ConfigError("precision int8 is not in this version of torch: use bf16 or auto")
    for name, child in model.named_children():
        if name in EXACT:
            continue
        if isinstance(child, nn.Linear):
            setattr(model, name, Int8Linear(child))
        else:
            use_int8(child)
