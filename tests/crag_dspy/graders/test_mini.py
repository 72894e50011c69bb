"""The shipped grader, as a user meets it. Its quality is measured by `crag-dspy benchmark-grader`, not here."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from crag_dspy.graders import T5Grader

FOLDER = Path(str(resources.files("crag_dspy.weights"))) / "mini"

pytestmark = pytest.mark.skipif(
    not (FOLDER / "grader.json").is_file(), reason="this checkout ships no mini grader"
)


@pytest.fixture(scope="module")
def mini() -> T5Grader:
    return T5Grader.from_pretrained("mini")


def test_it_is_whole_small_and_tuned(mini: T5Grader) -> None:
    size = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())

    assert size <= 32_000_000
    assert mini.name == "mini"
    assert mini.thresholds is not None
    assert mini.spec.trained_on
    assert all(
        path.suffix in {".safetensors", ".json", ".md", ".txt"}
        for path in FOLDER.rglob("*")
        if path.is_file()
    )


@pytest.mark.parametrize(
    ("question", "relevant", "others"),
    [
        (
            "Who wrote Pride and Prejudice?",
            "Pride and Prejudice is a novel by Jane Austen, published in 1813.",
            ["The Danube flows through ten countries.", "Bread rises because yeast makes gas."],
        ),
        (
            "How long is the Danube?",
            "The Danube is about 2,850 kilometres long.",
            ["Jane Austen was born in Steventon.", "Copper is a good conductor of heat."],
        ),
        (
            "《红楼梦》的作者是谁？",
            "《红楼梦》是清代作家曹雪芹创作的长篇小说。",
            ["长江是中国最长的河流。", "铜是热的良导体。"],
        ),
    ],
)
def test_what_answers_scores_above_what_does_not(
    mini: T5Grader, question: str, relevant: str, others: list[str]
) -> None:
    best, *rest = mini.score(question, [relevant, *others])

    assert best is not None
    assert best > 0
    assert all(score is not None and score < best for score in rest)


def test_an_answer_in_the_last_sentence_of_five_thousand_words_is_found(mini: T5Grader) -> None:
    """Field case 27."""
    filler = "The harbour was quiet and the boats lay in rows along the old stone wall. " * 334
    answer = "Pride and Prejudice is a novel by Jane Austen, published in 1813."
    assert len(filler.split()) > 5000

    without, with_answer = mini.score("Who wrote Pride and Prejudice?", [filler, filler + answer])

    assert without is not None
    assert with_answer is not None
    assert without < 0 < with_answer


def test_every_precision_gives_nearly_the_same_scores(mini: T5Grader) -> None:
    texts = [
        "Pride and Prejudice is a novel by Jane Austen.",
        "Copper conducts heat.",
        "Austen wrote six novels.",
    ]
    exact = T5Grader.from_pretrained("mini", precision="fp32").score("Who wrote Pride and Prejudice?", texts)

    for precision in ("bf16", "int8"):
        fast = T5Grader.from_pretrained("mini", precision=precision)
        assert fast.score("Who wrote Pride and Prejudice?", texts) == pytest.approx(exact, abs=0.1)


@pytest.mark.slow
def test_opening_it_reads_nothing_but_its_folder() -> None:
    program = (
        "import socket\n"
        "def refuse(*args, **kwargs): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "from crag_dspy.graders import T5Grader\n"
        "print(T5Grader.from_pretrained('mini').score('who?', ['she did']) is not None)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "True"
