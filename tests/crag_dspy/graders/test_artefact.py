"""A grader folder is opened whole or refused, naming the file and the fix (field case 22)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from crag_dspy.actions import Thresholds
from crag_dspy.errors import ArtefactError, ConfigError
from crag_dspy.graders import T5Grader
from crag_dspy.graders.artefact import (
    Calibration,
    GraderSpec,
    SuggestedThresholds,
    read_spec,
    save_artefact,
    update_spec,
)

PAIR = ("which otter ?", ["the otter sleeps", "the old stone"])


def opened(folder: Path, **options: Any) -> T5Grader:
    return T5Grader.from_pretrained(folder, precision="fp32", **options)


@pytest.fixture
def segments(tiny: Any, tmp_path: Path) -> Path:
    return tiny.save_grader(tmp_path / "grader", "segments")


def test_what_was_saved_is_what_is_read(tiny: Any, tmp_path: Path) -> None:
    folder = tiny.save_grader(
        tmp_path / "g",
        "segments",
        calibration={"a": 0.5, "b": 1.0},
        thresholds={"upper": 0.4, "lower": -0.6},
        trained_on=["toy pairs"],
        metrics={"auc": 0.9},
    )
    grader = opened(folder)

    assert read_spec(folder) == grader.spec
    assert grader.thresholds == Thresholds(upper=0.4, lower=-0.6)
    assert grader.fingerprint == grader.spec.fingerprint
    assert {"config.json", "head.safetensors", "model.safetensors", "tokenizer.json"} <= set(
        grader.spec.files
    )


@pytest.mark.parametrize("head", ["true_false", "regression", "segments"])
def test_scores_survive_saving_in_every_storage(tiny: Any, tmp_path: Path, head: str) -> None:
    plain, half, small = (
        opened(tiny.save_grader(tmp_path / storage, head, storage=storage))
        for storage in ("fp32", "bf16", "int8")
    )
    scores = plain.score(*PAIR)

    assert len({plain.fingerprint, half.fingerprint, small.fingerprint}) == 3
    assert half.score(*PAIR) == pytest.approx(scores, abs=0.02)
    assert small.score(*PAIR) == pytest.approx(scores, abs=0.02)


@pytest.mark.parametrize("name", ["config.json", "head.safetensors", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(segments: Path, name: str) -> None:
    (segments / name).unlink()

    with pytest.raises(ArtefactError, match=f"{name} is missing"):
        opened(segments)


@pytest.mark.parametrize("name", ["head.safetensors", "model.safetensors", "tokenizer.json"])
def test_a_truncated_file_is_named(segments: Path, name: str) -> None:
    whole = (segments / name).read_bytes()
    (segments / name).write_bytes(whole[: len(whole) // 2])

    with pytest.raises(ArtefactError, match=f"{name}.*truncated"):
        opened(segments)


def test_files_of_another_grader_are_refused(tiny: Any, segments: Path, tmp_path: Path) -> None:
    other = tiny.save_grader(tmp_path / "other", "segments", seed=1)
    shutil.copy(other / "head.safetensors", segments / "head.safetensors")

    with pytest.raises(ArtefactError, match=r"head\.safetensors .* belongs to another grader"):
        opened(segments)


def test_weights_that_grader_json_does_not_name_are_refused(
    tiny: Any, segments: Path, tmp_path: Path
) -> None:
    other = tiny.save_grader(tmp_path / "other", "segments", storage="int8")
    shutil.copy(other / "model-int8.safetensors", segments)

    with pytest.raises(ArtefactError, match=r"model-int8\.safetensors is not named"):
        opened(segments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": "true-false"}, "grader.json: head: .*true-false"),
        ({"calibration": {"a": -1, "b": 0}}, "grader.json: calibration.a: .*-1"),
        ({"thresholds": {"upper": -0.5, "lower": 0.5}}, "lower must not be above upper"),
        ({"temprature": 2}, "grader.json: temprature"),
        ({"format_version": 2}, "grader.json: format_version"),
        ({"scale": "clip"}, "fingerprint does not fit"),
    ],
)
def test_a_grader_json_that_does_not_hold_is_refused_by_field(
    segments: Path, change: dict[str, Any], message: str
) -> None:
    path = segments / "grader.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **change}), encoding="utf-8")

    with pytest.raises(ArtefactError, match=message):
        opened(segments)


def test_settings_are_changed_with_their_fingerprint(segments: Path) -> None:
    before = opened(segments)
    spec = update_spec(
        segments,
        calibration=Calibration(a=2.0, b=-1.0),
        thresholds=SuggestedThresholds(upper=0.5, lower=-0.5),
        metrics={"auc": 0.8},
    )
    after = opened(segments)

    assert after.fingerprint == spec.fingerprint != before.fingerprint
    assert after.thresholds == Thresholds(0.5, -0.5)
    assert after.score(*PAIR) != before.score(*PAIR)
    assert (
        update_spec(segments, metrics={}).fingerprint == spec.fingerprint
    )  # it describes, it does not score


def test_a_regression_checkpoint_without_its_head_is_refused(tiny: Any, tmp_path: Path) -> None:
    folder = tiny.save_plain(tmp_path / "plain", "regression")
    from crag_dspy.graders.artefact import save_tensors
    from crag_dspy.graders.backbones import tensors

    state = tensors(folder / "model.safetensors")
    headless = {name: tensor for name, tensor in state.items() if "classification_head" not in name}
    save_tensors(headless, folder / "model.safetensors")

    with pytest.raises(ArtefactError, match=r"classification_head.* the head was not saved"):
        opened(folder)


def test_a_regression_adapter_without_its_head_is_refused(tiny: Any, tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig, TaskType, get_peft_model

    base = tiny.save_plain(tmp_path / "base", "regression")
    for name, saved in (("with", ["classification_head"]), ("without", None)):
        torch.manual_seed(0)
        config = LoraConfig(task_type=TaskType.SEQ_CLS, r=2, target_modules=["q"], modules_to_save=saved)
        model = get_peft_model(tiny.make_model("regression"), config)
        if saved is None:  # PEFT guesses the name for this task; an older one, or another class, did not
            model.peft_config["default"].modules_to_save = None
        model.save_pretrained(tmp_path / name)
        drop_head = saved is None
        if drop_head:
            _drop_head(tmp_path / name / "adapter_model.safetensors")

    assert len(opened(base, adapter=tmp_path / "with").score(*PAIR)) == 2
    with pytest.raises(ArtefactError, match="modules_to_save=\\['classification_head'\\]"):
        opened(base, adapter=tmp_path / "without")


def _drop_head(path: Path) -> None:
    from crag_dspy.graders.artefact import save_tensors
    from crag_dspy.graders.backbones import tensors

    kept = {name: tensor for name, tensor in tensors(path).items() if "classification_head" not in name}
    save_tensors(kept, path)


def test_a_checkpoint_with_several_classes_is_refused(tiny: Any, tmp_path: Path) -> None:
    import transformers

    config = tiny.make_model("regression").config
    config.num_labels = 3
    transformers.T5ForSequenceClassification(config).save_pretrained(tmp_path / "plain")
    tiny.make_tokenizer().save_pretrained(tmp_path / "plain")

    with pytest.raises(ArtefactError, match="num_labels=3"):
        opened(tmp_path / "plain")


def test_pickled_weights_are_not_opened(tiny: Any, tmp_path: Path) -> None:
    folder = tiny.save_plain(tmp_path / "plain")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")

    with pytest.raises(ArtefactError, match=r"pytorch_model\.bin is pickled"):
        opened(folder)


def test_other_kinds_of_models_are_refused(tiny: Any, tmp_path: Path) -> None:
    folder = tiny.save_plain(tmp_path / "plain")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "bert"}), encoding="utf-8")
    with pytest.raises(ArtefactError, match="model_type 'bert' is not a T5"):
        opened(folder)
    with pytest.raises(ArtefactError, match="has no head to grade with"):
        opened(tiny.save_plain(tmp_path / "encoder", "segments"))
    with pytest.raises(ArtefactError, match=r"config\.json is missing"):
        opened(tmp_path)


@pytest.mark.parametrize("name", ["nothing-here", "some/where/else", "./missing"])
def test_a_name_that_is_nothing_says_so(name: str) -> None:
    with pytest.raises(ArtefactError, match=name):
        T5Grader.from_pretrained(name)


def test_verdict_words_must_be_single_tokens(tiny: Any, tmp_path: Path) -> None:
    folder = tiny.save_plain(tmp_path / "plain")

    with pytest.raises(ConfigError, match="'truthful otter' is not one token"):
        opened(folder, words=("truthful otter", "false"))


def test_a_head_is_saved_exactly_where_it_belongs(tiny: Any, tmp_path: Path) -> None:
    spec = GraderSpec(name="x", head="segments", prompt_format="segments")

    with pytest.raises(ArtefactError, match="head tensors belong to the segments head"):
        save_artefact(
            tmp_path / "g", spec, tokenizer=tiny.make_tokenizer(), model=tiny.make_model("segments")
        )
    assert not (tmp_path / "g").exists()


def test_saving_over_an_older_grader_leaves_nothing_of_it(tiny: Any, tmp_path: Path) -> None:
    tiny.save_grader(tmp_path / "g", "segments", storage="int8")
    tiny.save_grader(tmp_path / "g", "true_false", storage="fp32")

    assert not (tmp_path / "g" / "model-int8.safetensors").exists()
    assert not (tmp_path / "g" / "head.safetensors").exists()
    assert opened(tmp_path / "g").spec.head == "true_false"


def test_no_path_of_this_machine_is_written(segments: Path) -> None:
    for path in segments.iterdir():
        assert str(segments.parent).encode() not in path.read_bytes()
