"""T5Grader: the scores of the published loops, faster, bounded, shared, and never a guess where it cannot judge."""

from __future__ import annotations

import copy
import logging
import math
import pickle
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crag_dspy.contracts import Grader
from crag_dspy.errors import ArtefactError, ConfigError
from crag_dspy.graders import T5Grader

QUESTION = "which old otter does like the river ?"
CHINESE = "水獭睡在河边的石头下面。"


def opened(folder: Path, **options: Any) -> T5Grader:
    return T5Grader.from_pretrained(folder, **{"precision": "fp32", **options})


@pytest.fixture(scope="module")
def folders(tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("graders")
    plain = {"crag": "regression", "monot5": "true_false"}
    return {
        **{name: tiny.save_plain(root / name, head) for name, head in plain.items()},
        "segments": tiny.save_grader(root / "segments", "segments"),
    }


@pytest.fixture(scope="module")
def texts(tiny: Any) -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choices((*tiny.ANIMALS, *tiny.FILLERS), k=rng.randint(1, 60))) for _ in range(40)]


def official_crag(folder: Path, question: str, text: str) -> float:
    """The loop of the official evaluator: one pair at a time, padded to 512."""
    import torch
    from transformers import AutoTokenizer, T5ForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = T5ForSequenceClassification.from_pretrained(folder, num_labels=1).eval()
    # The toy tokenizer adds no </s> by itself, as T5's does.
    encoded = tokenizer(
        f"{question} [SEP] {text} </s>", padding="max_length", max_length=512, return_tensors="pt"
    )
    with torch.no_grad():
        output = model(encoded["input_ids"], attention_mask=encoded["attention_mask"])
    return float(output.logits[0, 0])


def official_monot5(folder: Path, question: str, text: str) -> float:
    """monoT5 by its paper: log-softmax over "true" and "false" of the first decoded position."""
    import torch
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = T5ForConditionalGeneration.from_pretrained(folder).eval()
    encoded = tokenizer(f"Query: {question} Document: {text} Relevant: </s>", return_tensors="pt")
    words = tokenizer.convert_tokens_to_ids(["false", "true"])
    with torch.no_grad():
        logits = model(encoded["input_ids"], decoder_input_ids=torch.tensor([[0]])).logits[0, 0, words]
    return float(torch.log_softmax(logits, 0)[1].exp())


def test_official_crag_checkpoints_score_as_in_the_official_loop(
    folders: dict[str, Path], texts: list[str]
) -> None:
    grader = opened(folders["crag"])

    assert (grader.spec.head, grader.spec.prompt_format, grader.spec.scale) == ("regression", "crag", "clip")
    reference = [official_crag(folders["crag"], QUESTION, text) for text in texts[:8]]
    assert grader.raw_pairs([(QUESTION, text) for text in texts[:8]]) == pytest.approx(reference, abs=1e-4)
    bounded = [max(-1.0, min(1.0, value)) for value in reference]
    assert grader.score(QUESTION, texts[:8]) == pytest.approx(bounded, abs=1e-4)


def test_monot5_checkpoints_score_as_their_paper_says(folders: dict[str, Path], texts: list[str]) -> None:
    grader = opened(folders["monot5"])

    assert grader.spec.head == "true_false"
    reference = [2 * official_monot5(folders["monot5"], QUESTION, text) - 1 for text in texts[:8]]
    assert grader.score(QUESTION, texts[:8]) == pytest.approx(reference, abs=1e-4)


def test_the_monot5_cue_survives_a_text_longer_than_the_model_reads(folders: dict[str, Path]) -> None:
    grader = opened(folders["monot5"])
    long = "the river " * 600
    windows = grader.encoder.inputs(*grader.encoder.pieces([QUESTION, long]))

    cue = grader.encoder._after_text
    assert len(windows) > 1
    assert all(each.ids[-2:-1] == cue for each in windows)


@pytest.mark.parametrize("kind", ["crag", "monot5", "segments"])
def test_batching_changes_no_score_and_keeps_the_order(
    folders: dict[str, Path], texts: list[str], kind: str
) -> None:
    together, alone = opened(folders[kind], batch_tokens=4096), opened(folders[kind], batch_tokens=1)

    assert isinstance(together, Grader)
    mixed = [*texts, *texts[:5]]
    scores = together.score(QUESTION, mixed)
    assert scores == pytest.approx(alone.score(QUESTION, mixed), abs=1e-4)
    assert scores[-5:] == scores[:5]
    assert all(score is not None and -1 <= score <= 1 for score in scores)


def test_pairs_of_many_questions_score_as_each_alone(folders: dict[str, Path], texts: list[str]) -> None:
    grader = opened(folders["segments"])
    questions = ["which otter ?", "which old lynx does like ?", QUESTION]
    pairs = [(question, text) for text in texts for question in questions]

    scores = grader.score_pairs(pairs)
    for number, question in enumerate(questions):
        assert scores[number :: len(questions)] == pytest.approx(grader.score(question, texts), abs=1e-5)


def test_equal_pairs_are_computed_once(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    grader = opened(folders["segments"])
    rows = 0
    forward = type(grader.scorer).forward

    def counted(self: Any, input_ids: Any, attention_mask: Any, segments: Any) -> Any:
        nonlocal rows
        rows += len(input_ids)
        return forward(self, input_ids, attention_mask, segments)

    monkeypatch.setattr(type(grader.scorer), "forward", counted)
    scores = grader.score(QUESTION, ["the river", "old stone"] * 50)

    assert rows == 2
    assert scores == scores[:2] * 50


def test_wild_raw_outputs_are_bounded(tiny: Any, tmp_path: Path, texts: list[str]) -> None:
    """Field case 7: a regression head whose outputs are far outside [-1, 1]."""
    import torch
    import transformers

    model = tiny.make_model("regression")
    with torch.no_grad():
        model.classification_head.out_proj.weight.mul_(500)
    model.save_pretrained(tmp_path)
    tiny.make_tokenizer().save_pretrained(tmp_path)
    assert isinstance(model, transformers.T5ForSequenceClassification)
    grader = opened(tmp_path)

    raws = grader.raw_pairs([(QUESTION, text) for text in texts])
    assert max(abs(raw) for raw in raws if raw is not None) > 10
    scores = grader.score(QUESTION, texts)
    assert all(score is not None and -1 <= score <= 1 for score in scores)
    assert set(scores) & {-1.0, 1.0}


def test_text_outside_the_vocabulary_is_unknown_and_said_once(
    folders: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    grader = opened(folders["segments"], batch_tokens=512)

    with caplog.at_level(logging.WARNING):
        first = grader.score(QUESTION, [CHINESE, "the river"])
        second = grader.score("水獭在哪里?", ["the river", ""])

    assert first[0] is None
    assert first[1] is not None
    assert second == [None, -1.0]
    assert len([record for record in caplog.records if "vocabulary" in record.message]) == 1


def test_an_empty_text_is_irrelevant_and_an_empty_list_is_empty(folders: dict[str, Path]) -> None:
    grader = opened(folders["segments"])

    assert grader.score(QUESTION, ["", "  \n"]) == [-1.0, -1.0]
    assert grader.score(QUESTION, []) == []


def test_nan_is_not_a_score(tiny: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import torch

    model = tiny.make_model("true_false")
    with torch.no_grad():
        model.encoder.final_layer_norm.weight.fill_(math.nan)
    model.save_pretrained(tmp_path)
    tiny.make_tokenizer().save_pretrained(tmp_path)

    with caplog.at_level(logging.WARNING):
        assert opened(tmp_path).score(QUESTION, ["the river", "old stone"]) == [None, None]
    assert "NaN" in caplog.text


def test_a_text_scores_as_its_best_window(tiny: Any, tmp_path: Path) -> None:
    grader = opened(tiny.save_grader(tmp_path / "g", "segments", window=16, overlap=4))
    rng = random.Random(1)
    words = rng.choices((*tiny.ANIMALS, *tiny.FILLERS), k=5000)
    long = " ".join(words)
    windows = [" ".join(words[start:end]) for start, end in _windows(5000)]

    scores = grader.score(QUESTION, [long, *windows])
    assert scores[0] == pytest.approx(max(scores[1:]), abs=1e-5)


def _windows(length: int) -> list[tuple[int, int]]:
    from crag_dspy.graders.windows import windows

    return windows(length, 16, 4)


def test_copies_and_pickles_are_the_same_grader(folders: dict[str, Path]) -> None:
    grader = opened(folders["segments"])

    assert copy.deepcopy({"a": [grader]})["a"][0] is grader
    assert copy.copy(grader) is grader
    packed = pickle.dumps(grader)
    assert len(packed) < 1000  # a spec, no weights
    assert pickle.loads(packed) is grader  # noqa: S301 - what was pickled in this line
    assert opened(str(folders["segments"])) is grader


def test_a_folder_that_changed_is_loaded_anew(tiny: Any, tmp_path: Path) -> None:
    before = opened(tiny.save_grader(tmp_path / "g", "segments"))
    after = opened(tiny.save_grader(tmp_path / "g", "segments", seed=1))

    assert before.fingerprint != after.fingerprint
    assert before.score(QUESTION, ["the river"]) != after.score(QUESTION, ["the river"])


def test_many_threads_share_one_model(folders: dict[str, Path], texts: list[str]) -> None:
    grader = opened(folders["segments"])
    expected = grader.score(QUESTION, texts)
    results: list[Any] = [None] * 8
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        results[number] = grader.score(QUESTION, texts)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == pytest.approx(expected, abs=1e-6) for result in results)


def test_scores_carry_no_gradients_and_leave_torch_as_it_was(folders: dict[str, Path]) -> None:
    import torch

    grader = opened(folders["segments"])
    grader.score(QUESTION, ["the river"])

    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert not any(parameter.requires_grad for parameter in grader.scorer.parameters())


def test_any_peft_adapter_is_put_on_its_base(tiny: Any, tmp_path: Path, texts: list[str]) -> None:
    import torch
    from peft import LoraConfig, TaskType, get_peft_model

    base = tiny.save_plain(tmp_path / "base")
    torch.manual_seed(3)
    config = LoraConfig(
        task_type=TaskType.SEQ_2_SEQ_LM, r=4, target_modules=["q", "v"], init_lora_weights=False
    )
    model = get_peft_model(tiny.make_model(), config)
    model.peft_config["default"].base_model_name_or_path = str(base)
    model.save_pretrained(tmp_path / "adapter")
    plain = opened(base)
    given = opened(base, adapter=tmp_path / "adapter")
    alone = opened(tmp_path / "adapter")

    live = T5Grader.from_pretrained(base, precision="fp32", batch_tokens=777)
    live.scorer.backbone = model.base_model.model.eval()
    expected = live.score(QUESTION, texts)
    assert given.score(QUESTION, texts) == pytest.approx(expected, abs=1e-5)
    assert alone.score(QUESTION, texts) == pytest.approx(expected, abs=1e-5)
    assert plain.score(QUESTION, texts) != pytest.approx(expected, abs=1e-3)
    assert len({plain.fingerprint, given.fingerprint}) == 2
    with pytest.raises(ArtefactError, match="is an adapter itself"):
        opened(tmp_path / "adapter", adapter=tmp_path / "adapter")


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize("kind", ["crag", "monot5", "segments"])
def test_faster_numbers_give_nearly_the_same_scores(
    folders: dict[str, Path], texts: list[str], kind: str, precision: Any
) -> None:
    exact, fast = opened(folders[kind]), opened(folders[kind], precision=precision)

    assert fast.precision == precision
    assert fast.score(QUESTION, texts) == pytest.approx(exact.score(QUESTION, texts), abs=0.1)
    assert fast.fingerprint == exact.fingerprint  # the same grader: thresholds stay valid


def test_the_scale_and_calibration_are_applied(tiny: Any, tmp_path: Path) -> None:
    plain = opened(tiny.save_grader(tmp_path / "plain", "segments"))
    tuned = opened(tiny.save_grader(tmp_path / "tuned", "segments", calibration={"a": 0.5, "b": -1.0}))
    (raw,) = plain.raw_pairs([(QUESTION, "the river")])

    assert raw is not None
    assert plain.score(QUESTION, ["the river"]) == pytest.approx([math.tanh(raw / 2)])
    assert tuned.score(QUESTION, ["the river"]) == pytest.approx([math.tanh((0.5 * raw - 1) / 2)])
    assert tuned.fingerprint != plain.fingerprint
    assert plain.thresholds is None


def test_it_is_a_tool_for_agents(folders: dict[str, Path]) -> None:
    grader = opened(folders["segments"])
    tool = grader.as_tool()

    assert set(tool.args) == {"question", "texts"}
    assert tool(question=QUESTION, texts=["the river"]) == grader.score(QUESTION, ["the river"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "fp16"}, "precision must be one of auto, fp32, bf16, int8, got 'fp16'"),
        ({"batch_tokens": 0}, "batch_tokens"),
        ({"batch_tokens": True}, "batch_tokens"),
        ({"prompt_format": "mono"}, "prompt_format must be one of"),
        ({"precision": "int8", "device": "meta"}, "int8 runs on the CPU only"),
    ],
)
def test_bad_arguments_are_named(folders: dict[str, Path], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        opened(folders["segments"], **options)


def test_texts_must_be_a_list_of_text(folders: dict[str, Path]) -> None:
    grader = opened(folders["segments"])

    with pytest.raises(ConfigError, match=r"pass \[text\]"):
        grader.score(QUESTION, "the river")
    with pytest.raises(ConfigError, match="must be str"):
        grader.score(QUESTION, ["the river", None])  # type: ignore[list-item]


def test_a_shipped_name_means_the_shipped_grader_and_a_path_any_other(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import crag_dspy.graders.loading as loading

    package = tiny.save_grader(tmp_path / "package" / "mini", "segments", name="mini")
    tiny.save_grader(tmp_path / "here" / "mini", "segments", name="another", seed=1)
    monkeypatch.setattr(loading, "shipped", lambda: {"mini": package})
    monkeypatch.chdir(tmp_path / "here")

    assert opened(Path("mini")).name == "mini"
    local = T5Grader.from_pretrained("./mini", precision="fp32")
    assert local.name == "another"
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(pickle.dumps(local)) is local  # noqa: S301 - what was pickled in this line


@pytest.mark.parametrize("kind", ["crag", "monot5", "segments"])
def test_half_an_emoji_in_one_text_costs_nothing_but_itself(folders: dict[str, Path], kind: str) -> None:
    """A page cut inside an emoji: the tokenizer takes no such text, and judged none of them."""
    grader = opened(folders[kind])
    whole = grader.score(QUESTION, ["the old otter like the river", "red otter"])
    broken = grader.score(
        QUESTION, ["the old otter like the river", "red otter", "the otter \ud83d", "\ude00"]
    )
    assert broken[:2] == pytest.approx(whole, abs=1e-6)
    assert broken[2] is not None
    assert grader.score(f"{QUESTION}\ud83d", ["red otter"])[0] is not None


@pytest.mark.parametrize("kind", ["monot5", "segments"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Z", "C", "Cs")), max_size=40))
def test_any_text_is_gradable(folders: dict[str, Path], kind: str, text: str) -> None:
    known, score = opened(folders[kind]).score(QUESTION, ["red otter", text])
    assert known is not None
    assert score is None or -1 <= score <= 1
