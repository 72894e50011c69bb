"""`mlflow.dspy.autolog()` shows the steps of a question as spans, each under the one that called it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest

from crag_dspy import CRAG, Passage

mlflow = pytest.importorskip("mlflow", reason="needs MLflow: pip install mlflow-skinny pandas")
pytest.importorskip("mlflow.dspy", reason="needs what mlflow.dspy imports: pip install pandas")


class Half:
    """Everything is half relevant, so both sides are taken."""

    name = fingerprint = "half"

    def score(self, question: str, texts: Sequence[str]) -> list[float | None]:
        return [0.0 for _ in texts]


@pytest.fixture
def autolog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    mlflow.dspy.autolog(silent=True)
    yield
    mlflow.dspy.autolog(disable=True, silent=True)


def test_every_step_is_a_span(autolog: None, scripted_lm: Any) -> None:
    program = CRAG(
        lambda query: [Passage("It opened in 1931.")], Half(), lambda query, max_results: ["In 1931."]
    )
    with dspy.context(lm=scripted_lm({"answer": "1931", "query": "opening year"})):
        assert program(question="When did it open?").action == "ambiguous"
    mlflow.flush_trace_async_logging()
    spans = mlflow.get_trace(mlflow.get_last_active_trace_id()).data.spans
    names = {span.span_id: span.name.split(".")[0] for span in spans}
    under = {(span.name.split(".")[0], names.get(span.parent_id)) for span in spans}
    assert under >= {
        ("CRAG", None),
        ("CorrectiveRetriever", "CRAG"),
        ("Retrieve", "CorrectiveRetriever"),
        ("Grade", "CorrectiveRetriever"),
        ("Search", "CorrectiveRetriever"),
        ("Predict", "CorrectiveRetriever"),  # the rewriting
        ("Predict", "CRAG"),  # the answer
    }
