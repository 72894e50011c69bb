"""Weights stored as int8 come back within half a step of each row's scale."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crag_dspy.errors import ArtefactError
from crag_dspy.graders.int8 import dequantise, quantise


@given(st.integers(1, 8), st.integers(1, 8), st.floats(1e-6, 1e6), st.integers(0, 1000))
def test_a_matrix_comes_back_within_half_a_step(rows: int, columns: int, size: float, seed: int) -> None:
    weights = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * size
    back = dequantise(quantise({"w": weights}), "file")["w"]

    step = weights.abs().amax(dim=1, keepdim=True) / 127
    assert ((back - weights).abs() <= step / 2 * 1.001).all()


def test_rows_of_zeros_and_vectors_are_exact() -> None:
    state = {"w": torch.zeros(2, 3), "norm": torch.tensor([1.5, -2.0]), "steps": torch.tensor([3])}
    back = dequantise(quantise(state), "file")

    assert all(torch.equal(back[name], state[name]) for name in state)


def test_it_takes_a_quarter_of_the_space() -> None:
    stored = quantise({"w": torch.randn(64, 256)})

    assert sum(tensor.nbytes for tensor in stored.values()) < 64 * 256 * 4 / 3.9


def test_a_matrix_without_its_scales_is_refused_by_name() -> None:
    stored = quantise({"w": torch.randn(2, 3)})
    del stored["w.scale"]

    with pytest.raises(ArtefactError, match="w has no scale"):
        dequantise(stored, "model-int8.safetensors")
