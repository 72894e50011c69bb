"""`import crag_dspy` stays near `import dspy`: what is heavy is imported where it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "transformers",
    "weaviate",
    "tavily",
    "lancedb",
    "peft",
    "sentence_transformers",
    "xllamacpp",
)


def modules_after(code: str) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ended.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import crag_dspy",
        "from crag_dspy import CRAG, RAG, Action, Passage, Thresholds, as_retriever, decide, decompose",
        "from crag_dspy import CRAG\nCRAG(['a text'], grader=lambda q, texts: [0.0] * len(texts))",
        "import crag_dspy.config.reading",
    ],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    assert modules_after(code).isdisjoint(HEAVY)


def test_importing_loads_no_numpy() -> None:
    """It takes as long as the rest of the library."""
    assert "numpy" not in modules_after(
        "import crag_dspy; crag_dspy.CRAG, crag_dspy.RAG, crag_dspy.as_retriever"
    )


def test_importing_costs_little_beside_dspy() -> None:
    """In time of the processor, and against `import dspy` in the same process: machines differ, and are busy."""
    code = (
        "import time; start = time.process_time(); import dspy; between = time.process_time(); "
        "import crag_dspy; crag_dspy.CRAG; print((time.process_time() - between) / (between - start))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True) for _ in range(3)]
    assert min(float(run.stdout) for run in runs) < 0.5


def test_names_are_found_listed_and_refused() -> None:
    import crag_dspy

    for name in crag_dspy.__all__:
        assert getattr(crag_dspy, name) is not None
    assert set(crag_dspy.__all__) <= set(dir(crag_dspy))
    with pytest.raises(AttributeError, match="CRAAG"):
        crag_dspy.CRAAG  # noqa: B018
