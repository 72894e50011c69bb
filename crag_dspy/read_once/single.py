"""One vector for a text, beside its tokens': what a first stage of retrieval compares, over millions of passages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from crag_dspy.errors import ArtefactError

if TYPE_CHECKING:
    from collections.abc import Mapping


class SingleVector(nn.Module):
    """A weighted mean of a text's states, projected and scaled to length one.

    Which tokens count is learned: a softmax over a linear function of their states, which starts as all alike.

    Args:
        size: d_model of the encoder.
        width: numbers of the vector.
    """

    def __init__(self, size: int, width: int = 256) -> None:
        super().__init__()
        self.gate = nn.Linear(size, 1, bias=False)
        self.project = nn.Linear(size, width)
        self.scale = nn.Parameter(torch.tensor(20.0))
        nn.init.zeros_(self.gate.weight)

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> SingleVector:
        """The module whose sizes the tensors of single.safetensors tell. ArtefactError for other tensors."""
        try:
            weight = state["project.weight"]
            made = cls(weight.shape[1], weight.shape[0])
            made.load_state_dict({name: tensor.float() for name, tensor in state.items()})
        except (KeyError, RuntimeError, IndexError) as error:
            raise ArtefactError(f"single.safetensors: not the tensors of a single vector: {error}") from error
        return made

    @torch.no_grad()
    def start_from(self, means: Tensor, damping: float = 0.3) -> None:
        """Start at the whitened principal components of some (texts, size) mean states.

        `damping` is the share of the largest deviation that is added to each before dividing: small ones are noise.
        """
        middle = means.mean(0)
        _, sizes, axes = torch.linalg.svd(means - middle, full_matrices=False)
        axes, sizes = axes[: self.project.out_features], sizes[: self.project.out_features]
        deviations = sizes / len(means) ** 0.5
        self.project.weight.zero_()
        self.project.weight[: len(axes)] = axes / (deviations + damping * deviations[0])[:, None]
        self.project.bias.copy_(-self.project.weight @ middle)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(batch, length, size) states and a (batch, length) mask to (batch, width)."""
        shares = self.gate(states)[..., 0].masked_fill(~mask, float("-inf")).softmax(-1).nan_to_num()
        mean = torch.einsum("bld,bl->bd", states, shares)
        return nn.functional.normalize(self.project(mean), dim=-1)
