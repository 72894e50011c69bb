"""Grading from vectors: what a passage and its strips are worth to a question, without reading them again.

What counts is how well the question's tokens match the strip, how well they match its whole passage (a strip of the
right passage is a better guess), and which of the question's words the strip has: late interaction is weak where an
exact word decides, a name or a number. The weights are learned (see `OnceWeights` in artefact.py).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crag_dspy.read_once.asking import Judged
from crag_dspy.read_once.vectors import matches
from crag_dspy.text.matching import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_dspy.graders.artefact import OnceWeights
    from crag_dspy.read_once.asking import ToJudge
    from crag_dspy.read_once.vectors import PassageVectors, QuestionVectors


def judged(
    question: str,
    asked: QuestionVectors,
    passages: Sequence[ToJudge],
    weights: OnceWeights,
    most_unknown: float,
) -> list[Judged]:
    """The scores of all passages and strips of one question. They are judged together: a word that every strip has
    says less than one that few have.
    """
    shares = iter(word_shares(question, [text for one in passages for text in one.texts]))
    found = []
    for one in passages:
        words = [next(shares) for _ in one.texts]
        if max(asked.unknown, one.vectors.unknown) > most_unknown:
            found.append(Judged(None, [None] * len(one.spans)))
            continue
        if not len(one.vectors.tokens):
            found.append(Judged(-1.0, [-1.0] * len(one.spans)))
            continue
        whole, strips = matches(asked, one.vectors, one.spans, one.around)
        scored = [
            _bounded(weights.of_strip(float(strip), whole, share))
            for strip, share in zip(strips, words, strict=True)
        ]
        found.append(Judged(_bounded(weights.of_passage(whole)), list(scored)))
    return found


def word_shares(question: str, texts: Sequence[str]) -> list[float]:
    """The share of the question's terms that each text has, in [0, 1], rare terms weighing more (BM25's idf)."""
    asked = set(terms(question))
    if not asked or not texts:
        return [0.0] * len(texts)
    having = [asked.intersection(terms(text)) for text in texts]
    counts = {term: sum(term in has for has in having) for term in asked}
    idf = {term: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for term, n in counts.items()}
    total = sum(idf.values())
    return [sum(idf[term] for term in has) / total for has in having]


def _bounded(logit: float) -> float:
    return math.tanh(logit / 2)


def best_match(asked: QuestionVectors, vectors: PassageVectors) -> float:
    """How well the whole passage matches, in [-1, 1]: what retrieval ranks by."""
    return matches(asked, vectors, [])[0] if len(vectors.tokens) else float(np.float32(-1.0))
