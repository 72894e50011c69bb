"""A plain grid over any two settings, for those that DO change what the program answers.

Thresholds are read off outcomes that are there; a value of `top_n`, `strip_threshold`, `k` or another setting
takes runs of its own. Every value has its own folder in the run, so a grid can be interrupted, and widened
later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from crag_dspy.actions import Thresholds
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.objective import Objective, Prices, metric_name
from crag_dspy.optimize.runs.checks import check_devset
from crag_dspy.optimize.runs.failing import IN_A_ROW
from crag_dspy.optimize.runs.fingerprints import DECISION_SETTINGS
from crag_dspy.optimize.thresholds.exact import BestThresholds, best_thresholds
from crag_dspy.optimize.thresholds.outcomes import Outcomes, collect_outcomes
from crag_dspy.optimize.thresholds.search import settings_of
from crag_dspy.state.plain import Plain, plain

if TYPE_CHECKING:
    import dspy

    from crag_dspy.optimize.metrics.score import Metric

_CUTS = ("upper", "lower")


@dataclass(frozen=True)
class Cell:
    """One pair of values: mean metric minus prices, questions that search, and the thresholds it was measured at."""

    value: float
    searches: int
    thresholds: Thresholds

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "searches": self.searches, **plain(self.thresholds)}


@dataclass(frozen=True)
class Grid(Plain):
    """`cells[i][j]` is at `rows[i]` of the first setting and `columns[j]` of the second; None where lower > upper.

    Attributes:
        program: a copy of the program with the best cell's settings.
        runs: of the program, now or before; `runs_now` of them now, and `failures` of them failed.
    """

    SHOWN: ClassVar[str] = "names rows columns cells metric runs runs_now failures"

    names: tuple[str, str]
    rows: list[Any]
    columns: list[Any]
    cells: list[list[Cell | None]]
    program: dspy.Module
    best: tuple[Any, Any]
    metric: str
    runs: int
    runs_now: int
    failures: int = 0

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "best": plain(dict(zip(self.names, self.best, strict=True)))}


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
) -> Grid:
    """Try every pair of values of two settings.

    Args:
        program: `CRAG` or one like it; not changed.
        axes: two names of settings, each with its values: {"top_n": [2, 5], "strip_threshold": [-0.5, 0.0]}.
        tune: find the best thresholds of each cell, exactly and without further runs, where neither axis is a
            threshold: settings that make more evidence want other thresholds. False: the program's.
        prices, threads, failure_score, stop_after, fresh, progress: as in `search_thresholds`.
        run: a folder; every pair of values that changes answers has its own folder in it.

    Returns:
        All cells, and a copy of the program with the best one's settings. Of equal cells the one with fewer
        searches is best, then the first.

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
    cells: dict[tuple[Any, Any], Cell] = {}
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
            )
        cells[pair] = _cell(variant, collected[place], prices, tune=tune and not set(_CUTS) & set(axes))
    best = max(cells, key=lambda pair: (round(cells[pair].value, 9), -cells[pair].searches))
    settings_of(variants[best]).update(
        {"upper": cells[best].thresholds.upper, "lower": cells[best].thresholds.lower}
    )
    return Grid(
        names=(first, second),
        rows=list(axes[first]),
        columns=list(axes[second]),
        cells=[[cells.get((a, b)) for b in axes[second]] for a in axes[first]],
        program=variants[best],
        best=best,
        metric=metric_name(metric),
        runs=sum(outcomes.runs for outcomes in collected.values()),
        runs_now=sum(outcomes.runs_now for outcomes in collected.values()),
        failures=sum(len(outcomes.failures()) for outcomes in collected.values()),
    )


def _with(program: dspy.Module, values: Mapping[str, Any]) -> dspy.Module:
    variant = program.deepcopy()
    try:
        settings_of(variant).update(values)
    except ConfigError as error:
        raise ConfigError(f"axis value: {error}") from error
    return variant


def _crossed(values: Mapping[str, Any]) -> bool:
    return set(_CUTS) <= set(values) and values["lower"] > values["upper"]


def _cell(variant: dspy.Module, outcomes: Outcomes, prices: Prices, tune: bool) -> Cell:
    settings = settings_of(variant)
    found: BestThresholds = best_thresholds(outcomes.scores, outcomes.values(prices), settings.policy)
    pair = found.thresholds if tune else settings.thresholds
    actions = found.actions_at(pair.upper, pair.lower)
    searches = sum(count for action, count in actions.items() if action != "correct")
    return Cell(found.value_at(pair.upper, pair.lower), searches, pair)


def _folder_name(chosen: Mapping[str, Any]) -> str:
    """The folder of outcomes; values that only decide between actions share one."""
    changing = [f"{name}={value}" for name, value in chosen.items() if name not in DECISION_SETTINGS]
    return ",".join(changing) or "outcomes"
