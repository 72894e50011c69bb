"""Int8 products: near the exact ones for tokens of any size, and NaN stays NaN."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from crag_dspy.graders.int8_linear import Int8Linear, use_int8


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9), st.booleans(), st.integers(0, 1000))
def test_each_token_is_within_its_own_rounding(
    inner: int, outer: int, tokens: int, bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    exact = nn.Linear(inner, outer, bias=bias)
    # Tokens whose sizes differ by a thousand: one scale for all would round the small ones to nothing.
    states = torch.randn(2, tokens, inner) * torch.logspace(-3, 0, tokens)[:, None]

    error = (Int8Linear(exact)(states) - exact(states)).abs()

    row, token = exact.weight.abs().amax(dim=1), states.abs().amax(dim=-1, keepdim=True)
    assert (error <= inner * row * token / 127 + 1e-6).all()


def test_nan_is_not_rounded_to_a_number() -> None:
    out = Int8Linear(nn.Linear(4, 3))(torch.tensor([[1.0, torch.nan, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]))

    assert out[0].isnan().all()
    assert not out[1].isnan().any()


@pytest.mark.parametrize("head", ["lm_head", "classification_head"])
def test_heads_stay_exact(head: str) -> None:
    model = nn.ModuleDict({"layer": nn.Linear(4, 4), head: nn.Sequential(nn.Linear(4, 2))})
    use_int8(model)

    assert isinstance(model["layer"], Int8Linear)
    assert isinstance(model[head][0], nn.Linear)
