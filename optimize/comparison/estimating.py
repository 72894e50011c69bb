"""What a comparison will take, told before it is begun: questions, LM calls, minutes.

Answers that are in the run's folder already say what a question takes. Where there are none, LM calls are counted by
running a few questions without the language model (`dry_run.py`), and the minutes stay unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.comparison.comparing import folder_of
from crag_dspy.optimize.prompts.dry_run import run_dry
from crag_dspy.optimize.runs.failing import failure_in
from crag_dspy.optimize.runs.fingerprints import example_key
from crag_dspy.optimize.runs.folder import RESULTS, read_rows
from crag_dspy.state.plain import Plain

if TYPE_CHECKING:
    import dspy

SAMPLE = 4  # questions run without a language model


@dataclass(frozen=True)
class SystemEstimate:
    """One system: `left` of its `questions` are still to be asked; calls and seconds are of one question.

    seconds: None when no question of it was asked yet. lm_calls: None when they cannot be counted either.
    """

    name: str
    questions: int
    left: int
    lm_calls: float | None
    seconds: float | None


@dataclass(frozen=True)
class CompareEstimate(Plain):
    """All systems of a comparison, over all seeds."""

    SHOWN: ClassVar[str] = "lm_calls minutes systems"

    systems: Sequence[SystemEstimate]

    @property
    def left(self) -> int:
        """Answers that are not there yet."""
        return sum(one.left for one in self.systems)

    @property
    def lm_calls(self) -> int | None:
        """Still to be made; None when a system's are unknown."""
        each = [None if one.lm_calls is None else one.left * one.lm_calls for one in self.systems if one.left]
        known = [calls for calls in each if calls is not None]
        return round(sum(known)) if len(known) == len(each) else None

    @property
    def minutes(self) -> float | None:
        """Still to go, one question at a time; None when some system has not been timed."""
        each = [None if one.seconds is None else one.left * one.seconds for one in self.systems if one.left]
        known = [seconds for seconds in each if seconds is not None]
        return sum(known) / 60 if len(known) == len(each) else None

    def __str__(self) -> str:
        calls = "an unknown number of" if self.lm_calls is None else f"about {self.lm_calls:,}"
        minutes = (
            "unknown minutes (--probe 2 measures)" if self.minutes is None else f"{self.minutes:.0f} minutes"
        )
        there = sum(one.questions for one in self.systems) - self.left
        lines = [f"estimate: {self.left:,} answers to make, {there:,} are there; {calls} LM calls, {minutes}"]
        for one in self.systems:
            each = "? LM calls" if one.lm_calls is None else f"{one.lm_calls:.1f} LM calls"
            timed = "? s" if one.seconds is None else f"{one.seconds:.1f} s"
            lines.append(
                f"  {one.name}: {one.left} of {one.questions} questions left, {each} and {timed} each"
            )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {"answers": self.left, **super().to_json()}


def estimate_comparison(
    systems: Mapping[str, dspy.Module],
    devset: Sequence[dspy.Example],
    *,
    limits: Mapping[str, int] | None = None,
    seeds: Sequence[int] = (0,),
    run: str | Path | None = None,
) -> CompareEstimate:
    """What `compare` with the same arguments has still to do. Calls no language model."""
    found = []
    for name, program in systems.items():
        asked = devset[: (limits or {}).get(name, len(devset))]
        wanted = {example_key(example) for example in asked}
        rows = [
            row
            for sample in seeds
            for row in ([] if run is None else _stored(folder_of(run, name, sample or None), wanted))
        ]
        made = [row["cost"]["lm_calls"] + row.get("cached", 0) for row in rows]
        calls = sum(made) / len(rows) if rows else _counted(program, asked)
        seconds = sum(row["cost"]["seconds"] for row in rows) / len(rows) if rows else None
        questions = len(wanted) * len(seeds)
        found.append(SystemEstimate(name, questions, questions - len(rows), calls, seconds))
    return CompareEstimate(found)


def _stored(folder: Path, wanted: set[str]) -> list[dict[str, Any]]:
    path = folder / RESULTS
    if not path.exists():
        return []
    rows = {row["key"]: row for row in read_rows(path)}
    return [row for key, row in rows.items() if key in wanted and failure_in(row) is None]


def _counted(program: dspy.Module, examples: Sequence[dspy.Example]) -> float | None:
    try:
        return run_dry(program, examples, SAMPLE).mean
    except ConfigError:  # a program that cannot be run without its model: the estimate says so
        return None
