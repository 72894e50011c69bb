"""The three systems of the demo, on the sample data: CRAG, plain RAG and no retrieval, with one language model.

They share the language model, its adapter, the index and, with a context, the answer's signature; what differs is what
the language model gets to read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crag_dspy.baselines import RAG, NoRetrieval
from crag_dspy.commands.sealed import seal_cache
from crag_dspy.config.reading import language_model, read_config
from crag_dspy.crag import CRAG
from crag_dspy.graders.adapt import as_grader
from crag_dspy.retrievers.local import LocalIndex
from crag_dspy.websearch.index import IndexSearch

EMBEDDER = "mini"
RAG_PASSAGES = 10  # whole ones, as plain RAG has them; CRAG starts from as many
MAX_TOKENS = 64  # of an answer: they are names, numbers and terms

# Chosen on the dev questions, never on the test ones: the cuts by `crag-dspy thresholds --no-lm`, by what is in the
# evidence, where declining is right if nothing answers; how little the small language model reads, by its answers to 60
# of them (40 right and 17 wrong at a strip threshold of 0.5; 37 and 22 without).
SETTINGS: dict[str, Any] = {
    "k": RAG_PASSAGES,
    "upper": 0.9,
    "lower": 0.51,
    "evidence_threshold": -0.12,
    "strip_threshold": 0.5,
    "top_n": 3,
}


@dataclass(frozen=True)
class Systems:
    """What is compared. `count_tokens` counts in the `unit` that it names."""

    crag: CRAG
    rag: RAG
    no_retrieval: NoRetrieval
    lm: str
    grader: str
    count_tokens: Callable[[str], int]
    unit: str


@contextmanager
def open_systems(
    lm: str, grader: str, embedder: str = EMBEDDER, cache: str | Path | None = None
) -> Iterator[Systems]:
    """Open everything, with the language model set for what runs inside.

    Args:
        lm: "local", "python:module:attribute", or what `dspy.LM` takes.
        grader: as `as_grader` reads it: "mini", "embedding", "lm", a folder, ...
        embedder: "minilm", another of `as_embedder`, or "none" to search by words only.
        cache: folder for the two indexes; None is the user's cache folder.
    """
    config = read_config({"lm": _lm_table(lm)}, Path("command line"))
    crag = sample_crag(grader, embedder, cache)
    seal_cache()
    with language_model(config) as model:
        count, unit = token_counter(model)
        yield Systems(
            crag=crag,
            rag=RAG(crag.corrective.retrieve.part, k=RAG_PASSAGES),
            no_retrieval=NoRetrieval(),
            lm=str(model.model),
            grader=crag.corrective.grade.part.name,
            count_tokens=count,
            unit=unit,
        )


def sample_crag(grader: str, embedder: str = EMBEDDER, cache: str | Path | None = None) -> CRAG:
    """The program on the sample's knowledge base and web."""
    judge = as_grader(grader)
    knowledge, web = sample_indexes(embedder, cache)
    return CRAG(knowledge, judge, IndexSearch(web), **SETTINGS)


def _lm_table(name: str) -> dict[str, Any]:
    if name.startswith("python:"):
        return {"kind": name}
    # Without DSPy's cache: seconds are of answers that were made now.
    table = {"kind": "local"} if name == "local" else {"model": name}
    return {**table, "temperature": 0.0, "max_tokens": MAX_TOKENS, "cache": False}


def token_counter(lm: Any) -> tuple[Callable[[str], int], str]:
    """How context is counted: by the tokenizer of an in-process model, else by an estimate that says it is one."""
    count = getattr(getattr(lm, "engine", None), "count_tokens", None)
    if count is not None:
        return count, f"tokens of {lm.model}"
    from crag_dspy.text.matching import words

    return lambda text: len(
        words(text)
    ), "words, and characters of scripts without spaces (an estimate of tokens)"


def sample_indexes(
    embedder: str = EMBEDDER, cache: str | Path | None = None
) -> tuple[LocalIndex, LocalIndex]:
    """The indexes of the sample knowledge base and of the sample web, built on first use."""
    from crag_dspy import sample

    folder = Path(cache) if cache is not None else _user_cache()
    return (
        _index(folder, "knowledge", sample.knowledge(), embedder),
        _index(folder, "web", sample.web(), embedder),
    )


def _index(folder: Path, name: str, rows: Sequence[dict[str, Any]], embedder: str) -> LocalIndex:
    digest = hashlib.sha256(json.dumps([embedder, *rows], sort_keys=True).encode()).hexdigest()[:12]
    path = folder / f"{name}-{digest}"
    if not (path / "index.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Built beside its place and then renamed: an interrupted or a second demo never meets half an index.
        draft = Path(tempfile.mkdtemp(dir=folder, prefix=f".{name}-"))
        try:
            LocalIndex.build(
                draft, rows, None if embedder == "none" else embedder, chunk_words=None, progress=None
            )
            draft.rename(path)
        except OSError:
            if not (path / "index.json").exists():  # else another demo was first
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return LocalIndex.open(path)


def _user_cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crag-dspy" / "demo"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written to
        return Path(tempfile.mkdtemp(prefix="crag-dspy-demo-"))
    return folder
