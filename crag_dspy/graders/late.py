"""Late interaction: each token of the question looks for its best match in the text (ColBERT, arXiv 2004.12832).

One vector for a text says what it is about; which of five sentences about a bridge names its designer, it tells
poorly. Token vectors keep that, and are made without the question too, so a text is still encoded once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LateInteraction(nn.Module):
    """The mean over the question's tokens of their best cosine with a token of the text, in [-1, 1], times `scale`.

    Tokens are projected to `width` and scaled to length one (section 3.2). The mean is weighted: which words of a
    question matter is learned, by a softmax over a linear function of their states, and starts as all alike.

    Args:
        size: d_model of the encoder.
        width: size of a token's vector; 128 in the paper.
    """

    def __init__(self, size: int, width: int = 128) -> None:
        super().__init__()
        self.project = nn.Linear(size, width)
        self.importance = nn.Linear(size, 1, bias=False)
        self.scale = nn.Parameter(torch.tensor([20.0]))
        nn.init.zeros_(self.importance.weight)

    @torch.no_grad()
    def start_from(self, states: Tensor) -> None:
        """Start at the principal components of some (tokens, size) states, where the first matches are good already.

        Their mean is taken out: the states of a trained encoder share a direction, beside which all cosines are near 1.
        """
        mean = states.float().mean(0)
        components = torch.linalg.svd(states.float() - mean, full_matrices=False)[2][
            : self.project.out_features
        ]
        self.project.weight[: len(components)] = components
        self.project.bias.copy_(-self.project.weight @ mean)

    def tokens(self, states: Tensor) -> Tensor:
        """(..., size) states to (..., width) vectors of length one."""
        return nn.functional.normalize(self.project(states), dim=-1)

    def weights(self, states: Tensor, mask: Tensor) -> Tensor:
        """(batch, length) importance of each token under the mask; a row sums to one."""
        asked: Tensor = self.importance(states)[..., 0].masked_fill(~mask, float("-inf"))
        return asked.softmax(-1).nan_to_num()  # a segment without tokens has none to weigh

    def forward(self, question: Tensor, weights: Tensor, text: Tensor, mask: Tensor) -> Tensor:
        """(batch, m, width) and (batch, m) of questions, (batch, n, width) and (batch, n) of texts to (batch,)."""
        cosines = question @ text.transpose(1, 2)
        best = cosines.masked_fill(~mask[:, None, :], -1.0).amax(-1)
        scaled: Tensor = self.scale * (best * weights).sum(-1)
        return scaled
