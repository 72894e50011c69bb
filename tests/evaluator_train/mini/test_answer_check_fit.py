"""The fit of the answer check finds what it is given, and measures on what it did not learn from."""

from __future__ import annotations

import random
from typing import Any

from crag_dspy.evaluator_train.mini.answer_check import fit, measured
from crag_dspy.graders.artefact import CheckWeights

TRUE = CheckWeights(bias=-1.5, qa=1.5, prox=2.0, s_ans=1.0)


def rows(count: int, dev: bool, source: str) -> list[dict[str, Any]]:
    drawn = random.Random(f"{dev} {source}")
    found = []
    for number in range(count):
        signals = {"qa": drawn.uniform(-1, 1), "prox": drawn.random(), "s_ans": drawn.uniform(-1, 1)}
        right = drawn.random() < TRUE.confidence(**signals)
        found.append(
            {"signals": signals, "right": right, "dev": dev, "source": source, "article": number % 5}
        )
    return found


def test_the_fit_is_calibrated_on_what_it_did_not_see() -> None:
    learned = fit([*rows(1500, False, "made"), *rows(1500, False, "model")], 0.2)
    found = measured([*rows(1500, True, "model"), {"signals": {}, "right": True, "article": 0}], learned)
    assert (found["answers"], found["judged"]) == (1501, 1500)
    assert found["auc_95"][0] < found["auc"] < found["auc_95"][1]
    assert found["auc"] > 0.7
    assert found["ece"] < 0.06
    assert learned.answer_threshold == 0.2
