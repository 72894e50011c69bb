"""Late interaction: what a token matches, and that padding, batches and the way of computing change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from crag_dspy.errors import ArtefactError
from crag_dspy.graders.batches import raw_scores
from crag_dspy.graders.heads import SegmentHead
from crag_dspy.graders.late import LateInteraction
from crag_dspy.graders.t5 import T5Grader


def unit(*degrees: float) -> torch.Tensor:
    """Vectors of length one in the plane, by their angles: (1, tokens, 2)."""
    angles = torch.deg2rad(torch.tensor(degrees))
    return torch.stack([angles.cos(), angles.sin()], dim=-1)[None]


def test_each_question_token_counts_by_its_best_match() -> None:
    late = LateInteraction(2, 2)
    late.scale.data.fill_(1.0)
    question, text = unit(0.0, 90.0), unit(0.0, 30.0, 180.0)
    every = torch.ones(1, 3, dtype=torch.bool)

    alike = late(question, torch.tensor([[0.5, 0.5]]), text, every)
    assert alike.item() == pytest.approx((1.0 + 0.5) / 2, abs=1e-6)  # cos 0 and cos 60
    second_only = late(question, torch.tensor([[0.0, 1.0]]), text, every)
    assert second_only.item() == pytest.approx(0.5, abs=1e-6)
    without_the_second = late(question, torch.tensor([[0.0, 1.0]]), text, torch.tensor([[True, False, True]]))
    assert without_the_second.item() == pytest.approx(0.0, abs=1e-6)


def test_importance_starts_alike_and_leaves_out_what_is_masked() -> None:
    late = LateInteraction(4, 2)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    assert late.weights(torch.randn(2, 3, 4), mask).tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]


def test_a_start_from_states_keeps_their_cosines_around_their_mean() -> None:
    """States with a shared direction and 3 others: 3 components tell as much of them as all 16 numbers."""
    torch.manual_seed(0)
    states = torch.randn(50, 3) @ torch.randn(3, 16) + 40 * torch.ones(16)
    late = LateInteraction(16, 3)
    late.start_from(states)
    centred = torch.nn.functional.normalize(states - states.mean(0), dim=-1)
    found = late.tokens(states)
    assert torch.allclose(found @ found.T, centred @ centred.T, atol=1e-3)


def test_the_sizes_of_a_head_are_read_off_its_tensors() -> None:
    for hidden, projected, late in ((8, None, 4), (0, None, 4), (0, 6, 4), (8, 6, None)):
        head = SegmentHead(16, hidden, projected, late)
        again = SegmentHead.from_state(dict(head.state_dict()), "head.safetensors")
        states, marks = torch.randn(2, 5, 16), torch.tensor([[1, 1, 0, 2, 2], [1, 0, 2, 0, 0]])
        assert torch.equal(again(states, marks), head(states, marks))


def test_a_head_that_lacks_a_tensor_is_refused() -> None:
    state = dict(SegmentHead(16, 8, None, 4).state_dict())
    del state["late.scale"]
    with pytest.raises(ArtefactError, match=r"late\.scale"):
        SegmentHead.from_state(state, "head.safetensors")


@pytest.mark.parametrize("attention", ["apart", "together"])
def test_scores_do_not_depend_on_batches_or_on_the_way(attention: str, tiny: Any, tmp_path: Path) -> None:
    tiny.save_grader(tmp_path / "grader", "segments", attention=attention, window=16, overlap=4, late=8)
    grader = T5Grader.from_pretrained(tmp_path / "grader", precision="fp32")
    fill, animals = list(tiny.FILLERS), list(tiny.ANIMALS)
    texts = [" ".join(animals[:3]), " ".join(fill[3:7]), animals[1], " ".join(fill * 8)]
    pairs = [(" ".join(fill[:size]), text) for size in (2, 7) for text in texts]

    at_once = grader.raw_pairs(pairs)
    one_by_one = [grader.raw_pairs([pair])[0] for pair in pairs]
    in_one_input = raw_scores(grader.scorer, grader.encoder, pairs, 64, "cpu").raws
    assert None not in at_once
    assert len(set(at_once)) == len(pairs)
    assert at_once == pytest.approx(one_by_one, abs=1e-4)
    assert at_once == pytest.approx(in_one_input, abs=1e-4)
