"""Merging folds the adapter in: the same scores from one folder that names no base."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.pair_files import Pair
from crag_dspy.evaluator_train.training import grader as training
from crag_dspy.evaluator_train.training import merge as merging
from crag_dspy.evaluator_train.training.recipe import Recipe
from crag_dspy.graders import T5Grader

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def run(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("merge")
    base = tiny.save_plain(root / "base", "regression")
    plain = {
        "grader": {"name": "toy", "base": str(base), "head": "regression", "max_length": 48},
        "lora": {"r": 4},
        "training": {"max_steps": 10, "learning_rate": 1e-2, "precision": "fp32", "evaluate_every": 10},
    }
    pairs = [Pair(*pair) for pair in tiny.make_pairs(160)]
    training.train_grader(pairs[:120], pairs[120:], Recipe.model_validate(plain), root / "run")
    return root / "run"


@pytest.mark.parametrize("storage", ["fp32", "int8"])
def test_a_merged_grader_stands_alone_with_the_same_scores(
    tiny: Any, run: Path, tmp_path: Path, storage: Any
) -> None:
    pairs = [(question, text) for question, text, _ in tiny.make_pairs(30, seed=5)]
    adapter = T5Grader.from_pretrained(run / "grader", precision="fp32")
    spec = merging.merge(run / "grader", tmp_path / "whole", storage=storage, name="portable")
    merged = T5Grader.from_pretrained(tmp_path / "whole", precision="fp32")

    assert (spec.name, spec.base) == ("portable", "")
    assert merged.fingerprint == spec.fingerprint
    near = 1e-5 if storage == "fp32" else 0.05
    assert merged.score_pairs(pairs) == pytest.approx(adapter.score_pairs(pairs), abs=near)
    with pytest.raises(ConfigError, match="already holds a grader"):
        merging.merge(run / "grader", tmp_path / "whole")


def test_the_command_says_what_it_wrote(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run_command("grader", "merge", str(run / "grader"), "--out", str(tmp_path / "whole"), "--json")

    said = json.loads(capsys.readouterr().out)
    assert status == 0
    assert said["fingerprint"] == T5Grader.from_pretrained(tmp_path / "whole").fingerprint
    assert said["bytes"] == sum(path.stat().st_size for path in (tmp_path / "whole").iterdir())


def test_an_adapter_kept_apart_scores_as_before_and_needs_no_base(
    tiny: Any, run: Path, tmp_path: Path
) -> None:
    pairs = [(question, text) for question, text, _ in tiny.make_pairs(30, seed=6)]
    expected = T5Grader.from_pretrained(run / "grader", precision="fp32").score_pairs(pairs)

    spec = merging.merge(run / "grader", tmp_path / "whole", name="portable", keep_adapter=True)
    again = merging.merge(
        tmp_path / "whole", tmp_path / "small", keep_adapter=True, storage="int8", window=24, overlap=4
    )
    whole, small = (
        T5Grader.from_pretrained(tmp_path / name, precision="fp32") for name in ("whole", "small")
    )

    assert whole.score_pairs(pairs) == pytest.approx(expected, abs=1e-5)
    assert small.score_pairs(pairs) == pytest.approx(expected, abs=0.05)
    assert (spec.base, again.name, again.window, again.overlap) == ("", "portable", 24, 4)
    adapter = tmp_path / "small" / "adapter"
    assert (adapter / "adapter_model.safetensors").stat().st_size < (
        tmp_path / "whole" / "adapter" / "adapter_model.safetensors"
    ).stat().st_size
    assert json.loads((adapter / "adapter_config.json").read_text("utf-8"))["base_model_name_or_path"] == ""
    bare = T5Grader.from_pretrained(tmp_path / "whole", adapter=False, precision="fp32")
    assert bare.score_pairs(pairs) != pytest.approx(expected, abs=1e-3)


def test_what_has_no_adapter_has_none_to_keep_and_a_bad_window_is_named(run: Path, tmp_path: Path) -> None:
    merging.merge(run / "grader", tmp_path / "whole")

    with pytest.raises(ConfigError, match="no adapter to keep"):
        merging.merge(tmp_path / "whole", tmp_path / "other", keep_adapter=True)
    with pytest.raises(ConfigError, match=r"window: .*greater than or equal to 8, got 3"):
        merging.merge(run / "grader", tmp_path / "other", window=3)
