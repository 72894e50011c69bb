"""What a search of thresholds on the sample's dev split asks a language model.

By `crag-dspy thresholds --lm MODEL`, with the shipped grader reading question and text together, 220 calls, no two
alike; 437 when each of the three runs of a question retrieved, rewrote and searched by itself. Here a grader that
counts words stands in for it, which keeps other strips and so takes other numbers: 226, and 429 for runs by themselves.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import dspy

from crag_dspy import CRAG, sample
from crag_dspy.commands.demo_systems import sample_indexes
from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.questions.datasets import from_rows
from crag_dspy.optimize.thresholds.outcomes import collect_outcomes
from crag_dspy.text.matching import terms
from crag_dspy.websearch.index import IndexSearch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


known = cache(lambda text: frozenset(terms(text)))


def by_words(question: str, texts: Sequence[str]) -> list[float]:
    """The share of the question's words that stand in a text, from -1 to 1."""
    asked = known(question)
    return [2 * len(asked & known(text)) / max(1, len(asked)) - 1 for text in texts]


def test_no_prompt_of_the_dev_split_is_paid_for_twice(scripted_lm: Any, tmp_path: Path) -> None:
    knowledge, web = sample_indexes("none", tmp_path)
    program = CRAG(knowledge, by_words, IndexSearch(web), strip_threshold=0.2, top_n=3)
    devset = from_rows(sample.questions("dev"))
    lm = scripted_lm({"query": lambda request: request.inputs["question"], "answer": "Paris"})
    with dspy.context(lm=lm):
        found = collect_outcomes(program, devset, contains_word, threads=1, traces=False, progress=False)
    calls = len(lm.requests)
    alone = sum(row["cost"]["lm_calls"] for actions in found.rows for row in actions.values())
    assert len(devset) == 136
    assert calls == found.lm_calls == len({request.text for request in lm.requests})
    assert (calls, alone) == (226, 429)
