"""Grading by a language model: the paper's ChatGPT baseline, and the way of most tutorials."""

from __future__ import annotations

import contextvars
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from crag_dspy.errors import ConfigError, GraderError, cause_of
from crag_dspy.graders.scale import EMPTY_SCORE
from crag_dspy.live.notes import Fault, note
from crag_dspy.signatures.grade import GradeRelevance
from crag_dspy.state.arguments import check_whole
from crag_dspy.text.replies import read_relevance
from crag_dspy.text.untrusted import as_asked, as_data

if TYPE_CHECKING:
    from collections.abc import Sequence


class LMGrader(dspy.Module):
    """Asks a language model about each text: 1 for yes, -1 for no, None for what failed or cannot be read, which it
    notes.

    It is a module with one predictor, `judge`, so optimizers compile its prompt along with the program's.

    Args:
        lm: a `dspy.LM`, the name of one ("openai/gpt-4o-mini"), or None for the one that DSPy is configured
            with.
        threads: texts asked about at the same time.
    """

    def __init__(self, lm: dspy.LM | str | None = None, threads: int = 8) -> None:
        super().__init__()
        check_whole("threads", threads)
        self.judge = dspy.Predict(GradeRelevance)
        self.threads = threads
        if lm is not None:
            self.judge.lm = dspy.LM(lm) if isinstance(lm, str) else lm

    @property
    def name(self) -> str:
        """`lm:` and the model's name."""
        return f"lm:{getattr(self._lm(), 'model', 'none')}"

    @property
    def fingerprint(self) -> str:
        """Of the model's name, the instructions and the demonstrations: what thresholds were tuned on."""
        demos = [dict(demo) for demo in self.judge.demos]
        plain = [self.name, self.judge.signature.instructions, demos]
        return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def _lm(self) -> Any:
        return self.judge.lm or dspy.settings.lm

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        """One verdict a text, in order; equal texts are asked about once, empty ones score -1 unasked.

        Raises GraderError when the model could not be asked about any text.
        """
        if isinstance(texts, str):
            raise ConfigError("texts must be a list of str, got one str: pass [text]")
        asked = list(dict.fromkeys(text for text in texts if text.strip()))
        if not asked:
            return [EMPTY_SCORE] * len(texts)
        if self._lm() is None:
            raise GraderError("no language model to grade with: dspy.configure(lm=...) or LMGrader(lm=...)")
        with ThreadPoolExecutor(min(self.threads, len(asked)), thread_name_prefix="crag-grade") as pool:
            # DSPy's settings live in a context variable, which a bare thread would not see.
            futures = [
                pool.submit(contextvars.copy_context().run, self._reply, question, text) for text in asked
            ]
            replies = [future.result() for future in futures]
        failures = [reply for reply in replies if isinstance(reply, Exception)]
        if len(failures) == len(asked):
            first = failures[0]
            raise GraderError(f"the language model failed on every text: {cause_of(first, self)}") from first
        if failures:
            # A reply that cannot be parsed is what the model has to say; a call that fails is not.
            down = [failure for failure in failures if not isinstance(failure, AdapterParseError)]
            told = (
                f"grader {self.name} failed on {len(failures)} of {len(asked)} texts: "
                f"{cause_of((down or failures)[0], self)}"
            )
            note(Fault(told) if down else told)
        scores = {
            text: None if isinstance(reply, Exception) else read_relevance(reply)
            for text, reply in zip(asked, replies, strict=True)
        }
        unread = [
            reply
            for text, reply in zip(asked, replies, strict=True)
            if isinstance(reply, str) and scores[text] is None
        ]
        if unread:
            note(
                f"grader {self.name} gave no verdict that can be read for {len(unread)} of {len(asked)} texts, "
                f"such as {unread[0][:80]!r}: they count as not judged"
            )
        return [scores[text] if text.strip() else EMPTY_SCORE for text in texts]

    def _reply(self, question: str, text: str) -> str | Exception:
        try:
            # The passage may be a stranger's web page.
            judged = self.judge(question=as_asked(question), passage=as_data(text))
            return str(judged.verdict)
        except Exception as error:  # noqa: BLE001 - whatever a provider raises, the other texts are still judged
            return error

    def forward(self, question: str, texts: Sequence[str]) -> dspy.Prediction:
        """The same as a module: a prediction with `scores`."""
        return dspy.Prediction(scores=self.score(question, texts))

    def as_tool(self) -> dspy.Tool:
        """This grader as a tool for an agent: `grade_relevance(question, texts) -> scores`."""
        from crag_dspy.graders.tool import as_tool

        return as_tool(self)
