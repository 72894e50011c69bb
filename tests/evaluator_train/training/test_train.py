"""A grader is trained, saved, opened elsewhere with the same scores; a killed run ends as an unbroken one."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import run_command

from crag_dspy.errors import ArtefactError, ConfigError, TrainingError
from crag_dspy.evaluator_train.pairs.pair_files import Pair, read_pairs
from crag_dspy.evaluator_train.training.grader import TrainingResult, train_grader
from crag_dspy.evaluator_train.training.merge import merge
from crag_dspy.evaluator_train.training.recipe import Recipe
from crag_dspy.graders import T5Grader

STEPS = {"max_steps": 60, "batch_size": 16, "learning_rate": 1e-2, "precision": "fp32", "evaluate_every": 20}


def recipe(base: Path, head: str, lora: dict[str, Any] | None = None, **training: Any) -> Recipe:
    plain: dict[str, Any] = {
        "grader": {"name": "toy", "base": str(base), "head": head, "max_length": 48},
        "training": {**STEPS, **training},
    }
    return Recipe.model_validate({**plain, **({"lora": lora} if lora is not None else {})})


@pytest.fixture(scope="session")
def pairs(tiny: Any) -> tuple[list[Pair], list[Pair]]:
    train, dev = tiny.make_pairs(600), tiny.make_pairs(100, seed=9)
    return [Pair(*pair) for pair in train], [Pair(*pair) for pair in dev]


@pytest.fixture(scope="session")
def base(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_plain(tmp_path_factory.mktemp("base"))


HEADS = ("true_false", "regression", "segments")


@pytest.fixture(scope="session")
def trained(base: Path, pairs: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrainingResult]:
    """One LoRA run a head."""
    runs = tmp_path_factory.mktemp("runs")
    return {head: train_grader(*pairs, recipe(base, head, lora={"r": 16}), runs / head) for head in HEADS}


@pytest.mark.parametrize("head", HEADS)
def test_lora_learns_a_separable_toy(head: str, trained: dict[str, TrainingResult]) -> None:
    result = trained[head]

    assert result.auc > 0.9
    assert result.auc > result.auc_before
    assert result.trained_parameters < result.parameters


FRESH = """
import json, pathlib, sys
from crag_dspy.graders import T5Grader
for run in map(pathlib.Path, sys.argv[1:]):
    grader = T5Grader.from_pretrained(run / "grader", precision="fp32")
    rows = map(json.loads, (run / "dev.jsonl").read_text("utf-8").splitlines())
    print(json.dumps([grader.fingerprint, grader.raw_pairs([(row["question"], row["text"]) for row in rows])]))
"""


def test_a_fresh_process_gives_the_logits_of_the_model_that_was_trained(
    trained: dict[str, TrainingResult],
) -> None:
    runs = [result.grader.parent for result in trained.values()]
    done = subprocess.run(
        [sys.executable, "-c", FRESH, *map(str, runs)], capture_output=True, text=True, check=True
    )
    for run, line in zip(runs, done.stdout.splitlines(), strict=True):
        fingerprint, logits = json.loads(line)
        rows = [json.loads(row) for row in (run / "dev.jsonl").read_text("utf-8").splitlines()]
        assert logits == pytest.approx([row["raw"] for row in rows], abs=1e-5)
        assert fingerprint == T5Grader.from_pretrained(run / "grader").fingerprint


def test_all_weights_can_be_trained_and_named_ones_left_alone(base: Path, pairs: Any, tmp_path: Path) -> None:
    from crag_dspy.graders.backbones import tensors

    chosen = recipe(base, "true_false", learning_rate=3e-3, freeze=["shared"])
    result = train_grader(*pairs, chosen, tmp_path / "run")

    assert result.auc > 0.9
    before, after = tensors(base / "model.safetensors"), tensors(result.grader / "model.safetensors")
    assert (before["shared.weight"] == after["shared.weight"]).all()
    name = "encoder.block.0.layer.0.SelfAttention.q.weight"
    assert (before[name] != after[name]).any()


def test_a_run_folder_says_exactly_what_was_done(base: Path, pairs: Any, tmp_path: Path) -> None:
    chosen = recipe(base, "segments", lora={"r": 4, "targets": ["q", "v"]}, max_steps=40, evaluate_every=20)
    result = train_grader(*pairs, chosen, tmp_path / "run")

    config = json.loads((tmp_path / "run" / "config.json").read_text("utf-8"))
    assert Recipe.model_validate(config["recipe"]) == chosen
    assert config["pairs"]["train_count"] == 600
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text("utf-8"))
    assert metrics["auc"] == result.auc
    curves = [
        json.loads(line) for line in (tmp_path / "run" / "curves.jsonl").read_text("utf-8").splitlines()
    ]
    assert [row["step"] for row in curves if "eval_auc" in row] == [20, 40]
    assert max(row["eval_auc"] for row in curves if "eval_auc" in row) == pytest.approx(result.auc)
    assert all("loss" in row or "eval_auc" in row or "train_loss" in row for row in curves)


def test_training_stops_when_the_development_auc_no_longer_rises(
    base: Path, pairs: Any, tmp_path: Path
) -> None:
    chosen = recipe(base, "segments", lora={}, max_steps=2000, evaluate_every=10, patience=2)
    result = train_grader(*pairs, chosen, tmp_path / "run")

    assert result.stopped_early
    assert result.steps == result.best_step + 20


KILLED = """
import json, os, signal, sys
from crag_dspy.evaluator_train.training import fitting
from crag_dspy.evaluator_train.training import grader as train
from crag_dspy.evaluator_train.training.merge import merge
from crag_dspy.evaluator_train.training.recipe import Recipe
from crag_dspy.evaluator_train.pairs.pair_files import read_pairs

saves = 0
write = fitting.GraderTrainer._save_optimizer_and_scheduler
def killed_in_the_second_checkpoint(self, folder):
    global saves
    saves += 1
    if saves == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, folder)
fitting.GraderTrainer._save_optimizer_and_scheduler = killed_in_the_second_checkpoint

recipe = Recipe.model_validate_json(sys.argv[1])
train.train_grader(read_pairs(sys.argv[2], labels="soft"), read_pairs(sys.argv[3], labels="soft"), recipe, sys.argv[4])
"""


@pytest.mark.slow
def test_a_run_killed_while_it_writes_a_checkpoint_resumes_to_the_same_grader(
    base: Path, pairs: Any, tmp_path: Path
) -> None:
    from crag_dspy.graders.backbones import tensors

    chosen = recipe(base, "true_false", lora={"r": 8, "dropout": 0.1}, max_steps=60, evaluate_every=20)
    files = [
        write_rows(tmp_path / f"{name}.jsonl", part)
        for name, part in zip(("train", "dev"), pairs, strict=True)
    ]
    read = [read_pairs(file, labels="soft") for file in files]  # as the killed process reads them
    whole = train_grader(*read, chosen, tmp_path / "whole")

    killed = subprocess.run(
        [sys.executable, "-c", KILLED, chosen.model_dump_json(), *map(str, files), str(tmp_path / "killed")],
        capture_output=True,
        text=True,
        env={**os.environ},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "killed" / "grader").exists()
    resumed = train_grader(*read, chosen, tmp_path / "killed")

    assert (resumed.auc, resumed.best_step) == (whole.auc, whole.best_step)
    before = tensors(whole.grader / "adapter_model.safetensors")
    after = tensors(resumed.grader / "adapter_model.safetensors")
    assert before.keys() == after.keys()
    assert all((before[name] - after[name]).abs().max() < 1e-6 for name in before)
    steps = [
        json.loads(line)["step"]
        for line in (tmp_path / "killed" / "curves.jsonl").read_text("utf-8").splitlines()
    ]
    assert steps == sorted(steps)


def test_a_folder_of_another_run_is_not_written_over(base: Path, pairs: Any, tmp_path: Path) -> None:
    short = recipe(base, "segments", lora={}, max_steps=2, evaluate_every=2)
    train_grader(*pairs, short, tmp_path / "run")

    other = recipe(base, "segments", lora={}, max_steps=4, evaluate_every=2)
    with pytest.raises(ConfigError, match=r"training\.max_steps was 2 and is 4"):
        train_grader(*pairs, other, tmp_path / "run")
    assert train_grader(*pairs, other, tmp_path / "run", fresh=True).steps == 4

    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"kind": "compile"}', "utf-8")
    for fresh in (False, True):
        with pytest.raises(ConfigError, match="a run of another kind"):
            train_grader(*pairs, short, tmp_path / "other", fresh=fresh)


def test_the_same_training_again_says_the_same_and_trains_no_step(
    base: Path, pairs: Any, tmp_path: Path
) -> None:
    """As an optimization does: the same call goes on, and has nothing left to do when it was finished."""
    short = recipe(base, "segments", lora={}, max_steps=4, evaluate_every=2)
    first = train_grader(*pairs, short, tmp_path / "run")
    curves = (tmp_path / "run" / "curves.jsonl").read_bytes()

    again = train_grader(*pairs, short, tmp_path / "run")

    assert (again.auc_before, again.auc, again.best_step, again.steps) == (
        first.auc_before,
        first.auc,
        first.best_step,
        first.steps,
    )
    assert (tmp_path / "run" / "curves.jsonl").read_bytes() == curves


def test_a_loss_that_is_not_a_number_ends_the_run_at_its_step(base: Path, pairs: Any, tmp_path: Path) -> None:
    wild = recipe(base, "true_false", learning_rate=1e30, warmup=0.0, max_steps=10, evaluate_every=10)

    with pytest.raises(TrainingError, match=r"loss is (nan|inf) at step \d+: lower training\.learning_rate"):
        train_grader(*pairs, wild, tmp_path / "run")
    assert not (tmp_path / "run" / "grader").exists()


def test_an_adapter_is_refused_on_another_base_than_the_one_it_was_trained_on(
    tiny: Any, pairs: Any, tmp_path: Path
) -> None:
    base = tiny.save_plain(tmp_path / "base")
    chosen = recipe(base, "regression", lora={}, max_steps=2, evaluate_every=2)
    result = train_grader(*pairs, chosen, tmp_path / "run")

    tiny.save_plain(base, seed=1)

    with pytest.raises(ArtefactError, match="was trained on another model than base"):
        T5Grader.from_pretrained(result.grader)


def test_soft_labels_teach_a_scale(base: Path, pairs: Any, tmp_path: Path) -> None:
    train, dev = pairs
    soft = [Pair(each.question, each.text, 0.2 + 0.6 * each.label) for each in train]
    result = train_grader(soft, dev, recipe(base, "segments", lora={"r": 16}, max_steps=80), tmp_path / "run")

    scores = T5Grader.from_pretrained(result.grader, precision="fp32").score_pairs(
        [(t.question, t.text) for t in dev]
    )
    relevant = [(score + 1) / 2 for score, each in zip(scores, dev, strict=True) if each.label == 1]
    assert sum(relevant) / len(relevant) == pytest.approx(0.8, abs=0.1)


def test_development_pairs_need_both_labels(base: Path, pairs: Any, tmp_path: Path) -> None:
    train, dev = pairs
    with pytest.raises(ConfigError, match="only label 1: relevant and irrelevant"):
        train_grader(
            train, [each for each in dev if each.label == 1], recipe(base, "segments"), tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


def test_an_answer_at_the_end_of_five_thousand_words_is_found(
    trained: dict[str, TrainingResult], tiny: Any
) -> None:
    """Field case 27: a long text is judged whole, not by its first 512 tokens."""
    rng = random.Random(0)
    filler = " ".join(rng.choices(tiny.FILLERS, k=5000))
    answer = " ".join(rng.choices(tiny.ANIMALS, k=12))
    for result in trained.values():
        grader = T5Grader.from_pretrained(result.grader, precision="fp32")
        without, with_answer, alone = grader.score(
            "which old does like ?", [filler, f"{filler} {answer}", answer]
        )
        assert without is not None
        assert with_answer is not None
        assert without < 0 < with_answer
        assert alone == pytest.approx(with_answer, abs=0.5)


def test_attention_apart_and_gradient_checkpointing_train_too(base: Path, pairs: Any, tmp_path: Path) -> None:
    plain = recipe(base, "segments", lora={"r": 16}, gradient_checkpointing=True).model_dump(mode="json")
    plain["grader"]["attention"] = "apart"
    result = train_grader(*pairs, Recipe.model_validate(plain), tmp_path / "run")

    grader = T5Grader.from_pretrained(result.grader, precision="fp32")
    assert result.auc > 0.9
    assert grader.spec.attention == "apart"
    rows = [json.loads(line) for line in (tmp_path / "run" / "dev.jsonl").read_text("utf-8").splitlines()]
    raws = grader.raw_pairs([(row["question"], row["text"]) for row in rows])
    assert raws == pytest.approx([row["raw"] for row in rows], abs=1e-4)


def test_late_interaction_trains_and_is_trained_on(base: Path, pairs: Any, tmp_path: Path) -> None:
    plain = recipe(base, "segments", lora={"r": 16}).model_dump(mode="json")
    plain["grader"] |= {"attention": "apart", "late": 8}
    first = train_grader(*pairs, Recipe.model_validate(plain), tmp_path / "first")
    assert first.auc > 0.9

    merge(first.grader, tmp_path / "merged")
    plain["grader"]["base"] = str(tmp_path / "merged")
    plain["training"]["max_steps"] = 1
    again = train_grader(*pairs, Recipe.model_validate(plain), tmp_path / "again")
    assert again.auc_before == pytest.approx(first.auc, abs=1e-6)  # what it had learned was not started anew


def test_texts_that_cannot_be_trained_on_whole_are_counted(
    base: Path, pairs: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train, dev = pairs
    odd = [*train, Pair("which", "the river " * 60, 0), Pair("which", "</s>", 0)]

    with caplog.at_level("WARNING"):
        train_grader(odd, dev, recipe(base, "segments", max_steps=2, evaluate_every=2), tmp_path / "run")

    assert "1 of 602 training pairs have no token" in caplog.text
    assert "1 of 602 training texts are longer than max_length=48" in caplog.text


def write_rows(path: Path, targets: list[Pair]) -> Path:
    rows = [{"question": t.question, "text": t.text, "label": t.label} for t in targets]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_command_trains_from_files_and_prints_one_json_line(
    base: Path, pairs: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_rows(tmp_path / "pairs.jsonl", pairs[0])
    settings = [f"training.{name}={value}" for name, value in {**STEPS, "max_steps": 4}.items()]
    changes = [part for setting in [*settings, "grader.max_length=48"] for part in ("--set", setting)]
    args = ["--recipe", "t5-large", "--base", str(base), "--head", "regression", "--pairs", str(file)]

    status = run_command("grader", "train", *args, "--run", str(tmp_path / "run"), "--json", *changes)

    said = json.loads(capsys.readouterr().out)
    assert status == 0
    assert said["steps"] == 4
    assert T5Grader.from_pretrained(said["grader"]).spec.head == "regression"
    counts = json.loads((tmp_path / "run" / "config.json").read_text("utf-8"))["pairs"]
    assert counts["train_count"] + counts["dev_count"] == len(pairs[0])
    assert 0 < counts["dev_count"] < counts["train_count"]


@pytest.mark.slow
def test_several_processes_make_one_run(base: Path, pairs: Any, tmp_path: Path) -> None:
    files = [str(write_rows(tmp_path / f"{n}.jsonl", part)) for n, part in enumerate(pairs)]
    recipe_file = tmp_path / "recipe.toml"
    recipe_file.write_text(
        f'[grader]\nname = "toy"\nbase = "{base}"\nhead = "segments"\nmax_length = 48\n[lora]\nr = 16\n',
        "utf-8",
    )
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom crag_dspy.commands.cli import main\nsys.exit(main())\n", encoding="utf-8"
    )
    settings = [f"training.{name}={value}" for name, value in STEPS.items()]
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--nproc-per-node=2",
                "--standalone",
                "--",  # what follows is ours: it would take --run for one of its own
                str(program),
            ),
            *(
                "grader",
                "train",
                "--recipe",
                str(recipe_file),
                "--pairs",
                files[0],
                "--dev",
                files[1],
                "--json",
            ),
            *("--run", str(tmp_path / "run")),
            *(part for setting in settings for part in ("--set", setting)),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=600,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["auc"] > 0.9
    assert (tmp_path / "run" / "checkpoints" / "checkpoint-60" / "rng_state_1.pth").is_file()
