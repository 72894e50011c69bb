"""What a comparison measures of every answer beside its metric, and what follows from them together.

    right           the metric gives at least one half; where nothing answers the question, it was declined
    covered         answered, and right
    hallucinated    answered, and wrong, or not supported by what the language model read
    abstained       it said that the evidence is not there

so that covered + hallucinated + abstained is 1 for every question, but for the answers that are right and yet not
supported: guessed from memory. Those count as covered AND as hallucinated. A question that failed counts as none: it is
not right and not covered, and rates of hallucinated and abstained questions are those of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crag_dspy.optimize.metrics.answers import grounded
from crag_dspy.optimize.metrics.observed import abstained, answer_of, evidence_of, failure_of, field_of
from crag_dspy.text.matching import contains_answer, words
from crag_dspy.text.replies import uncited

if TYPE_CHECKING:
    from crag_dspy.optimize.runs.evaluation import Evaluation

CountTokens = Callable[[str], int]
UNIT = "words, and characters of scripts without spaces"
RIGHT = 0.5  # of a metric in [0, 1]
OF_ANSWERS = ("abstained", "hallucinated", "context_tokens")  # of the questions that did not fail
COSTS = ("searches", "lm_calls", "tokens", "seconds")


def declined(example: Any, prediction: Any) -> float:
    """1 where the program did not answer."""
    return float(abstained(prediction))


def unsupported(example: Any, prediction: Any) -> float:
    """1 where an answer was given that does not stand, word for word, in what the language model read.

    So a free wording of what was read counts as unsupported too: it is a measure for short answers.
    """
    if _says_nothing(prediction):
        return 0.0
    read = "\n".join([read_of(prediction), *(text for _, text in evidence_of(prediction))])
    return float(not contains_answer(read, uncited(answer_of(prediction))))


def unsupported_sentences(example: Any, prediction: Any) -> float:
    """1 where less than half of what a long answer says is in the evidence, by `metrics.grounded`."""
    return 0.0 if _says_nothing(prediction) else float(float(grounded(example, prediction)) < RIGHT)


def never_unsupported(example: Any, prediction: Any) -> float:
    """0: "true" or "B" does not stand in any text, so only a wrong one is a hallucination."""
    return 0.0


def _says_nothing(prediction: Any) -> bool:
    return abstained(prediction) or failure_of(prediction) is not None


class ContextTokens:
    """The size of what the language model read."""

    def __init__(self, count: CountTokens) -> None:
        self.count = count
        self.counted_by = getattr(count, "__qualname__", type(count).__qualname__)

    def __call__(self, example: Any, prediction: Any) -> float:
        read = read_of(prediction)
        return float(self.count(read)) if read else 0.0


def read_of(prediction: Any) -> str:
    """What the language model was given to answer from: `read`, where a program says so (Self-RAG reads every passage
    and answers from one), or its knowledge or context.
    """
    named = (field_of(prediction, name) for name in ("read", "knowledge", "context"))
    return str(next((text for text in named if text), ""))


def count_words(text: str) -> int:
    """Near the number of tokens, where no tokenizer is at hand."""
    return len(words(text))


def measured(done: Evaluation, metric: str) -> dict[str, list[float]]:
    """Every measure of an evaluation, one value a question: those stored, those that follow, and the costs."""
    found: dict[str, list[float]] = {"quality": done.scores(metric)}
    for name in ("abstained", "unsupported", "context_tokens"):
        found[name] = done.scores(name)
    silent, groundless = found["abstained"], found["unsupported"]
    right = [value >= RIGHT for value in found["quality"]]
    found["failed"] = [float(row["error"] is not None) for row in done.rows]
    answered = [not quiet and not lost for quiet, lost in zip(silent, found["failed"], strict=True)]
    found["abstained"] = [
        quiet * (1 - lost) for quiet, lost in zip(silent, found["failed"], strict=True)
    ]  # not the failure score
    found["covered"] = [float(said and good) for said, good in zip(answered, right, strict=True)]
    found["hallucinated"] = [
        float(said and (not good or bool(bad)))
        for said, good, bad in zip(answered, right, groundless, strict=True)
    ]
    for cost in COSTS:
        found[cost] = [float(row["cost"][cost]) for row in done.rows]
    found["answered"] = [float(said) for said in answered]
    # A reply from DSPy's cache cost nothing now, but the program asked for it: without these, a system that is run
    # after another with the same prompts would seem to need fewer calls.
    found["cached"] = [float(row.get("cached", 0)) for row in done.rows]
    found["lm_calls"] = [made + kept for made, kept in zip(found["lm_calls"], found["cached"], strict=True)]
    return found


def averaged(each: Sequence[Mapping[str, list[float]]]) -> dict[str, list[float]]:
    """The mean over seeds, question by question: seeds are no further questions, so intervals resample questions.

    What is measured of answers is the mean over the seeds in which the question did not fail, 0 where it always did.
    """
    worked = [[1 - lost for lost in one["failed"]] for one in each]
    always = [[1.0] * len(one) for one in worked]
    return {
        name: _means([one[name] for one in each], worked if name in OF_ANSWERS else always)
        for name in each[0]
    }


def _means(values: Sequence[Sequence[float]], weights: Sequence[Sequence[float]]) -> list[float]:
    totals = [sum(of_question) for of_question in zip(*weights, strict=True)]
    sums = [
        sum(value * weight for value, weight in zip(said, weighed, strict=True))
        for said, weighed in zip(zip(*values, strict=True), zip(*weights, strict=True), strict=True)
    ]
    return [found / total if total else 0.0 for found, total in zip(sums, totals, strict=True)]


def answerable(done: Evaluation) -> list[bool]:
    """Whether some document answers the question: its gold answers are not empty."""
    return [row["answers"] is None or row["answers"] != [] for row in done.rows]
