"""`same_answer` with a language model for what rules cannot know: that NYC's "the Big Apple" is New York.

judged = SameAnswer(judge=dspy.LM("openai/gpt-4o-mini"), cache="verdicts.jsonl")
evaluate(program, questions, judged)
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import dspy

from crag_dspy.errors import ConfigError, JudgeError, cause_of
from crag_dspy.generate import no_lm_error
from crag_dspy.optimize.metrics.answers import gold_answers, same_answer
from crag_dspy.optimize.metrics.observed import abstained, answer_of, failure_of, field_of
from crag_dspy.optimize.metrics.score import Score
from crag_dspy.signatures.same import JudgeSameness
from crag_dspy.text.replies import read_relevance
from crag_dspy.text.untrusted import as_data

_LOCK = threading.Lock()  # one for all: metrics are copied


class SameAnswer:
    """A metric: 1 when the answer says what a gold answer says, by rules or, where they see no sameness, by a judge.

    A pair is judged once: verdicts are kept, and written to `cache` when it is given.

    Args:
        judge: the `dspy.LM` that is asked; None is `dspy.settings.lm`.
        cache: a file of verdicts (JSON lines), read at the start and appended to.
        name: of the metric, in results.

    Raises (when called):
        ConfigError: no language model.
        JudgeError: the judge failed, or its verdict cannot be read: no score is made up.
    """

    def __init__(
        self, judge: Any = None, cache: str | os.PathLike[str] | None = None, *, name: str = "same_answer"
    ) -> None:
        if judge is not None and not isinstance(judge, dspy.BaseLM):
            raise ConfigError(
                f"judge must be a dspy.LM, got {type(judge).__name__}: pass dspy.LM('provider/model')"
            )
        self.judge = judge
        self.judged_by = "" if judge is None else str(judge.model)
        self.asks = dspy.Predict(JudgeSameness)
        self.cache = None if cache is None else Path(cache)
        self._verdicts = {} if self.cache is None else _read(self.cache)
        self.__name__ = name

    def __call__(
        self, example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Score:
        score: Score = same_answer(example, pred, trace, pred_name, pred_trace)
        golds, answer = gold_answers(example), answer_of(pred)
        if float(score) == 1 or not golds or failure_of(pred) is not None or abstained(pred):
            return score
        question = str(field_of(example, "question", ""))
        if any(self._same(question, gold, answer) for gold in golds):
            return Score(score=1.0, feedback="Right, in other words.")
        return score

    def _same(self, question: str, gold: str, answer: str) -> bool:
        with dspy.context(
            trace=[], lm=self.judge or dspy.settings.lm
        ):  # the judge's calls are no steps of the program
            key = (str(getattr(dspy.settings.lm, "model", "")), question, gold, answer)
            if key not in self._verdicts:
                self._keep(key, self._judged(question, gold, answer))
        return self._verdicts[key]

    def _judged(self, question: str, gold: str, answer: str) -> bool:
        try:
            said = self.asks(
                question=as_data(question), right_answer=as_data(gold), answer=as_data(answer)
            ).verdict
        except Exception as error:
            if missing := no_lm_error(self.asks):
                raise missing from error
            raise JudgeError(f"the judge of same_answer failed: {cause_of(error)}") from error
        verdict = read_relevance(str(said))
        if verdict is None:
            raise JudgeError(f"the judge of same_answer gave no verdict that can be read: {str(said)[:80]!r}")
        return verdict > 0

    def _keep(self, key: tuple[str, str, str, str], same: bool) -> None:
        with _LOCK:
            self._verdicts[key] = same
            if self.cache is not None:
                row = dict(zip(("judge", "question", "gold", "answer"), key, strict=True), same=same)
                with self.cache.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _read(path: Path) -> dict[tuple[str, str, str, str], bool]:
    """The verdicts of a file; what a killed process left of a line is left out."""
    verdicts = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
            verdicts[row["judge"], row["question"], row["gold"], row["answer"]] = bool(row["same"])
        except (ValueError, KeyError, TypeError):
            continue
    return verdicts
