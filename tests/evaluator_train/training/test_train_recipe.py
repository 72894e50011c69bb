"""Recipes are strict: what is misspelt, out of range or of another kind is an error that names it."""

from __future__ import annotations

import re
import shlex
from importlib import resources
from typing import TYPE_CHECKING

import pytest

from crag_dspy.commands import cli
from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.training.recipe import read_recipe, recipe_names
from crag_dspy.graders.prompt_format import FORMATS

if TYPE_CHECKING:
    from pathlib import Path

SMALL = """
[grader]
name = "small"
base = "google-t5/t5-small"
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_of_the_package_is_whole(name: str) -> None:
    recipe = read_recipe(name)

    assert recipe.grader.name == name
    assert recipe.lora is not None
    assert recipe.grader.spec().prompt_format in FORMATS
    assert recipe.training.precision != "fp16"


def test_the_commands_that_a_recipe_names_have_the_options_it_gives_them() -> None:
    text = (resources.files("crag_dspy.evaluator_train.training.recipes") / "mini.toml").read_text("utf-8")
    told = re.sub(r"\\\n#", "", text)
    named = [cli.parsed(shlex.split(line)) for line in re.findall(r"^# +crag-dspy ([^|;&>\n]+)", told, re.M)]

    assert {args.command.removeprefix("grader ") for args in named} == {
        "pairs",
        "train",
        "merge",
        "calibrate",
        "benchmark",
    }


def test_the_recipes_that_are_promised_are_there() -> None:
    assert {"t5-large", "mt5-base"} <= set(recipe_names())


def test_a_short_recipe_has_the_defaults_of_the_paper_and_trains_all_weights(small: Path) -> None:
    recipe = read_recipe(small)

    assert (recipe.grader.head, recipe.grader.spec().prompt_format) == ("true_false", "monot5")
    assert recipe.lora is None


@pytest.mark.parametrize(
    ("head", "fmt", "scale"),
    [("true_false", "monot5", "tanh"), ("regression", "crag", "clip"), ("segments", "segments", "tanh")],
)
def test_each_head_has_its_format_and_scale(small: Path, head: str, fmt: str, scale: str) -> None:
    spec = read_recipe(small, [f"grader.head={head}"]).grader.spec()

    assert (spec.prompt_format, spec.scale) == (fmt, scale)


def test_changes_are_toml_or_plain_words(small: Path) -> None:
    recipe = read_recipe(
        small,
        ["grader.base=google/mt5-base", 'grader.words=["yes", "no"]', "lora.r=8", "training.epochs=0.5"],
    )

    assert (recipe.grader.base, recipe.grader.words) == ("google/mt5-base", ("yes", "no"))
    assert recipe.lora is not None
    assert (recipe.lora.r, recipe.training.epochs) == (8, 0.5)


@pytest.mark.parametrize("value", ["fp16", "float16", "half", 16])
def test_fp16_is_refused_before_any_work(small: Path, value: object) -> None:
    """Field case 23."""
    with pytest.raises(ConfigError, match=r"training\.precision: T5 overflows in fp16 .* use bf16 or fp32"):
        read_recipe(small, [f"training.precision={value!r}"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training.learningrate=1", r"unknown setting training\.learningrate: did you mean learning_rate\?"),
        ("trainig.epochs=1", "unknown setting trainig: did you mean training"),
        ("training.epochs=0", r"training\.epochs: .*greater than 0"),
        ("grader.head=classify", r"grader\.head: "),
        ("grader.prompt_format=segments", "prompt_format 'segments' does not go with head 'true_false'"),
        ("lora.r=0", r"lora\.r: "),
        ("epochs=1", r"--set takes section\.key=value"),
        ("training.epochs", r"--set takes section\.key=value"),
    ],
)
def test_what_is_wrong_is_named(small: Path, change: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_recipe(small, [change])


def test_a_recipe_that_is_not_there_lists_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="t5-large"):
        read_recipe("t5-huge")
    (tmp_path / "broken.toml").write_text("[grader\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="not TOML"):
        read_recipe(tmp_path / "broken.toml")
