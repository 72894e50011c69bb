"""Evaluate a program: every question once, every metric on it, kept as it comes and resumed where it stopped.

The score of a question is what `dspy.Evaluate` would give it: the metric's value, or `failure_score` when it failed
(`asking.py` says what that means). A failure is counted as one, is never an abstention, and is asked again when the
evaluation is run again; several in a row stop it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.costs import Cost
from crag_dspy.optimize.metrics.score import Metric
from crag_dspy.optimize.questions.groups import By, groups_of
from crag_dspy.optimize.runs.asking import ask_program, described, judge_answer, paid_for
from crag_dspy.optimize.runs.checks import Metrics, check_devset, named_metrics
from crag_dspy.optimize.runs.failing import IN_A_ROW, InARow, failure_in
from crag_dspy.optimize.runs.fingerprints import (
    devset_digest,
    example_key,
    metric_identity,
    program_identity,
)
from crag_dspy.optimize.runs.folder import METRICS, Run
from crag_dspy.optimize.runs.pool import run_each
from crag_dspy.optimize.statistics.differences import PairedDifference, paired_difference
from crag_dspy.optimize.statistics.intervals import MeanInterval, mean_interval
from crag_dspy.state.plain import plain

if TYPE_CHECKING:
    from pathlib import Path

    import dspy


@dataclass(frozen=True)
class Evaluation:
    """What came out, a row a question in the order of the devset.

    A row has `key`, `question`, `answers`, `answer`, `failed` (what the program said of itself), `action`, `grounded`,
    `scores` and `feedback` by metric, `cost`, `warnings`, `error` (why this is no result; None when all went well) and
    `trace` (None unless traces were kept).
    `groups`: for each question, what it belongs to; None where no question says. Intervals are over groups.
    """

    rows: list[dict[str, Any]]
    metrics: list[str]
    seed: int = 0
    answered_now: int = 0
    identity: Mapping[str, str] = field(default_factory=dict, repr=False)
    groups: Sequence[str] | None = field(default=None, repr=False)

    @property
    def score(self) -> float:
        """The mean of the first metric (in the metric's own units: 0.67, where dspy.Evaluate says 67.0)."""
        return self.interval().mean

    def scores(self, metric: str | None = None) -> list[float]:
        """One a question."""
        name = self._name(metric)
        return [float(row["scores"][name]) for row in self.rows]

    def interval(self, metric: str | None = None, level: float = 0.95) -> MeanInterval:
        """The mean of a metric with its interval."""
        return mean_interval(self.scores(metric), self.groups, level=level)

    def chosen(self, places: Sequence[int]) -> Evaluation:
        """The questions at these places alone."""
        groups = None if self.groups is None else [self.groups[i] for i in places]
        return replace(self, rows=[self.rows[i] for i in places], groups=groups)

    def compared_with(
        self, before: Evaluation, metric: str | None = None, level: float = 0.95
    ) -> PairedDifference:
        """What changed from `before` to this evaluation. Both must be of the same questions."""
        name = self._name(metric)
        old = {row["key"]: float(row["scores"][before._name(name)]) for row in before.rows}
        keys = [row["key"] for row in self.rows]
        if set(keys) != set(old) or len(keys) != len(before.rows):
            raise ConfigError(
                f"a paired comparison needs the same questions, got {len(before.rows)} before and {len(keys)} after, "
                f"{len(set(keys) & set(old))} of them the same"
            )
        return paired_difference(
            [old[key] for key in keys], self.scores(name), self.groups, level=level, seed=self.seed
        )

    @property
    def cost(self) -> Cost:
        """Of all questions together."""
        each = [row["cost"] for row in self.rows]
        return Cost(
            searches=sum(cost["searches"] for cost in each),
            lm_calls=sum(cost["lm_calls"] for cost in each),
            tokens=sum(cost["tokens"] for cost in each),
            seconds=sum(cost["seconds"] for cost in each),
        )

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The rows that failed: their scores are the failure score, and say nothing of the program."""
        return [row for row in self.rows if row["error"]]

    def to_json(self) -> dict[str, Any]:
        """The summary: metrics with intervals, actions, costs, failures."""
        told = Counter(warning for row in self.rows for warning in row["warnings"])
        return {
            "questions": len(self.rows),
            "metrics": plain({name: self.interval(name) for name in self.metrics}),
            "actions": dict(Counter(row["action"] for row in self.rows if row["action"])),
            "cost": self.cost.to_json(),
            "failures": len(self.failures),
            "causes": dict(Counter(row["error"] for row in self.failures).most_common(20)),
            "warnings": dict(told.most_common(20)),
        }

    def _name(self, metric: str | None) -> str:
        if metric is not None and metric not in self.metrics:
            raise ConfigError(f"no metric {metric!r} in this evaluation: use {', '.join(self.metrics)}")
        return metric or self.metrics[0]


def evaluate(
    program: dspy.Module,
    devset: Sequence[dspy.Example],
    metrics: Metrics,
    *,
    run: str | Path | None = None,
    threads: int | None = None,
    failure_score: float = 0.0,
    stop_after: int | None = IN_A_ROW,
    traces: bool = False,
    fresh: bool = False,
    seed: int = 0,
    progress: bool | None = None,
    config: Mapping[str, Any] | None = None,
    by: By | None = None,
) -> Evaluation:
    """Run a program on every question of a devset and judge the answers.

    Args:
        program: any DSPy program; it is called with the examples' inputs.
        metrics: a metric, several, or name -> metric. The first one is "the" score.
        run: a folder to keep results in. When it has results of this very program and metrics, only the
            questions that are missing, or failed, are asked.
        threads: None takes `dspy.settings.num_threads`.
        failure_score: of a question that failed. One question never ends the batch.
        stop_after: so many failures in a row do, of all questions or of those with one action: they are an outage, and
            no answers to judge a program by. None: nothing does.
        traces: keep the whole trace of every question (for reports).
        fresh: throw away what the folder has.
        seed: of the tests.
        progress: a bar on stderr; None shows one on a terminal only.
        config: recorded with the run.
        by: what tells which questions belong together, see `groups_of`.

    Raises:
        ConfigError: no questions, no metric, or examples that a metric cannot judge; before any question is asked.
        StaleOutcomesError: the folder's results are of another program; the message says what changed.
        OutageError: see `stop_after`. BudgetSpentError: a cap (`cap.py`) refused a call. Both leave what was answered
            before in the folder, and the same call goes on from there.
    """
    judges = named_metrics(metrics)
    check_devset(devset, judges.values())
    groups = groups_of(devset, by)
    keys = [example_key(example) for example in devset]
    identity = evaluation_identity(program, judges)
    with Run.open(
        run,
        "evaluate",
        identity,
        config=config,
        seed=seed,
        data={"digest": devset_digest(devset), "questions": len(devset)},
        fresh=fresh,
    ) as opened:
        in_a_row = InARow(stop_after, run)
        known = {row["key"] for row in opened.rows if failure_in(row) is None}
        missing = {key: example for key, example in zip(keys, devset, strict=True) if key not in known}

        def ask(item: tuple[str, dspy.Example]) -> None:
            key, example = item
            with paid_for():
                row = _row(key, example, program, judges, failure_score, traces)
            opened.append(row)
            in_a_row.saw(row)

        run_each(
            ask,
            list(missing.items()),
            threads=threads,
            progress=progress,
            label="evaluate",
            done=len(set(keys)) - len(missing),
        )
        rows = {row["key"]: row for row in opened.rows}  # the last one of a key stands
        found = Evaluation([rows[key] for key in keys], list(judges), seed, len(missing), identity, groups)
        opened.write(METRICS, found.to_json())
    return found


def evaluation_identity(program: dspy.Module, judges: Mapping[str, Metric]) -> dict[str, str]:
    """What stored results of an evaluation depend on."""
    identity = program_identity(program)
    for name, judge in judges.items():
        identity |= {f"{part} ({name})": text for part, text in metric_identity(judge).items()}
    return identity


def _row(
    key: str,
    example: dspy.Example,
    program: dspy.Module,
    judges: Mapping[str, Metric],
    failure_score: float,
    traces: bool,
) -> dict[str, Any]:
    asked = ask_program(program, **example.inputs())
    scores, feedback, errors = {}, {}, []
    for name, metric in judges.items():
        _, scores[name], feedback[name], error = judge_answer(metric, example, asked, failure_score)
        if error is not None and error not in errors:
            errors.append(error)
    return {
        "key": key,
        **described(example, asked, traces),
        "scores": scores,
        "feedback": feedback,
        "error": "; ".join(errors) or None,
    }
