"""Grading by the cosine of sentence vectors: the cheap baseline."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError, GraderError
from crag_dspy.graders.scale import EMPTY_SCORE
from crag_dspy.live.held import Held
from crag_dspy.state.arguments import check_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    import dspy


class EmbeddingGrader(Held):
    """The cosine of question and text, in [-1, 1] as it is; a long text scores as its best part.

    A cosine is similarity, not relevance: a text that repeats the question's words without answering it
    scores high, and most texts lie in a narrow band, so thresholds must be tuned. Texts in a script that the
    embedder was not made for are judged all the same, and hardly better than by chance: the measured baseline.

    Args:
        embedder: whatever `as_embedder` reads: "minilm" (the default; English), a sentence-transformers model
            by folder or name, a callable.
        window_words: a longer text is cut into parts of at most so many words, between sentences: sentence
            encoders read 256 tokens and drop the rest.
        cut: the cosine above which a text is more likely relevant than not. The default is where a logistic fit of
            MiniLM cosines to labelled question-sentence pairs (QNLI, SelQA, TREC QA, XQuAD) crosses one half.
    """

    def __init__(self, embedder: Any = "minilm", window_words: int = 150, cut: float = 0.55) -> None:
        from crag_dspy.retrievers.embedders import as_embedder

        check_whole("window_words", window_words)
        made = as_embedder(embedder)
        if made is None:
            raise ConfigError("embedder must not be None: 'minilm', a model's folder or name, or a callable")
        self._embedder = made
        self._window_words = window_words
        self.cut = cut

    @property
    def name(self) -> str:
        """`embedding:` and the embedder's name."""
        return f"embedding:{self._embedder.name}"

    @cached_property
    def fingerprint(self) -> str:
        """Of where the embedder puts a fixed text, which a new version under an old name changes."""
        from crag_dspy.retrievers.embedders import probe

        place = ",".join(f"{value:.3f}" for value in probe(self._embedder).ravel().tolist())
        return hashlib.sha256(f"{self.name}:{self._window_words}:{place}".encode()).hexdigest()[:16]

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        """One cosine a text, in order; -1 for an empty text. Raises GraderError for an empty question."""
        from crag_dspy.retrievers.chunking import chunk

        if isinstance(texts, str):
            raise ConfigError("texts must be a list of str, got one str: pass [text]")
        if not question.strip():
            raise GraderError("the question is empty: there is nothing to judge texts by")
        spans = {text: chunk(text, self._window_words) for text in dict.fromkeys(texts)}
        parts = [text[start:end] for text, found in spans.items() for start, end in found]
        if not parts:
            return [EMPTY_SCORE] * len(texts)
        cosines = iter((self._embedder.embed(parts) @ self._embedder.embed_query(question)).tolist())
        # Rounding can put the cosine of two equal unit vectors above 1.
        best = {
            text: max((min(1.0, max(-1.0, next(cosines))) for _ in found), default=EMPTY_SCORE)
            for text, found in spans.items()
        }
        return [best[text] for text in texts]

    def __reduce__(self) -> tuple[Any, ...]:
        return EmbeddingGrader, (self._embedder, self._window_words, self.cut)

    def as_tool(self) -> dspy.Tool:
        """This grader as a tool for an agent: `grade_relevance(question, texts) -> scores`."""
        from crag_dspy.graders.tool import as_tool

        return as_tool(self)
