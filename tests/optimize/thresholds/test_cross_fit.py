"""What a choice is worth on questions that did not make it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crag_dspy.actions import Action, Thresholds
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.thresholds.cross_fit import cross_fit, cross_validate, repeats_of
from crag_dspy.optimize.thresholds.exact import BestThresholds, best_thresholds


def noise(seed: int = 9) -> BestThresholds:
    """The outcomes have nothing to do with the scores: no thresholds are really better than chance."""
    rng = np.random.default_rng(seed)
    scores = [[float(s)] for s in rng.uniform(-1, 1, 120)]
    return best_thresholds(scores, [{action: float(rng.random() < 0.5) for action in Action} for _ in scores])


def test_it_does_not_flatter_noise() -> None:
    best = noise()
    held_out = cross_validate(best)
    assert best.value > 0.55
    assert held_out.estimate.mean < best.value - 0.03
    assert held_out.change is None
    assert len(held_out.thresholds) == 5
    assert held_out == cross_validate(best)  # the seed decides the folds
    assert held_out != cross_validate(best, seed=1)


def test_it_finds_what_is_really_there() -> None:
    scores = [[float(s)] for s in np.random.default_rng(9).uniform(-1, 1, 120)]
    outcomes = [
        {Action.CORRECT: float(s > 0), Action.INCORRECT: float(s <= 0), Action.AMBIGUOUS: 0.5}
        for [s] in scores
    ]
    best = best_thresholds(scores, outcomes)
    held_out = cross_validate(best, before=best.devset.values[:, 2])
    assert held_out.estimate.mean > 0.95
    assert all(abs(pair.upper) < 0.1 for pair in held_out.thresholds)
    assert held_out.change is not None
    assert held_out.change.improved


def test_every_question_is_judged_by_what_was_chosen_without_its_document() -> None:
    groups = [i // 3 for i in range(30)]
    seen: list[set[int]] = []

    def choose(chosen: Any) -> set[int]:
        return {groups[i] for i in chosen}

    def worth(choice: set[int], held: Any) -> Any:
        judged = {groups[i] for i in held}
        assert not judged & choice
        assert len(judged | choice) == 10
        seen.append(judged)
        return np.ones(len(held))

    found = cross_fit(30, choose, worth, groups=groups, folds=4, repeats=3)
    assert found.values.shape == (3, 30)
    assert found.values.all()
    assert len(found.choices) == 4
    assert [sum(map(len, seen[i : i + 4])) for i in (0, 4, 8)] == [10, 10, 10]
    assert seen[:4] != seen[4:8]


def test_a_pair_that_is_kept_in_all_folds_changes_nothing() -> None:
    best = best_thresholds([[0.1], [0.4], [0.9]], [dict.fromkeys(Action, 1.0)] * 3)
    keep = Thresholds(0.2, 0.1)
    held_out = cross_validate(best, keep=keep, before=np.ones(3))
    assert held_out.thresholds == [keep] * 3
    assert held_out.change is not None
    assert (held_out.change.difference, held_out.change.equal) == (0, 3)


def test_costly_searches_are_repeated_less_often() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(-1, 1, (1000, 10)).tolist()
    devset = best_thresholds(scores, [dict.fromkeys(Action, 1.0)] * 1000).devset
    assert repeats_of(devset, "max", 5) == 10
    assert repeats_of(devset, "vote", 5) == 2
    assert repeats_of(devset.subset(np.arange(20)), "vote", 5) == 10


def test_too_little_to_cross_validate_is_told() -> None:
    one = best_thresholds([[0.1]], [dict.fromkeys(Action, 1.0)])
    with pytest.raises(ConfigError, match="2 folds and 2 questions, got 5 and 1"):
        cross_validate(one)
    with pytest.raises(ConfigError, match="2 folds and 2 questions, got 1 and 120"):
        cross_validate(noise(), 1)
