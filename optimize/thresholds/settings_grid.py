"""A plain grid over any two settings, for those that DO change what the program answers.

Thresholds are read off outcomes that are there; a value of `top_n`, `strip_threshold`, `k` or another setting
takes runs of its own. Every value has its own folder in the run, so a grid can be interrupted, and widened
later.

    found = grid(crag, devset, contains_word, {"top_n": [2, 5], "strip_threshold": [-0.5, 0.0]})
    print(found)

The best of several cells flatters itself, as the best of all thresholds does. So each cell has its interval, and the
choice among them is cross-validated: cell and thresholds are chosen on all folds but one, and judged on that one. So
judged, it takes the place of the settings there are only if it is better beyond noise, as in `search_thresholds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crag_dspy.actions import Policy, Thresholds
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.objective import Objective, Prices, metric_name
from crag_dspy.optimize.questions.groups import By
from crag_dspy.optimize.report.lines import lined_up
from crag_dspy.optimize.runs.checks import check_devset
from crag_dspy.optimize.runs.failing import IN_A_ROW
from crag_dspy.optimize.runs.fingerprints import DECISION_SETTINGS
from crag_dspy.optimize.statistics.differences import PairedDifference, paired_difference
from crag_dspy.optimize.statistics.intervals import MeanInterval, mean_interval
from crag_dspy.optimize.statistics.wording import shown_p, told_groups, told_power
from crag_dspy.optimize.thresholds.cross_fit import cross_fit, repeats_of
from crag_dspy.optimize.thresholds.devset_arrays import CORRECT, DevsetArrays
from crag_dspy.optimize.thresholds.landscape import best_placed, landscape
from crag_dspy.optimize.thresholds.outcomes import Outcomes, collect_outcomes
from crag_dspy.optimize.thresholds.search import settings_of, tuned_on
from crag_dspy.state.plain import Plain, plain

if TYPE_CHECKING:
    import dspy

    from crag_dspy.optimize.metrics.score import Metric
    from crag_dspy.optimize.statistics.intervals import Groups
    from crag_dspy.optimize.thresholds.devset_arrays import Floats, Ints

Pair = tuple[Any, Any]
_CUTS = ("upper", "lower")


@dataclass(frozen=True)
class Cell:
    """One pair of values: the mean of metric minus prices with its interval, the questions that search, and the
    thresholds it was measured at.
    """

    quality: MeanInterval
    searches: int
    thresholds: Thresholds

    @property
    def value(self) -> float:
        return self.quality.mean

    def to_json(self) -> dict[str, Any]:
        quality = {"value": self.value, "low": self.quality.low, "high": self.quality.high}
        return {**quality, "searches": self.searches, **plain(self.thresholds)}


@dataclass(frozen=True)
class Grid(Plain):
    """`cells[i][j]` is at `rows[i]` of the first setting and `columns[j]` of the second; None where lower > upper.

    Attributes:
        program: a copy of the program with the settings that are kept, and the grader they were tried on.
        candidate: a copy with the best cell's settings in either case.
        cross_validated: what the best cell of such a grid is worth on new questions; None for fewer than two.
        change: the same against the program's own settings; None where no cell answers as these do.
        runs: of the program, now or before; `runs_now` of them now, and `failures` of them failed.
        note: what the intervals are over.
    """

    SHOWN: ClassVar[str] = (
        "names rows columns cells cross_validated change improved verdict metric runs runs_now failures note"
    )

    names: tuple[str, str]
    rows: list[Any]
    columns: list[Any]
    cells: list[list[Cell | None]]
    program: dspy.Module
    candidate: dspy.Module
    best: tuple[Any, Any]
    cross_validated: MeanInterval | None
    change: PairedDifference | None
    metric: str
    runs: int
    runs_now: int
    failures: int = 0
    note: str = ""

    @property
    def improved(self) -> bool:
        """Whether the best cell is better beyond noise on questions that did not choose it. Never where runs failed."""
        return self.change is not None and self.change.improved and not self.failures

    @property
    def verdict(self) -> str:
        """In one sentence: which settings are kept, and why."""
        change = self.change
        if change is None:
            return "The program's own settings are no cell, so nothing is compared with them: they are kept."
        if self.failures:
            return f"{self.failures} runs failed, so nothing is judged yet: the old settings are kept. Run it again."
        told = f"{change}, p {shown_p(change.p_value)}, on questions that did not choose it"
        if self.improved:
            return f"The best cell is better beyond noise ({told}): it is kept."
        return f"The best cell is not better beyond noise ({told}; {told_power(change)}): the old settings are kept."

    def to_json(self) -> dict[str, Any]:
        settings = settings_of(self.program)
        tried_on = {"grader": settings.grader, "grader_fingerprint": settings.grader_fingerprint}
        best = plain(dict(zip(self.names, self.best, strict=True)))
        return {**super().to_json(), "best": best, **tried_on}

    def __str__(self) -> str:
        first, second = self.names
        cells = [
            [str(value), *("-" if cell is None else f"{cell.quality} ({cell.searches})" for cell in row)]
            for value, row in zip(self.rows, self.cells, strict=True)
        ]
        table = [["", *map(str, self.columns)], *cells]
        lines = [
            f"{self.metric} by {first} (down) and {second} (across); in brackets the questions that search",
            *lined_up(table),
            "best: "
            + ", ".join(f"{name} {value}" for name, value in zip(self.names, self.best, strict=True)),
        ]
        if self.cross_validated is not None:
            lines.append(
                f"cross-validated {self.cross_validated}: what to expect of the best on new questions"
            )
        runs = f"runs of the program: {self.runs} ({self.runs_now} now), failed {self.failures}"
        lines.append(self.verdict)
        return "\n".join([*lines, self.note, runs])


def grid(
    program: dspy.Module,
    devset: Sequence[dspy.Example],
    metric: Metric,
    axes: Mapping[str, Sequence[Any]],
    *,
    tune: bool = True,
    prices: Prices | None = None,
    run: str | Path | None = None,
    threads: int | None = None,
    failure_score: float = 0.0,
    stop_after: int | None = IN_A_ROW,
    fresh: bool = False,
    progress: bool | None = None,
    folds: int = 5,
    seed: int = 0,
    by: By | None = None,
) -> Grid:
    """Try every pair of values of two settings.

    Args:
        program: `CRAG` or one like it; not changed.
        axes: two names of settings, each with its values: {"top_n": [2, 5], "strip_threshold": [-0.5, 0.0]}.
        tune: find the best thresholds of each cell, exactly and without further runs, where neither axis is a
            threshold: settings that make more evidence want other thresholds. False: the program's.
        prices, threads, failure_score, stop_after, fresh, progress: as in `search_thresholds`.
        run: a folder; every pair of values that changes answers has its own folder in it.
        folds: of the cross-validated estimate.
        seed: of folds and tests.
        by: what tells which questions belong together, see `groups_of`.

    Returns:
        All cells, and copies of the program with the best one's settings and with those that are kept: its own, unless
        the best cell is better beyond noise on questions that did not choose it. Of equal cells its own is best, then
        the one with fewer searches, then the first.

    Raises:
        ConfigError: an unknown setting or a value out of range; before any run.
    """
    if len(axes) != 2:
        raise ConfigError(f"a grid has two axes, got {', '.join(axes) or 'none'}")
    first, second = axes
    for name, values in axes.items():
        if not values:
            raise ConfigError(f"axis {name} has no values")
    check_devset(devset, [metric])
    if prices is None:
        prices = metric.prices if isinstance(metric, Objective) else Prices()
    pairs = [(a, b) for a, b in product(axes[first], axes[second]) if not _crossed({first: a, second: b})]
    variants = {pair: _with(program, {first: pair[0], second: pair[1]}) for pair in pairs}
    if not variants:
        raise ConfigError("in every cell lower is above upper: nothing can be tried")

    collected: dict[str, Outcomes] = {}
    cells: dict[Pair, _CellOutcomes] = {}
    for pair, variant in variants.items():
        chosen = dict(zip(axes, pair, strict=True))
        place = _folder_name(chosen)
        if place not in collected:
            collected[place] = collect_outcomes(
                variant,
                devset,
                metric,
                run=None if run is None else Path(run).expanduser() / place,
                threads=threads,
                failure_score=failure_score,
                stop_after=stop_after,
                traces=False,
                fresh=fresh,
                progress=progress,
                by=by,
            )
        cells[pair] = _CellOutcomes.of(
            variant, collected[place], prices, tuned=tune and not set(_CUTS) & set(axes)
        )
    groups = collected[place].groups
    own = (getattr(settings_of(program), first), getattr(settings_of(program), second))
    everyone = np.arange(len(devset))

    def choose(chosen: Ints) -> tuple[Pair, Thresholds]:
        placed = {pair: (pair, cell.thresholds_on(chosen)) for pair, cell in cells.items()}
        return max(placed.values(), key=lambda each: cells[each[0]].rank(each[1], chosen, each[0] == own))

    def worth(choice: tuple[Pair, Thresholds], held: Ints) -> Floats:
        pair, cuts = choice
        return cells[pair].worth(cuts, held)

    best, cuts = choose(everyone)
    held_out = change = None
    if len(devset) > 1:
        fitted = cross_fit(
            len(devset), choose, worth, groups=groups, folds=folds, repeats=_repeats(cells, folds), seed=seed
        )
        held_out = mean_interval(fitted.values, groups)
        answering = collected.get(_folder_name(dict(zip(axes, own, strict=True))))
        if answering is not None:
            present = _CellOutcomes.of(program, answering, prices, tuned=False)
            before = present.worth(present.standing, everyone)
            change = paired_difference(before, fitted.values, groups, seed=seed)
    shown = {pair: cell.cell(everyone, groups) for pair, cell in cells.items()}
    known, kept = tuned_on(program), program.deepcopy()
    settings_of(variants[best]).update({"upper": cuts.upper, "lower": cuts.lower, **known})
    settings_of(kept).update(known)
    found = Grid(
        names=(first, second),
        rows=list(axes[first]),
        columns=list(axes[second]),
        cells=[[shown.get((a, b)) for b in axes[second]] for a in axes[first]],
        program=kept,
        candidate=variants[best],
        best=best,
        cross_validated=held_out,
        change=change,
        metric=metric_name(metric),
        runs=sum(outcomes.runs for outcomes in collected.values()),
        runs_now=sum(outcomes.runs_now for outcomes in collected.values()),
        failures=sum(len(outcomes.failures()) for outcomes in collected.values()),
        note=told_groups(len(devset), groups),
    )
    return replace(found, program=found.candidate) if found.improved else found


@dataclass(frozen=True)
class _CellOutcomes:
    """What every action is worth at one pair of values. `standing`: the thresholds of the program there."""

    devset: DevsetArrays
    policy: Policy
    standing: Thresholds
    tuned: bool

    @classmethod
    def of(cls, variant: dspy.Module, outcomes: Outcomes, prices: Prices, *, tuned: bool) -> _CellOutcomes:
        settings = settings_of(variant)
        devset = outcomes.arrays(prices, settings.evidence_threshold)
        return cls(devset, settings.policy, settings.thresholds, tuned)

    def thresholds_on(self, chosen: Ints) -> Thresholds:
        """The best on some questions, or those that stand."""
        if not self.tuned:
            return self.standing
        pair = best_placed(landscape(self.devset.subset(chosen), self.policy), self.standing)
        return Thresholds(pair.upper, pair.lower)

    def worth(self, cuts: Thresholds, chosen: Ints) -> Floats:
        return self.devset.subset(chosen).values_at(cuts.upper, cuts.lower, self.policy)

    def searches(self, cuts: Thresholds, chosen: Ints) -> int:
        return int((self.devset.subset(chosen).actions(cuts.upper, cuts.lower, self.policy) != CORRECT).sum())

    def rank(self, cuts: Thresholds, chosen: Ints, own: bool) -> tuple[float, bool, int]:
        """What the best cell has most of."""
        return round(float(self.worth(cuts, chosen).mean()), 9), own, -self.searches(cuts, chosen)

    def cell(self, everyone: Ints, groups: Groups | None) -> Cell:
        cuts = self.thresholds_on(everyone)
        return Cell(mean_interval(self.worth(cuts, everyone), groups), self.searches(cuts, everyone), cuts)


def _repeats(cells: Mapping[Pair, _CellOutcomes], folds: int) -> int:
    """As many as the search of the largest cell allows, and fewer for many cells."""
    return max(2, min(repeats_of(cell.devset, cell.policy, folds * len(cells)) for cell in cells.values()))


def _with(program: dspy.Module, values: Mapping[str, Any]) -> dspy.Module:
    variant = program.deepcopy()
    try:
        settings_of(variant).update(values)
    except ConfigError as error:
        raise ConfigError(f"axis value: {error}") from error
    return variant


def _crossed(values: Mapping[str, Any]) -> bool:
    return set(_CUTS) <= set(values) and values["lower"] > values["upper"]


def _folder_name(chosen: Mapping[str, Any]) -> str:
    """The folder of outcomes; values that only decide between actions share one."""
    changing = [f"{name}={value}" for name, value in chosen.items() if name not in DECISION_SETTINGS]
    return ",".join(changing) or "outcomes"
