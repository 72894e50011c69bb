"""A T5 small enough to make, train and score in a test, and pairs that such a model can learn.

The vocabulary is whole English words, split at white space as T5's is, with "true" and "false" among them; no
Chinese character is in it. A pair is relevant when the text names animals.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

ANIMALS = ("otter", "lynx", "heron", "bison", "gecko", "moose", "raven", "tapir")
FILLERS = (
    "the",
    "small",
    "old",
    "river",
    "under",
    "stone",
    "walks",
    "sleeps",
    "near",
    "winter",
    "blue",
    "field",
)
WORDS = (
    *ANIMALS,
    *FILLERS,
    "which",
    "place",
    "does",
    "like",
    "?",
    ".",
    "true",
    "false",
    "Query:",
    "Document:",
)
VOCABULARY = (*WORDS, "Relevant:", "[SEP]", "yes", "no")


def make_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: index for index, word in enumerate(("<pad>", "</s>", "<unk>", *VOCABULARY))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def make_model(head: str = "true_false", seed: int = 0) -> Any:
    """An untrained T5 of the class that a head needs: 2 layers, 32 wide."""
    import torch
    import transformers

    torch.manual_seed(seed)
    config = transformers.T5Config(
        vocab_size=3 + len(VOCABULARY),
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
        num_labels=1,
    )
    kind = {
        "true_false": transformers.T5ForConditionalGeneration,
        "regression": transformers.T5ForSequenceClassification,
        "segments": transformers.T5EncoderModel,
    }[head]
    return kind(config).eval()


def save_plain(folder: Path, head: str = "true_false", seed: int = 0) -> Path:
    """A plain Hugging Face folder, as hubs serve them: no grader.json."""
    make_model(head, seed).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def save_grader(
    folder: Path,
    head: str = "true_false",
    *,
    storage: Any = "fp32",
    seed: int = 0,
    late: int | None = None,
    single: int | None = None,
    **spec: Any,
) -> Path:
    """A grader folder of this library, untrained."""
    import torch

    from crag_dspy.graders.artefact import SINGLE_FILE, GraderSpec, save_artefact, save_tensors
    from crag_dspy.graders.heads import SegmentHead
    from crag_dspy.read_once.single import SingleVector

    plain = {
        "true_false": {"prompt_format": "monot5", "scale": "tanh"},
        "regression": {"prompt_format": "crag", "scale": "clip"},
        "segments": {"prompt_format": "segments", "scale": "tanh"},
    }[head]
    model = make_model(head, seed)
    torch.manual_seed(seed)
    tensors = SegmentHead(32, hidden=8, late=late).state_dict() if head == "segments" else None
    described = GraderSpec.model_validate({"name": "tiny", "head": head, **plain, **spec})
    save_artefact(folder, described, tokenizer=make_tokenizer(), model=model, head=tensors, storage=storage)
    if single is not None:
        made = SingleVector(32, single)
        save_tensors(made.state_dict(), folder / SINGLE_FILE)
    return folder


def make_pairs(count: int, seed: int = 0) -> list[tuple[str, str, int]]:
    """(question, text, label), half of them relevant."""
    rng = random.Random(seed)
    pairs = []
    for index in range(count):
        words = rng.choices(ANIMALS if index % 2 else FILLERS, k=4) + rng.choices(FILLERS, k=2)
        rng.shuffle(words)
        pairs.append(
            (f"which {rng.choice(FILLERS)} does like the {rng.choice(FILLERS)} ?", " ".join(words), index % 2)
        )
    return pairs
