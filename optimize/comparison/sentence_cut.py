"""Below which score the best sentences decline: the cut that is best on a dev set, as thresholds are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.optimize.comparison.comparing import folder_of
from crag_dspy.optimize.comparison.no_lm import without_lm
from crag_dspy.optimize.comparison.systems import best_sentences
from crag_dspy.optimize.metrics.answers import answer_in_evidence
from crag_dspy.optimize.runs.evaluation import evaluate
from crag_dspy.optimize.thresholds.one_cut import best_cut

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import dspy

    from crag_dspy.crag import CRAG


def sentence_cut(
    crag: CRAG,
    name: str,
    devset: Sequence[dspy.Example],
    *,
    run: str | Path | None = None,
    threads: int | None = None,
    fresh: bool = False,
) -> float:
    """The cut of a system such as "words:3" with the largest `answer_in_evidence`; no language model is asked.

    Args:
        devset: with gold answers; an empty list of them says that declining is right.
        run, threads, fresh: as in `evaluate`.
    """
    done = evaluate(
        best_sentences(without_lm(crag), name),
        devset,
        answer_in_evidence,
        run=None if run is None else folder_of(run, name),
        threads=threads,
        fresh=fresh,
        traces=True,
    )
    scores = [None if row["trace"] is None else row["trace"]["evidence_score"] for row in done.rows]
    declined = [float(row["answers"] == []) for row in done.rows]
    return best_cut(scores, done.scores("answer_in_evidence"), declined)[0]
