"""Several systems on the same questions, with the same language model, in one process.

    compared = compare({"RAG": rag, "CRAG": crag}, devset, contains_word)
    print(compared)              # a table, and for every system the paired difference to the first

What a language model is given and what it makes of it are measured apart: an answer that does not stand in what the
model read was not found but guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from crag_dspy.actions import Action
from crag_dspy.errors import ConfigError
from crag_dspy.matching import contains_answer, words
from crag_dspy.optimize.evaluate import Evaluation, evaluate
from crag_dspy.optimize.intervals import Interval, PairedDifference, mean_interval
from crag_dspy.optimize.objective import name_of
from crag_dspy.optimize.observed import abstained, answer_of, evidence_of, field_of
from crag_dspy.optimize.report import write_report
from crag_dspy.optimize.report_data import COMPARISON
from crag_dspy.optimize.runs import pretty, write_whole

CountTokens = Callable[[str], int]


@dataclass(frozen=True)
class System:
    """One system's results.

    Attributes:
        quality: the mean of the metric, with its bootstrap interval.
        change: the paired difference to the first system; None for the first.
        actions: questions by action; empty for a system that takes none.
        abstained: share of the questions it declined to answer.
        unsupported: share of the answers it gave that do not stand in what the language model read; None when it gave
            none.
        context_tokens: what the model read, a question on average.
        searches, lm_calls, tokens, seconds: a question on average.
        failures: questions on which it failed.
    """

    name: str
    quality: Interval
    change: PairedDifference | None
    actions: Mapping[str, int]
    abstained: float
    unsupported: float | None
    context_tokens: float
    searches: float
    lm_calls: float
    tokens: float
    seconds: float
    failures: int

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "quality": self.quality.to_json(),
            "change": self.change.to_json() if self.change is not None else None,
            "actions": dict(self.actions),
            "abstained": self.abstained,
            "unsupported": self.unsupported,
            "context_tokens": self.context_tokens,
            "searches": self.searches,
            "lm_calls": self.lm_calls,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "failures": self.failures,
        }


@dataclass(frozen=True)
class Comparison:
    """A row a system. `evaluations` has every question of each, in the order of the questions."""

    metric: str
    questions: int
    systems: Sequence[System]
    evaluations: Mapping[str, Evaluation]
    unit: str

    def __str__(self) -> str:
        rows = [_HEADER, *(_cells(system) for system in self.systems)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
        lines = []
        for name, *cells in rows:
            aligned = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            lines.append("  ".join([name.ljust(widths[0]), *aligned]))
        title = f"{self.metric} on {self.questions} questions, against {self.systems[0].name}; context in {self.unit}"
        return "\n".join([title, *lines])

    def markdown(self) -> str:
        """The same as a table for a README."""
        rows = [
            _HEADER,
            ["---", *["---:"] * (len(_HEADER) - 1)],
            *(_cells(system) for system in self.systems),
        ]
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "questions": self.questions,
            "unit": self.unit,
            "systems": [system.to_json() for system in self.systems],
        }


_HEADER = [
    "system",
    "quality",
    "difference",
    "p",
    "correct/incorrect/ambiguous",
    "abstained",
    "unsupported",
    "context",
    "LM calls",
    "searches",
    "seconds",
]


def compare(
    systems: Mapping[str, dspy.Module],
    devset: Sequence[dspy.Example],
    metric: Callable[..., Any],
    *,
    count_tokens: CountTokens | None = None,
    unit: str | None = None,
    run: str | Path | None = None,
    threads: int | None = None,
    seed: int = 0,
    level: float = 0.95,
    progress: bool | None = None,
    fresh: bool = False,
) -> Comparison:
    """Ask every system every question.

    Args:
        systems: name -> program; the first is what the others are compared with.
        metric: one of `metrics`, or any function of (example, prediction).
        count_tokens, unit: how to measure what the model reads; by default words, and characters of scripts without
            spaces, which is near the number of tokens.
        run: a folder with one run a system, so that a comparison that was interrupted goes on.
        seed, level: of the intervals and tests.

    Seconds are of one process, system by system; replies from DSPy's cache take none.

    Raises:
        ConfigError: no system, two whose names make one folder, or a bad devset; before any question is asked.
    """
    if not systems:
        raise ConfigError("systems is empty: pass name -> program")
    folders = {name: _folder_name(name) for name in systems}
    twice = [folder for folder, times in Counter(folders.values()).items() if times > 1]
    if run is not None and twice:
        raise ConfigError(f"two systems would be kept in one folder, {twice[0]!r}: give them other names")
    count = count_tokens or _words
    unit = unit or (_UNIT if count_tokens is None else "tokens")
    judged = name_of(metric)
    measures: dict[str, Any] = {judged: metric, **_MEASURES, "context_tokens": ContextTokens(count)}
    evaluations = {
        name: evaluate(
            program,
            devset,
            measures,
            run=None if run is None else Path(run) / folders[name],
            threads=threads,
            traces=True,
            seed=seed,
            progress=progress,
            fresh=fresh,
            config={"system": name},
        )
        for name, program in systems.items()
    }
    first = next(iter(evaluations.values()))
    found = [
        _system(name, done, None if done is first else first, judged, level)
        for name, done in evaluations.items()
    ]
    compared = Comparison(judged, len(devset), found, evaluations, unit)
    if run is not None:
        write_whole(Path(run).expanduser() / COMPARISON, pretty(compared.to_json()))
        write_report(run)
    return compared


# Measures of a prediction, as metrics: `evaluate` keeps them by question, and a comparison can be resumed.


def declined(example: Any, prediction: Any) -> float:
    """1 where the program did not answer."""
    return float(abstained(prediction))


def unsupported(example: Any, prediction: Any) -> float:
    """1 where an answer was given that does not stand in what the language model read."""
    if abstained(prediction):
        return 0.0
    read = "\n".join(
        [str(field_of(prediction, "knowledge") or ""), *(text for _, text in evidence_of(prediction))]
    )
    return float(not contains_answer(read, answer_of(prediction)))


class ContextTokens:
    """The size of what the language model read."""

    def __init__(self, count: CountTokens) -> None:
        self.count = count
        self.counted_by = getattr(count, "__qualname__", type(count).__qualname__)

    def __call__(self, example: Any, prediction: Any) -> float:
        read = str(field_of(prediction, "knowledge") or field_of(prediction, "context") or "")
        return float(self.count(read)) if read else 0.0


_MEASURES: dict[str, Any] = {"abstained": declined, "unsupported": unsupported}
_UNIT = "words, and characters of scripts without spaces"


def _words(text: str) -> int:
    return len(words(text))


def _system(name: str, done: Evaluation, first: Evaluation | None, metric: str, level: float) -> System:
    n = len(done.rows)
    silent = sum(done.scores("abstained"))
    cost = done.cost
    return System(
        name=name,
        quality=mean_interval(done.scores(metric), level=level, seed=done.seed),
        change=None if first is None else done.compared_with(first, metric, level),
        actions=dict(Counter(row["action"] for row in done.rows if row["action"])),
        abstained=silent / n,
        unsupported=sum(done.scores("unsupported")) / (n - silent) if silent < n else None,
        context_tokens=sum(done.scores("context_tokens")) / n,
        searches=cost.searches / n,
        lm_calls=cost.lm_calls / n,
        tokens=cost.tokens / n,
        seconds=cost.seconds / n,
        failures=len(done.failures),
    )


def _cells(system: System) -> list[str]:
    change = system.change
    actions = (
        "/".join(str(system.actions.get(action.value, 0)) for action in _ORDER) if system.actions else "-"
    )
    return [
        system.name,
        str(system.quality),
        f"{change.difference:+.3f} [{change.low:+.3f}, {change.high:+.3f}]" if change is not None else "-",
        "-" if change is None else f"{change.p_value:.3f}" if change.p_value >= 0.001 else "<0.001",
        actions,
        f"{system.abstained:.1%}",
        "-" if system.unsupported is None else f"{system.unsupported:.1%}",
        f"{system.context_tokens:.0f}",
        f"{system.lm_calls:.2f}",
        f"{system.searches:.2f}",
        f"{system.seconds:.2f}",
    ]


_ORDER = (Action.CORRECT, Action.INCORRECT, Action.AMBIGUOUS)


def _folder_name(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name.strip().lower()).strip("-") or "system"
