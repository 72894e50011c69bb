"""A smaller vocabulary for a multilingual tokenizer: most of its pieces belong to scripts that nobody will read.

Works on Unigram models (SentencePiece: XLM-R, multilingual E5, mT5), where dropping a piece only makes the text that
held it a little longer.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAD, EOS, UNK = "<pad>", "</s>", "<unk>"
_HAN_PIECE = re.compile(r"^▁?[\u4e00-\u9fff]+$")
_LATIN_PIECE = re.compile(r"^▁?[ -~]+$")
# Single characters kept whatever the texts say, so that names, numbers and rare Han characters are never unknown.
_CHARACTERS = re.compile(r"[ -~\u00a0-\u024f\u2010-\u2027\u3000-\u303f\u4e00-\u9fff\uff00-\uffef▁°€£]")
HAN_PIECES = 5000


def prune(tokenizer: Any, texts: Iterable[str], size: int) -> tuple[Any, list[int]]:
    """Keep at most `size` pieces: T5's special ones, characters, likely Han pieces, then what `texts` use.

    Args:
        tokenizer: a `tokenizers.Tokenizer` with a Unigram model.
        texts: what the grader will read looks like this.
        size: of the new vocabulary; room that the texts do not fill goes to the likeliest Latin pieces.

    Returns:
        The new tokenizer with <pad>, </s> and <unk> as 0, 1 and 2, and the old id of each new one.
    """
    from tokenizers import AddedToken, Tokenizer

    plain = json.loads(tokenizer.to_str())
    if plain["model"]["type"] != "Unigram":
        raise ConfigError(f"can only prune a Unigram tokenizer, this one is {plain['model']['type']}")
    vocab: list[list[Any]] = plain["model"]["vocab"]
    special = [_special(vocab, names) for names in ((PAD, "[PAD]"), (EOS, "[SEP]"), (UNK, "[UNK]"))]
    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(tokenizer.encode(text, add_special_tokens=False).ids)
    kept = dict.fromkeys(special)
    for i in _by_merit(vocab, counts):
        if len(kept) >= size:
            break
        kept.setdefault(i)
    order = [*special, *sorted(kept.keys() - set(special))]
    plain["model"]["vocab"] = [[name, 0.0] for name in (PAD, EOS, UNK)] + [vocab[i] for i in order[3:]]
    plain["model"]["unk_id"] = 2
    plain["added_tokens"], plain["post_processor"] = [], None
    pruned = Tokenizer.from_str(json.dumps(plain))
    pruned.add_special_tokens([AddedToken(name, special=True) for name in (PAD, EOS, UNK)])
    return pruned, order


def _by_merit(vocab: Sequence[Sequence[Any]], counts: Counter[int]) -> Iterable[int]:
    likeliest = sorted(range(len(vocab)), key=lambda i: -vocab[i][1])
    yield from (i for i in likeliest if len(vocab[i][0]) == 1 and _CHARACTERS.match(vocab[i][0]))
    yield from (i for i in likeliest if _LATIN_PIECE.match(vocab[i][0]) and len(vocab[i][0].strip("▁")) <= 2)
    yield from [i for i in likeliest if _HAN_PIECE.match(vocab[i][0])][:HAN_PIECES]
    yield from (i for i, count in counts.most_common() if count > 1)
    yield from (i for i in likeliest if _LATIN_PIECE.match(vocab[i][0]))


def _special(vocab: Sequence[Sequence[Any]], names: Sequence[str]) -> int:
    for i, (piece, _) in enumerate(vocab):
        if piece in names:
            return i
    raise ConfigError(f"the tokenizer has no {names[0]} token")
