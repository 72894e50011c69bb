"""Graders by the names that a command line gives them."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from crag_dspy.errors import CragError
from crag_dspy.graders.adapt import as_grader
from crag_dspy.graders.best_strip import BestStrip

if TYPE_CHECKING:
    from pathlib import Path


def with_adapter(tiny: Any, folder: Path) -> Path:
    """A tiny grader whose LoRA adapter, with random weights, lies beside its weights."""
    import torch
    from peft import LoraConfig, get_peft_model

    from crag_dspy.graders.artefact import GraderSpec, save_artefact

    adapted = get_peft_model(
        tiny.make_model(), LoraConfig(target_modules=["q", "v"], init_lora_weights=False)
    )
    torch.manual_seed(1)
    adapted.save_pretrained(folder / "lora")
    spec = GraderSpec(name="tiny", head="true_false", prompt_format="monot5")
    save_artefact(
        folder / "grader",
        spec,
        tokenizer=tiny.make_tokenizer(),
        model=tiny.make_model(),
        adapter=folder / "lora",
    )
    return folder / "grader"


def test_a_folder_opens_with_its_adapter_and_as_its_base_without(tiny: Any, tmp_path: Path) -> None:
    folder = with_adapter(tiny, tmp_path)
    plain = tiny.save_grader(tmp_path / "plain")
    pair = ("which small does like the river ?", "the otter walks under stone")
    tuned, base, untuned = (
        as_grader(name).score(pair[0], [pair[1]])[0] for name in (str(folder), f"base:{folder}", str(plain))
    )
    assert base == pytest.approx(untuned, abs=1e-6)
    assert tuned != pytest.approx(untuned, abs=1e-3)


def test_a_grader_of_your_own_is_named_by_its_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "own_graders.py").write_text(
        "class Half:\n    name = fingerprint = 'half'\n"
        "    def score(self, question, texts):\n        return [0.5 for _ in texts]\n"
        "half = Half()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert as_grader("python:own_graders:half").score("q", ["a", "b"]) == [0.5, 0.5]


@pytest.mark.parametrize("name", ["no-such-grader", "python:nowhere:x", "base:no-such-grader"])
def test_a_name_that_means_nothing_is_an_error_with_the_name(name: str) -> None:
    with pytest.raises(CragError, match=name.split(":")[-1] if name[0] == "b" else name.split(":")[0]):
        as_grader(name)


def test_embeddings_are_named_with_their_model() -> None:
    assert as_grader("embedding").name == "embedding:minilm"


@pytest.mark.local_lm
@pytest.mark.slow
def test_the_local_language_model_judges() -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("needs the `local` extra")
    (score,) = as_grader("lm:local").score("Who built the tower?", ["Smeaton built the tower."])
    assert score in (-1.0, 1.0, None)


def test_a_passage_can_be_judged_by_its_best_strip(tiny: Any, tmp_path: Path) -> None:
    folder = tiny.save_grader(tmp_path / "plain")
    question, strips = "which small does like ?", ["the otter walks near stone .", "the old field sleeps ."]
    whole = as_grader(str(folder))
    alone = whole.score(question, strips)
    assert alone[0] != alone[1]
    by_strips = as_grader(f"strips:{folder}")
    assert by_strips.score(question, ["\n\n".join(strips), strips[0]]) == pytest.approx(
        [max(alone), alone[0]]
    )


def test_a_strip_that_cannot_be_judged_leaves_its_passage_open_unless_another_is_relevant() -> None:
    class Judge:
        name, fingerprint = "judge", "1"

        def score(self, question: str, texts: list[str]) -> list[float | None]:
            return [{"Yes.": 0.9, "No.": -0.9}.get(text.strip()) for text in texts]

    graded = BestStrip(Judge()).score("?", ["Yes. What.", "No. What.", "No. Yes.", "What."])
    assert graded == [0.9, None, 0.9, None]
