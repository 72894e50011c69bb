"""A short answer checked by three signals, without a language model call.

Where an answer stands decides how far it can be trusted: in a strip that scores well (`s_ans`), near the question's
words (`prox`), and so that question and answer together fit the strip (`qa`). The weights are fitted for a grader, and
stored with it (`CheckWeights` in graders/artefact.py; the script is evaluator_train/mini/answer_check.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from crag_dspy.check.contract import Checked, CheckingGrader, Support
from crag_dspy.check.holding import held_part, place_of
from crag_dspy.check.unjudged import kind_not_judged, may_follow
from crag_dspy.live.held import Held
from crag_dspy.refine import shown_of
from crag_dspy.text.common_words import COMMON_WORDS
from crag_dspy.text.matching import words
from crag_dspy.text.replies.citations import uncited
from crag_dspy.text.scripts import language_of
from crag_dspy.text.untrusted import encodable

if TYPE_CHECKING:
    from crag_dspy.passages import Strip

NEAR, NEAR_UNSPACED = 10, 20  # words, or characters where words are not spaced
NOWHERE = -1.0  # `s_ans` of an answer that no strip holds


class SignalsCheck(Held):
    """Checks short answers with a grader that has weights for it: `SignalsCheck(T5Grader.from_pretrained("mini"))`."""

    def __init__(self, grader: CheckingGrader) -> None:
        self.grader = grader

    def __call__(self, question: str, answer: str, evidence: Sequence[Strip]) -> Checked:
        answer = uncited(answer)
        if why := kind_not_judged(answer):
            return Checked(None, why_not=why)
        parts = [held_part(question, answer, strip.text) for strip in evidence]
        supports = [
            Support(number, *place_of(part, strip.text))
            for number, (part, strip) in enumerate(zip(parts, evidence, strict=True), 1)
            if part is not None
        ]
        if not supports and (why := may_follow(question, answer, [shown_of(strip) for strip in evidence])):
            return Checked(None, why_not=why)
        found = self.signals(question, answer, evidence, parts)
        if found is None:
            return Checked(None, supports, why_not="the grader could not judge its strip")
        weights = self.grader.check_weights
        if weights is None:
            return Checked(None, supports, found, "the grader has no weights for it")
        return Checked(weights.confidence(**found), supports, found)

    def signals(
        self, question: str, answer: str, evidence: Sequence[Strip], parts: Sequence[str | None]
    ) -> dict[str, float] | None:
        """`qa`, `prox` and `s_ans`; None where the strip that counts was not judged."""
        judged = [
            (strip, part) for strip, part in zip(evidence, parts, strict=True) if strip.score is not None
        ]
        if not judged:
            return None
        strip, part = max(judged, key=lambda one: (one[1] is not None, one[0].score))
        (qa,) = self.grader.score(encodable(f"{question} {answer}"), [encodable(shown_of(strip))])
        if qa is None or strip.score is None:
            return None
        prox = 0.0 if part is None else nearness(question, part, strip.text)
        return {"qa": qa, "prox": prox, "s_ans": NOWHERE if part is None else strip.score}


def nearness(question: str, part: str, text: str) -> float:
    """The share of the question's words that stand near the words `part` in `text`, in [0, 1]: of the best place."""
    asked = {word for word in words(question) if word not in COMMON_WORDS}
    line, held = words(text), words(part)
    if not asked or not held:
        return 0.0
    reach = NEAR if language_of(question) == "en" else NEAR_UNSPACED
    near = [
        {*line[max(0, at - reach) : at], *line[at + len(held) : at + len(held) + reach]}
        for at in range(len(line) - len(held) + 1)
        if line[at : at + len(held)] == held
    ]
    return max((len(asked & around) for around in near), default=0) / len(asked)
