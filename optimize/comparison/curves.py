"""What robustness found: rows of all systems at every rate, as tables, JSON, CSV and a plot."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from crag_dspy.optimize.comparison.curve_plot import curve_plot
from crag_dspy.optimize.report.lines import lined_up, markdown_table
from crag_dspy.optimize.runs.folder import pretty
from crag_dspy.state.files import write_whole
from crag_dspy.state.plain import Plain, plain

if TYPE_CHECKING:
    from crag_dspy.optimize.comparison.table import System

RESULT, POINTS, PLOT = "robustness.json", "robustness.csv", "robustness.svg"


@dataclass(frozen=True)
class RobustnessCurves(Plain):
    """Rows of all systems at every rate of removal and every number of decoys.

    left_out: share of the questions' answering passages that are left out, at every rate.
    note: what the intervals are over.
    """

    SHOWN: ClassVar[str] = "metric questions kept note"

    metric: str
    questions: int
    removal: Mapping[float, Sequence[System]]
    decoys: Mapping[int, Sequence[System]]
    left_out: Mapping[float, float]
    note: str = ""

    def __str__(self) -> str:
        blocks = [f"{self.metric} on {self.questions} questions"]
        for title, points in (("left out", self.removal), ("decoys", self.decoys)):
            if points:
                blocks.append("\n".join(lined_up(_rows(title, points))))
        return "\n\n".join([*blocks, *self.notes(), *self.failure_lines()])

    def failure_lines(self) -> list[str]:
        """Which systems failed on some questions, and where."""
        failed = [
            f"{one.name} {one.failures} at {_shown(at)} {change}"
            for change, points in (("left out", self.removal), ("decoys", self.decoys))
            for at, systems in points.items()
            for one in systems
            if one.failures
        ]
        if not failed:
            return []
        return [f"failed: {', '.join(failed)}; they count as not right, and are asked again the next time"]

    def notes(self) -> list[str]:
        """How much of its quality each system keeps at the highest rate, and what the intervals are over."""
        notes = [self.note] if self.note else []
        kept = {name: value for name, value in self.kept.items() if value is not None}
        if not kept:
            return notes
        shown = ", ".join(f"{name} {value:.0%}" for name, value in kept.items())
        return [f"kept at {max(self.removal):g} of the quality at {min(self.removal):g}: {shown}", *notes]

    @property
    def kept(self) -> dict[str, float | None]:
        """Quality at the highest rate over that at the lowest; None where that is 0."""
        if not self.removal:
            return {}
        low, high = self.removal[min(self.removal)], self.removal[max(self.removal)]
        return {
            before.name: after.quality.mean / before.quality.mean if before.quality.mean else None
            for before, after in zip(low, high, strict=True)
        }

    def markdown(self) -> str:
        parts = [f"{self.metric} on {self.questions} questions."]
        for title, points in (("left out", self.removal), ("decoys", self.decoys)):
            if points:
                parts.append(markdown_table(_rows(title, points)))
        return "\n\n".join([*parts, *self.notes(), *self.failure_lines()])

    def to_json(self) -> dict[str, Any]:
        def points(of: Mapping[Any, Any], name: str) -> list[dict[str, Any]]:
            return [{"at": at, name: plain(found)} for at, found in of.items()]

        return {
            **super().to_json(),
            "removal": points(self.removal, "systems"),
            "decoys": points(self.decoys, "systems"),
            "left_out": points(self.left_out, "share"),
        }

    def to_csv(self) -> str:
        """A line a system and point."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["change", "at", "system", "quality", "low", "high", *_MORE])
        for name, points in (("removal", self.removal), ("decoys", self.decoys)):
            for at, systems in points.items():
                for one in systems:
                    more = (
                        one.coverage.mean,
                        None if one.hallucination is None else one.hallucination.mean,
                        one.abstained,
                        one.context_tokens,
                        one.searches,
                        one.failures,
                    )
                    quality = one.quality
                    row = [name, at, one.name, quality.mean, quality.low, quality.high, *more]
                    writer.writerow([round(value, 6) if isinstance(value, float) else value for value in row])
        return text.getvalue()


_MORE = ("coverage", "hallucination", "abstained", "context_tokens", "searches", "failures")


def write_curves(curves: RobustnessCurves, folder: Path) -> None:
    """As JSON, as CSV and as a plot."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / RESULT, pretty(curves.to_json()))
    write_whole(folder / POINTS, curves.to_csv())
    write_whole(folder / PLOT, curve_plot(curves.metric, curves.questions, curves.removal, curves.decoys))


def _rows(title: str, points: Mapping[Any, Sequence[System]]) -> list[list[str]]:
    """The points, and a row a system: its quality with the interval at every point."""
    names = [system.name for system in next(iter(points.values()))]
    found = [
        [name, *(str(systems[i].quality) for systems in points.values())] for i, name in enumerate(names)
    ]
    return [[title, *map(_shown, points)], *found]


def _shown(x: float) -> str:
    return f"{x:g}"
