"""Several systems on the same questions, with the same language model, in one process.

    compared = compare({"RAG": rag, "CRAG": crag}, devset, contains_word)
    print(compared)              # a table, and for every system the paired difference to the first

What a language model is given and what it makes of it are measured apart: an answer that does not stand in what the
model read was not found but guessed. The measures are defined in `measures.py` and `table.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.comparison.losses import losses
from crag_dspy.optimize.comparison.table import Comparison, System
from crag_dspy.optimize.metrics.measures import (
    COSTS,
    UNIT,
    ContextTokens,
    CountTokens,
    answerable,
    averaged,
    count_words,
    declined,
    measured,
    unsupported,
)
from crag_dspy.optimize.metrics.objective import metric_name
from crag_dspy.optimize.questions.groups import By
from crag_dspy.optimize.report.contents import COMPARISON
from crag_dspy.optimize.report.page import write_report
from crag_dspy.optimize.runs.evaluation import Evaluation, evaluate
from crag_dspy.optimize.runs.failing import IN_A_ROW
from crag_dspy.optimize.runs.folder import pretty
from crag_dspy.optimize.statistics.differences import PairedDifference, holm, paired_difference
from crag_dspy.optimize.statistics.intervals import MeanInterval, mean_interval
from crag_dspy.optimize.statistics.wording import told_groups
from crag_dspy.state.files import write_whole

Values = dict[str, list[float]]
Value = TypeVar("Value")


def compare(
    systems: Mapping[str, dspy.Module],
    devset: Sequence[dspy.Example],
    metric: Callable[..., Any],
    *,
    count_tokens: CountTokens | None = None,
    unit: str | None = None,
    support: Callable[..., float] = unsupported,
    limits: Mapping[str, int] | None = None,
    seeds: Sequence[int] = (0,),
    run: str | Path | None = None,
    threads: int | None = None,
    stop_after: int | None = IN_A_ROW,
    seed: int = 0,
    level: float = 0.95,
    progress: bool | None = None,
    fresh: bool = False,
    report: bool = True,
    by: By | None = None,
) -> Comparison:
    """Ask every system every question.

    Args:
        systems: name -> program; the first is what the others are compared with.
        metric: one of `metrics`, or any function of (example, prediction).
        count_tokens, unit: how to measure what the model reads; by default words, and characters of scripts without
            spaces, which is near the number of tokens.
        support: gives 1 for an answer without support; see `measures`.
        limits: name -> at most so many questions, the first ones, for a system that takes many calls. Such systems
            and the others are then compared on those questions alone, in `Comparison.few`.
        seeds: several ask everything again, as other samples of the language model: each is a `rollout_id`, from
            which `local_lm` derives its random numbers and by which DSPy's cache keeps replies apart. A question's
            values are means over them. That needs a temperature above 0: at 0 all seeds say the same.
        run: a folder with one run a system, so that a comparison that was interrupted goes on.
        stop_after: so many failures in a row of one system end the comparison; see `evaluate`.
        seed: of the tests.
        level: of the intervals and tests.
        report: write the tables and the page into `run`; False keeps the answers alone.
        by: what tells which questions belong together, see `groups_of`; intervals and tests are over these groups.

    Seconds are of one process, system by system. Replies from DSPy's cache are counted as calls, but take no seconds
    and no tokens: `System.cached` says how many there were, and so does a line under the tables.

    Raises:
        ConfigError: no system, two whose names make one folder, a limit of the first system or of none, seeds without
            temperature, or a bad devset; before any question is asked.
    """
    limits = {name: n for name, n in (limits or {}).items() if n < len(devset)}
    _check(systems, limits, seeds, run)
    judged = metric_name(metric)
    measures = measures_of(metric, support, count_tokens)
    done: dict[str, list[Evaluation]] = {name: [] for name in systems}
    for sample in seeds:
        with _sampled(sample, len(seeds)):
            for name, program in systems.items():
                found = evaluate(
                    program,
                    devset[: limits.get(name, len(devset))],
                    measures,
                    run=None if run is None else folder_of(run, name, sample or None),
                    threads=threads,
                    stop_after=stop_after,
                    traces=True,
                    seed=seed,
                    progress=progress,
                    fresh=fresh,
                    config={"system": name, "seed": sample},
                    by=by,
                )
                done[name].append(found)
    unit = unit or (UNIT if count_tokens is None else "tokens")
    compared = _compared(done, judged, limits, seeds, level, unit)
    if run is not None and report:
        write_whole(Path(run).expanduser() / COMPARISON, pretty(compared.to_json()))
        write_report(run)
    return compared


def measures_of(
    metric: Callable[..., Any], support: Callable[..., float], count_tokens: CountTokens | None
) -> dict[str, Callable[..., Any]]:
    """What is kept of every answer: the metric first, then what `measures.measured` reads."""
    return {
        metric_name(metric): metric,
        "abstained": declined,
        "unsupported": support,
        "context_tokens": ContextTokens(count_tokens or count_words),
    }


def folder_of(run: str | Path, name: str, sample: int | None = None) -> Path:
    """Where a system's answers are kept; `sample` for seeds other than 0, in whatever order they are given."""
    top = Path(run).expanduser()
    return (top if sample is None else top / "seeds" / str(sample)) / _folder_name(name)


def _compared(
    done: Mapping[str, Sequence[Evaluation]],
    metric: str,
    limits: Mapping[str, int],
    seeds: Sequence[int],
    level: float,
    unit: str,
) -> Comparison:
    def table(each: Mapping[str, Sequence[Evaluation]], few: Comparison | None) -> Comparison:
        first = next(iter(each.values()))[0]
        return Comparison(
            metric=metric,
            questions=len(first.rows),
            unanswerable=answerable(first).count(False),
            systems=rows_of_systems(each, metric, level),
            evaluations={name: some[0] for name, some in each.items()},
            unit=unit,
            seeds=tuple(seeds),
            few=few,
            note=told_groups(len(first.rows), first.groups),
        )

    few = None
    if limits:
        least = min(limits.values())
        few = table({name: [one.chosen(range(least)) for one in each] for name, each in done.items()}, None)
    return table({name: each for name, each in done.items() if name not in limits}, few)


def rows_of_systems(each: Mapping[str, Sequence[Evaluation]], metric: str, level: float) -> list[System]:
    """A row a system, from its evaluations (one a seed), all of the same questions; the first is the baseline."""
    found: list[System] = []
    baseline: Values | None = None
    for name, evaluations in each.items():
        values = averaged([measured(one, metric) for one in evaluations])
        found.append(_system(name, evaluations, values, baseline, metric, level))
        baseline = baseline or values
    adjusted = iter(holm([one.change.p_value for one in found if one.change is not None]))
    return [one if one.change is None else replace(one, p_holm=next(adjusted)) for one in found]


def _system(
    name: str,
    evaluations: Sequence[Evaluation],
    values: Values,
    baseline: Values | None,
    metric: str,
    level: float,
) -> System:
    first = evaluations[0]
    has_answer = answerable(first)
    every = [True] * len(has_answer)
    worked = [share < 1 for share in values["failed"]]
    both = (
        worked if baseline is None else [a and b < 1 for a, b in zip(worked, baseline["failed"], strict=True)]
    )

    def groups(chosen: Sequence[bool]) -> list[str] | None:
        return None if first.groups is None else _chosen(first.groups, chosen)

    def mean(measure: str, chosen: Sequence[bool] = every) -> MeanInterval | None:
        some = _chosen(values[measure], chosen)
        return mean_interval(some, groups(chosen), level=level) if some else None

    def change(measure: str, chosen: Sequence[bool] = every) -> PairedDifference | None:
        if baseline is None or not any(chosen):
            return None
        before, after = (_chosen(one[measure], chosen) for one in (baseline, values))
        return paired_difference(before, after, groups(chosen), level=level, seed=first.seed)

    def surely(interval: MeanInterval | None) -> MeanInterval:
        if interval is None:  # no question at all, which `evaluate` refuses
            raise ConfigError("devset is empty: at least one example is needed")
        return interval

    n = len(first.rows)
    silent, answered = _chosen(values["abstained"], worked), sum(values["answered"])
    nothing, something = (
        _chosen(
            values["abstained"],
            [ok and some is answered for ok, some in zip(worked, has_answer, strict=True)],
        )
        for answered in (False, True)
    )
    read = _chosen(values["context_tokens"], worked)

    def relative(measure: str, chosen: Sequence[bool] = every) -> float | None:
        if baseline is None:
            return None
        before, after = (sum(_chosen(one[measure], chosen)) for one in (baseline, values))
        return after / before - 1 if before else None

    return System(
        name=name,
        quality=surely(mean("quality")),
        change=change("quality"),
        answerable=mean("quality", has_answer),
        answerable_change=change("quality", has_answer),
        coverage=surely(mean("covered")),
        coverage_change=change("covered"),
        hallucination=mean("hallucinated", worked),
        hallucination_change=change("hallucinated", both),
        abstained=sum(silent) / len(silent) if silent else None,
        declined_rightly=sum(nothing) / len(nothing) if nothing else None,
        declined_falsely=sum(something) / len(something) if something else None,
        unsupported=sum(values["unsupported"]) / answered if answered else None,
        context_tokens=sum(read) / len(read) if read else 0.0,
        relative={
            "coverage": relative("covered"),
            "hallucination": relative("hallucinated", both),
            "context_tokens": relative("context_tokens", both),
        },
        actions=dict(Counter(row["action"] for row in first.rows if row["action"])),
        by_seed=tuple(one.interval(metric).mean for one in evaluations),
        **{cost: sum(values[cost]) / n for cost in (*COSTS, "cached")},
        failures=sum(len(one.failures) for one in evaluations),
        lost=losses(first.rows),
    )


def _chosen(values: Sequence[Value], chosen: Sequence[bool]) -> list[Value]:
    return [value for value, wanted in zip(values, chosen, strict=True) if wanted]


@contextmanager
def _sampled(sample: int, seeds: int) -> Iterator[None]:
    """The language model as this seed draws from it; seed 0 alone is the language model as it is."""
    lm = dspy.settings.lm
    if (seeds == 1 and sample == 0) or lm is None:
        yield
        return
    with dspy.context(lm=lm.copy(rollout_id=sample)):
        yield


def _check(
    systems: Mapping[str, dspy.Module],
    limits: Mapping[str, int],
    seeds: Sequence[int],
    run: str | Path | None,
) -> None:
    if not systems:
        raise ConfigError("systems is empty: pass name -> program")
    folders = [_folder_name(name) for name in systems]
    twice = [folder for folder, times in Counter(folders).items() if times > 1]
    if run is not None and twice:
        raise ConfigError(f"two systems would be kept in one folder, {twice[0]!r}: give them other names")
    for name, n in limits.items():
        if name not in systems:
            raise ConfigError(f"limits: no system {name!r}, only {', '.join(systems)}")
        if name == next(iter(systems)):
            raise ConfigError(
                f"limits: {name!r} is what the others are compared with: put a faster one first"
            )
        if n < 1:
            raise ConfigError(f"limits: {name!r} must be asked at least 1 question, got {n!r}")
    if not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds must be distinct numbers, at least one, got {list(seeds)}")
    if len(seeds) > 1:
        if any(
            predictor.lm is not None for program in systems.values() for predictor in program.predictors()
        ):
            raise ConfigError(
                "seeds need the language model of dspy.settings: a predictor here has one of its own"
            )
        if (getattr(dspy.settings.lm, "kwargs", {}) or {}).get("temperature") == 0:
            raise ConfigError(
                f"{len(seeds)} seeds at temperature 0 would all say the same: set a temperature, or give one seed"
            )


def _folder_name(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name.strip().lower()).strip("-") or "system"
