"""The facts of a text, and which of them a source has: the judge of FActScore (arXiv 2305.14251, section 3)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from crag_dspy.contracts import Retriever
from crag_dspy.errors import ConfigError, JudgeError, cause_of
from crag_dspy.generate import no_lm_error
from crag_dspy.knowledge import compose
from crag_dspy.passages import Strip, as_passages
from crag_dspy.signatures.facts import SplitIntoFacts, VerifyFact
from crag_dspy.text.matching import normalize
from crag_dspy.text.replies import read_truth, reply_text, uncited
from crag_dspy.text.sentences import sentence_spans
from crag_dspy.text.untrusted import as_data

# "1.5 million" and "-5 degrees" begin with a number, not with a mark of a list.
_BULLET = re.compile(r"^\s*(?:[-*•·–—]\s+|\(?\d{1,3}[.)、](?!\d)\s*|[-*•](?!\d)\s*(?=\S))")
_NONE = re.compile(r"\W*(?:none|no(?: atomic| independent)? facts?|n/?a|无|無|没有|沒有)\W*", re.I)


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement of the text. `supported` is None when the verdict could not be read: not judged."""

    text: str
    supported: bool | None


class FactJudge(dspy.Module):
    """Splits a text into atomic facts and verifies each against the passages that a source has on it.

    Args:
        k: passages a fact is verified against, at most.
    """

    def __init__(self, k: int = 5) -> None:
        super().__init__()
        self.k = k
        self.split = dspy.Predict(SplitIntoFacts)
        self.verify = dspy.Predict(VerifyFact)

    def forward(self, text: str, topic: str, source: Retriever) -> list[Fact]:
        """The facts of `text`, in order. Raises `JudgeError` when a call or the source fails: a half is no score."""
        return [Fact(fact, self._holds(fact, topic, source)) for fact in self._facts(text, topic)]

    def _facts(self, text: str, topic: str) -> list[str]:
        plain = uncited(text)
        found: dict[str, str] = {}
        for start, end in sentence_spans(plain):
            sentence = plain[start:end].strip()
            if any(char.isalnum() for char in sentence):
                said = self._asked(self.split, "facts", topic=topic, sentence=sentence)
                for fact in read_facts(said):
                    found.setdefault(normalize(fact) or fact, fact)
        return list(found.values())

    def _holds(self, fact: str, topic: str, source: Retriever) -> bool | None:
        try:
            query = fact if normalize(topic) in normalize(fact) else f"{topic} {fact}"
            passages = as_passages(source(query, self.k))[: self.k]
        except Exception as error:
            raise JudgeError(f"the knowledge source failed on {fact!r}: {cause_of(error, source)}") from error
        if not passages:
            return False  # the source says nothing, so not this
        whole = [Strip(p.text, 0, len(p.text), None, p, "internal") for p in passages]
        return read_truth(self._asked(self.verify, "verdict", context=compose(whole), topic=topic, fact=fact))

    def _asked(self, predictor: dspy.Predict, field: str, **inputs: str) -> str:
        try:
            # What an answer says is no prompt; the context comes neutralised out of `compose`.
            given = {name: text if name == "context" else as_data(text) for name, text in inputs.items()}
            return str(getattr(predictor(**given), field) or "")
        except ConfigError:
            raise
        except Exception as error:
            if missing := no_lm_error(self):
                raise missing from error
            raise JudgeError(f"the judge gave no {field}: {cause_of(error, self)}") from error


def read_facts(text: str) -> list[str]:
    """The facts that a language model listed: lines with or without bullets and numbers, semicolons, a JSON list."""
    plain = reply_text(text)
    if plain.startswith("["):
        try:
            listed: Any = json.loads(plain)
        except ValueError:
            listed = None
        if isinstance(listed, list) and all(isinstance(item, str) for item in listed):
            return _kept(listed)
    lines = plain.splitlines()
    if len([line for line in lines if line.strip()]) == 1:
        lines = re.split(r"[;；]", plain)
    return _kept([_BULLET.sub("", line) for line in lines])


def _kept(facts: Sequence[str]) -> list[str]:
    trimmed = [fact.strip() for fact in facts]
    return [fact for fact in trimmed if any(c.isalnum() for c in fact) and not _NONE.fullmatch(fact)]
