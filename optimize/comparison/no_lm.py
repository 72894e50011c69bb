"""Systems without their language model: what it would read can be judged in minutes, for hundreds of questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dspy

from crag_dspy.text.replies import abstention_for

if TYPE_CHECKING:
    from crag_dspy.crag import CRAG

READS = "evidence"  # any word that declines nothing


class NoReader(dspy.Module):
    """A generator that says whether there is something to read, and asks no language model."""

    def forward(self, context: str, question: str) -> dspy.Prediction:
        return dspy.Prediction(answer=READS if context.strip() else abstention_for(question))


def without_lm(crag: CRAG) -> CRAG:
    """A copy that calls no language model: nothing is generated, and the web is asked the question itself.

    To be judged by `answer_in_evidence`, and so are all systems made of its parts (`systems_of`).
    """
    copy: CRAG = crag.deepcopy()
    copy.generate = NoReader()
    copy.settings.rewrite = False
    return copy
