"""What the demo measures: one row a question, and the summary of many.

The measures are those of every comparison: right by `contains_word` (where nothing answers the question, it is right to
say so), declined, and supported, which an answer is that stands in what the language model read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crag_dspy.optimize.metrics.answers import contains_word
from crag_dspy.optimize.metrics.measures import RIGHT, ContextTokens, unsupported
from crag_dspy.optimize.metrics.observed import abstained, failure_of

if TYPE_CHECKING:
    from crag_dspy.commands.demo_systems import Systems

Row = dict[str, Any]


def measure(systems: Systems, asked: Mapping[str, Any]) -> Row:
    """Ask one sample question of all three systems."""
    crag = _asked(systems.crag, asked, systems.count_tokens)
    prediction = crag.pop("prediction")
    rag = _asked(systems.rag, asked, systems.count_tokens)
    alone = _asked(systems.no_retrieval, asked, systems.count_tokens)
    del rag["prediction"], alone["prediction"]
    return {
        "question": asked["question"],
        "expected": asked["answers"],
        **crag,
        "failed": prediction.failed,
        "action": prediction.action.value,
        "grounded": prediction.grounded,
        "evidence": [strip.to_json() for strip in prediction.evidence],
        "searched": bool(prediction.queries),
        "warnings": prediction.warnings,
        "id": asked["id"],
        "lang": asked["lang"],
        "expect": asked["expect"],
        "rag": rag,
        "no_retrieval": alone,
    }


def _asked(system: Any, asked: Mapping[str, Any], count_tokens: Callable[[str], int]) -> Row:
    start = time.perf_counter()
    prediction = system(question=asked["question"])
    seconds = time.perf_counter() - start
    said = verdicts(prediction, asked)
    return {
        "answer": prediction.answer,
        **said,
        "supported": said["answered"] and not unsupported(asked, prediction),
        "context_tokens": int(ContextTokens(count_tokens)(asked, prediction)),
        "seconds": round(seconds, 3),
        "prediction": prediction,
    }


def verdicts(prediction: Any, asked: Mapping[str, Any]) -> dict[str, bool]:
    """Of one answer: whether it is `right`, was `abstained` from, or `answered`; a failed question is none of them."""
    quiet = abstained(prediction)
    return {
        "right": contains_word(asked, prediction) >= RIGHT,
        "abstained": quiet,
        "answered": not quiet and failure_of(prediction) is None,
    }


def summary(rows: Sequence[Row]) -> Row:
    """Shares in [0, 1] and means over some rows of `measure`; None where there is nothing to count.

    `unsupported` is the share of the answers given, abstentions apart, that do not stand in what the language model
    read. `context_tokens` counts 0 where it was not asked, `context_tokens_read` leaves those questions out.
    """
    grounded = [row for row in rows if row["grounded"]]
    nothing = [row for row in rows if not row["expected"]]
    read = _mean(row["context_tokens"] for row in rows)
    rag_read = _mean(row["rag"]["context_tokens"] for row in rows)
    return {
        "questions": len(rows),
        "accuracy": _mean(row["right"] for row in rows),
        "rag_accuracy": _mean(row["rag"]["right"] for row in rows),
        "no_retrieval_accuracy": _mean(row["no_retrieval"]["right"] for row in rows),
        "won_over_rag": sum(row["right"] and not row["rag"]["right"] for row in rows),
        "lost_to_rag": sum(row["rag"]["right"] and not row["right"] for row in rows),
        "answered": _mean(row["answered"] for row in rows),
        "rag_answered": _mean(row["rag"]["answered"] for row in rows),
        "failed": sum(not (row["answered"] or row["abstained"]) for row in rows),
        "unsupported": _mean(not row["supported"] for row in rows if row["answered"]),
        "rag_unsupported": _mean(not row["rag"]["supported"] for row in rows if row["rag"]["answered"]),
        "unanswerable": len(nothing),
        "abstained_on_unanswerable": _mean(row["abstained"] for row in nothing),
        "rag_abstained_on_unanswerable": _mean(row["rag"]["abstained"] for row in nothing),
        "context_tokens": read,
        "context_tokens_read": _mean(row["context_tokens"] for row in grounded),
        "rag_context_tokens": rag_read,
        "context_tokens_saved": round(1 - read / rag_read, 4) if read is not None and rag_read else None,
        "searched": _mean(row["searched"] for row in rows),
        "by_expect": _by_expect(rows),
        "seconds": _mean(row["seconds"] for row in rows),
        "rag_seconds": _mean(row["rag"]["seconds"] for row in rows),
    }


def _by_expect(rows: Sequence[Row]) -> dict[str, Row]:
    """The same by where the answer is: plain RAG cannot know what only the web does, so compare on `internal` too."""
    kinds = {row["expect"]: [other for other in rows if other["expect"] == row["expect"]] for row in rows}
    return {
        expect: {
            "questions": len(some),
            "accuracy": _mean(row["right"] for row in some),
            "rag_accuracy": _mean(row["rag"]["right"] for row in some),
            "actions": dict(sorted(Counter(row["action"] for row in some).items())),
        }
        for expect, some in sorted(kinds.items())
    }


def _mean(values: Any) -> float | None:
    numbers = [float(value) for value in values]
    return round(sum(numbers) / len(numbers), 4) if numbers else None
