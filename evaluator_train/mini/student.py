"""A T5 encoder that starts from a sentence encoder instead of from nothing.

A T5 from random weights learns nothing from ten thousand pairs. BERT and T5 layers hold the same matrices, so those of
chosen layers are copied; what differs is left to distillation: T5 normalises before a sublayer instead of after it, has
no biases, and knows relative positions only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

POSITIONS = slice(5, 45)  # of the teacher's absolute positions, whose mean goes into the embeddings
GROWTH = 1.5  # each layer writes this much more than the one before, as a post-norm residual stream does


def t5_from_bert(teacher: Any, layers: Sequence[int], vocabulary: Sequence[int]) -> Any:
    """A `T5EncoderModel` with the teacher's width, the given layers' matrices and the given rows of its vocabulary.

    Args:
        teacher: a BERT encoder of `transformers`.
        layers: which of its layers, in order; the first and the last matter most.
        vocabulary: its token ids, in the order of the new ones; 0 is padding and 1 the end of a segment.
    """
    import torch
    from torch.nn.functional import layer_norm
    from transformers import T5Config, T5EncoderModel

    config = teacher.config
    if not layers or not all(0 <= layer < config.num_hidden_layers for layer in layers):
        raise ConfigError(f"layers must be of 0 to {config.num_hidden_layers - 1}, got {list(layers)}")
    head = config.hidden_size // config.num_attention_heads
    settings: Any = T5Config  # its fields are not typed
    student: Any = T5EncoderModel(
        settings(
            vocab_size=len(vocabulary),
            d_model=config.hidden_size,
            d_kv=head,
            d_ff=config.intermediate_size,
            num_layers=len(layers),
            num_heads=config.num_attention_heads,
            dropout_rate=0.0,
            feed_forward_proj="gelu",
            pad_token_id=0,
            eos_token_id=1,
            decoder_start_token_id=0,
            use_cache=False,
        )
    )
    with torch.no_grad():
        words = teacher.embeddings
        rows = (
            words.word_embeddings.weight[torch.tensor(vocabulary)]
            + words.token_type_embeddings.weight[0]
            + words.position_embeddings.weight[POSITIONS].mean(0)
        )
        student.shared.weight.copy_(layer_norm(rows, (config.hidden_size,)))
        gain: Tensor = words.LayerNorm.weight
        for depth, (block, layer) in enumerate(zip(student.encoder.block, layers, strict=True)):
            source, scale = teacher.encoder.layer[layer], GROWTH**depth
            attention, dense = block.layer[0].SelfAttention, block.layer[1].DenseReluDense
            given = source.attention.self
            attention.q.weight.copy_(given.query.weight / math.sqrt(head))  # T5 does not scale its scores
            attention.k.weight.copy_(given.key.weight)
            attention.v.weight.copy_(given.value.weight)
            attention.o.weight.copy_(source.attention.output.dense.weight * (scale / gain.mean()))
            block.layer[0].layer_norm.weight.copy_(gain)
            gain = source.attention.output.LayerNorm.weight
            dense.wi.weight.copy_(source.intermediate.dense.weight)
            dense.wo.weight.copy_(source.output.dense.weight * (scale / gain.mean()))
            block.layer[1].layer_norm.weight.copy_(gain)
            gain = source.output.LayerNorm.weight
        student.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight.zero_()
    # The teacher's own embeddings know words that no training text holds: learning would only spoil those.
    student.shared.weight.requires_grad_(False)
    return student
