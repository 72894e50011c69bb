"""The T5 grader: a fine-tuned T5 scores question-text pairs (arXiv 2401.15884, section 4.2).

One object is shared by all copies of a program and all its threads, and a name or path is loaded once a
process.
"""

from __future__ import annotations

import hashlib
import logging
import math
import threading
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from crag_dspy.errors import ConfigError
from crag_dspy.graders.apart import Vectors, raw_scores_apart
from crag_dspy.graders.batches import raw_scores
from crag_dspy.graders.precision import PRECISIONS, Precision, prepare
from crag_dspy.graders.prompt_format import PairEncoder, prompt_format
from crag_dspy.graders.scale import EMPTY_SCORE
from crag_dspy.live.held import Held
from crag_dspy.read_once.encoding import PassageEncoder
from crag_dspy.read_once.judging import judged
from crag_dspy.state.arguments import check_choice, check_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    import dspy

    from crag_dspy.actions import Thresholds
    from crag_dspy.graders.artefact import CheckWeights, GraderSpec
    from crag_dspy.graders.loading import Opened
    from crag_dspy.read_once.asking import Judged, ToJudge
    from crag_dspy.read_once.vectors import PassageVectors, QuestionVectors

logger = logging.getLogger(__name__)

READ_BYTES = 64 * 2**20  # vectors of passages that are kept: some 2,500 of 200 words
MAX_UNKNOWN = 0.5  # share of characters outside the vocabulary, above which a text is not judged


class T5Grader(Held):
    """Scores texts with a T5 and its head (`true_false`, `regression` or `segments`).

    Open one with `from_pretrained`. Long texts are cut into overlapping windows of tokens and score as their
    best window; the question and the closing cue are in every window. Equal pairs are computed once. An empty
    text scores -1. A text (or question) of which more than half of the characters are unknown to the
    tokenizer, as Chinese is to t5-large, is not judged: None, with one logged warning a grader.
    """

    def __init__(
        self,
        opened: Opened,
        *,
        device: str = "cpu",
        precision: Precision = "auto",
        batch_tokens: int | None = None,
    ) -> None:
        spec = opened.spec
        self.spec: GraderSpec = spec
        self._fingerprint = opened.fingerprint
        self.device = device
        self.scorer, self.precision = prepare(opened.scorer, device, precision)
        self.batch_tokens = batch_tokens or (1024 if device == "cpu" else 65536)
        self.encoder = PairEncoder(
            opened.tokenizer, prompt_format(spec.prompt_format), spec.max_length, spec.window, spec.overlap
        )
        self._vectors = (
            Vectors(self.scorer, int(opened.tokenizer.eos_token_id)) if spec.attention == "apart" else None
        )
        self._once = (
            PassageEncoder(
                self.scorer, opened.tokenizer, spec.max_length, self.batch_tokens, self._fingerprint, device
            )
            if spec.once is not None
            else None
        )
        self._read: OrderedDict[bytes, PassageVectors] = OrderedDict()
        self._read_bytes = 0
        self._lock = threading.RLock()
        self._warned: set[str] = set()
        self._loader: tuple[Any, ...] | None = None

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path = "mini",
        *,
        adapter: str | Path | Literal[False] | None = None,
        device: str | None = None,
        precision: Precision = "auto",
        batch_tokens: int | None = None,
        prompt_format: str | None = None,
        words: tuple[str, str] | None = None,
    ) -> T5Grader:
        """Open a grader; the same arguments and files give the same object, loaded once.

        Args:
            source: a shipped grader ("mini"), a folder, or a hub id. A folder is one of this library, a PEFT
                adapter (its configuration names the base), an official CRAG checkpoint, or a monoT5 one.
                Safetensors only.
            adapter: a LoRA adapter (folder or hub id) to put on top; False leaves out the artefact's own.
            device: "cpu", "cuda", "cuda:1" ...; None for a GPU where there is one.
            precision: "fp32"; "bf16"; "int8" (CPU: 8-bit matrix products); "auto": see `precision.py`.
            batch_tokens: tokens of one batch, padding counted; None for 1,024 on a CPU and 65,536 on a GPU.
            prompt_format: "crag", "monot5" or "segments", where the checkpoint does not say it itself.
            words: the verdict words of a `true_false` head, positive first, where they are not true and
                false.

        Raises:
            ArtefactError: the folder is not a whole grader; the message names the file and the fix.
            ConfigError: another argument is wrong.
        """
        check_choice("precision", precision, PRECISIONS)
        if batch_tokens is not None:
            check_whole("batch_tokens", batch_tokens)
        return _shared(
            _anchored(source),
            adapter if adapter is None or adapter is False else _anchored(adapter),
            device,
            precision,
            batch_tokens,
            prompt_format,
            tuple(words) if words else None,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as the call that loads it, never as weights."""
        if self._loader is None:
            raise TypeError(
                "a T5Grader that was not opened by from_pretrained cannot be pickled: save it, then open it"
            )
        return _shared, self._loader

    def __repr__(self) -> str:
        return f"T5Grader({self.spec.name!r}, head={self.spec.head!r}, {self.precision} on {self.device})"

    @property
    def name(self) -> str:
        """The artefact's own name; never a path of this machine."""
        return self.spec.name

    @property
    def fingerprint(self) -> str:
        """Of weights, adapter, head, tokenizer, calibration and prompt format: what a score depends on."""
        return self._fingerprint

    @property
    def thresholds(self) -> Thresholds | None:
        """The cuts stored with the grader, or None when it was not tuned."""
        return self.spec.thresholds.cuts() if self.spec.thresholds else None

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        """Relevance of each text to the question, in [-1, 1], in order; None where it cannot judge.

        With scale "tanh", (score + 1) / 2 is the probability that the text is relevant.
        """
        if isinstance(texts, str):
            raise ConfigError("texts must be a list of str, got one str: pass [text]")
        return self.score_pairs([(question, text) for text in texts])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """The same for pairs of many questions, batched together: for benchmarks and training."""
        for question, text in pairs:
            if not isinstance(question, str) or not isinstance(text, str):
                raise ConfigError(
                    f"question and text must be str, got {type(question).__name__}, {type(text).__name__}"
                )
        raws = self.raw_pairs(pairs)
        return [self._bounded(raw, text) for raw, (_, text) in zip(raws, pairs, strict=True)]

    def raw_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """The logits before calibration and bounding; None where it cannot judge or the text is empty."""
        with self._lock:
            given = (self.scorer, self.encoder, pairs, self.batch_tokens, self.device, MAX_UNKNOWN)
            result = raw_scores(*given) if self._vectors is None else raw_scores_apart(self._vectors, *given)
        if result.unknown:
            self._warn_once(
                "unknown",
                f"grader {self.name}: {result.unknown} of {len(pairs)} pairs are mostly characters that its "
                "vocabulary does not have; they are not judged (score None). Use a grader for this language",
            )
        if any(raw is not None and math.isnan(raw) for raw in result.raws):
            self._warn_once(
                "nan",
                f"grader {self.name}: the model gave NaN on {self.device} in {self.precision}; not judged",
            )
        return [None if raw is None or math.isnan(raw) else raw for raw in result.raws]

    @property
    def reads_once(self) -> bool:
        """Whether `read`, `ask` and `judge` are there: passages are encoded once, and graded from that."""
        return self._once is not None

    @property
    def evidence_threshold(self) -> float | None:
        """Suggested for `Settings.evidence_threshold` where passages are read once; None for none."""
        return None if self.spec.once is None else self.spec.once.evidence_threshold

    @property
    def check_weights(self) -> CheckWeights | None:
        """How it checks answers (see `check.by_signals`); None where it was not fitted for it."""
        return self.spec.check

    def read(self, passages: Sequence[tuple[str, str]]) -> list[PassageVectors]:
        """(title, text) of each passage to its vectors, in order. The latest are kept, `READ_BYTES` of them.

        Raises ConfigError for a grader that reads question and text together (see `reads_once`).
        """
        encoder = self._encoder_once()
        keys = [_content_key(title, text) for title, text in passages]
        with self._lock:
            known = {key: self._read[key] for key in keys if key in self._read}
            new = {key: given for key, given in zip(keys, passages, strict=True) if key not in known}
            known |= zip(new, encoder.passages(list(new.values())), strict=True)
            for key in keys:
                if key not in self._read:
                    self._read[key] = known[key]
                    self._read_bytes += known[key].nbytes
                self._read.move_to_end(key)
            while self._read_bytes > READ_BYTES and len(self._read) > 1:
                self._read_bytes -= self._read.popitem(last=False)[1].nbytes
        return [known[key] for key in keys]

    def ask(self, question: str) -> QuestionVectors:
        """A question to its vectors."""
        with self._lock:
            return self._encoder_once().questions([question])[0]

    def judge(self, question: str, passages: Sequence[ToJudge]) -> list[Judged]:
        """Scores of passages that were read, and of their strips (see `read_once`)."""
        weights = self.spec.once
        if weights is None:
            self._encoder_once()
        found = judged(question, self.ask(question), passages, weights, MAX_UNKNOWN)  # type: ignore[arg-type]
        if unknown := sum(one.passage is None for one in found):
            self._warn_once(
                "unknown",
                f"grader {self.name}: {unknown} of {len(found)} passages are mostly characters that its vocabulary "
                "does not have; they are not judged (score None). Use a grader for this language",
            )
        return found

    def _encoder_once(self) -> PassageEncoder:
        if self._once is None:
            raise ConfigError(
                f"grader {self.name!r} reads a question and a text together, so it has no vectors of a passage: use "
                "score(question, texts)"
            )
        return self._once

    def _bounded(self, raw: float | None, text: str) -> float | None:
        if not text.strip():
            return EMPTY_SCORE
        if raw is None:
            return None
        value = self.spec.calibration.a * raw + self.spec.calibration.b
        return math.tanh(value / 2) if self.spec.scale == "tanh" else max(-1.0, min(1.0, value))

    def _warn_once(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            logger.warning(message)

    def as_tool(self) -> dspy.Tool:
        """This grader as a tool for an agent: `grade_relevance(question, texts) -> scores`."""
        from crag_dspy.graders.tool import as_tool

        return as_tool(self)


def _content_key(title: str, text: str) -> bytes:
    return hashlib.blake2b(f"{title}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


_LOADED: weakref.WeakValueDictionary[tuple[Any, ...], T5Grader] = weakref.WeakValueDictionary()
_LOADING = threading.Lock()


def _shared(source: str, adapter: str | Literal[False] | None, device: str | None, *rest: Any) -> T5Grader:
    """Load once a process. A folder whose files changed since is loaded anew."""
    from crag_dspy.graders.loading import open_grader, resolve

    precision, batch_tokens, named_format, words = rest
    where = device or _default_device()
    folders = [resolve(source)] + ([resolve(adapter)] if adapter else [])
    stamps = tuple(
        (str(path), path.stat().st_mtime_ns, path.stat().st_size)
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in (".safetensors", ".json")
    )
    key = (source, adapter, where, *rest, stamps)
    with _LOADING:
        grader = _LOADED.get(key)
        if grader is None:
            opened = open_grader(source, adapter, named_format, words)
            grader = T5Grader(opened, device=where, precision=precision, batch_tokens=batch_tokens)
            grader._loader = (source, adapter, device, *rest)
            _LOADED[key] = grader
        return grader


def _anchored(source: str | Path) -> str:
    """A folder by its absolute path, so that a pickle finds it from another working directory; names as they are."""
    from crag_dspy.graders.loading import shipped

    path = Path(source).expanduser()
    return str(path.resolve()) if path.is_dir() and str(source) not in shipped() else str(source)


def _default_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
