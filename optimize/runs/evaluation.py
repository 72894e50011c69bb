"""Evaluate a program: every question once, every metric on it, kept as it comes and resumed where it stopped.

The score of a question is what `dspy.Evaluate` would give it: the metric's value, or `failure_score` when the
program or the metric failed on it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.costs import Cost, cost_of
from crag_dspy.optimize.metrics.objective import name_of
from crag_dspy.optimize.metrics.observed import action_of, answer_of, field_of, strings_of
from crag_dspy.optimize.questions.groups import By, groups_of
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
from crag_dspy.usage import count_replies, track_calls

if TYPE_CHECKING:
    from pathlib import Path

Metric = Callable[..., Any]
Metrics = Metric | Sequence[Metric] | Mapping[str, Metric]


@dataclass(frozen=True)
class Evaluation:
    """What came out, a row a question in the order of the devset.

    A row has `key`, `question`, `answers`, `answer`, `action`, `grounded`, `scores` and `feedback` by metric,
    `cost`, `warnings`, `error` (None when all went well) and `trace` (None unless traces were kept).
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
        """The rows that have an error."""
        return [row for row in self.rows if row["error"]]

    def to_json(self) -> dict[str, Any]:
        """The summary: metrics with intervals, actions, costs, failures."""
        return {
            "questions": len(self.rows),
            "metrics": {name: self.interval(name).to_json() for name in self.metrics},
            "actions": dict(Counter(row["action"] for row in self.rows if row["action"])),
            "cost": self.cost.to_json(),
            "failures": len(self.failures),
            "warnings": dict(
                Counter(warning for row in self.rows for warning in row["warnings"]).most_common(20)
            ),
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
        failure_score: of a question on which the program or the metric failed. One question never ends the
            batch.
        traces: keep the whole trace of every question (for reports).
        fresh: throw away what the folder has.
        seed: of the tests.
        progress: a bar on stderr; None shows one on a terminal only.
        config: recorded with the run.
        by: what tells which questions belong together, see `groups_of`.

    Raises:
        ConfigError: no questions, no metric, or examples that a metric cannot judge; before any question is
            asked.
        StaleOutcomesError: the folder's results are of another program; the message says what changed.
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
        known = {row["key"] for row in opened.rows if not row["error"]}
        missing = {key: example for key, example in zip(keys, devset, strict=True) if key not in known}

        def ask(item: tuple[str, dspy.Example]) -> None:
            key, example = item
            opened.append(_row(key, example, program, judges, failure_score, traces))

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


def named_metrics(metrics: Metrics) -> dict[str, Metric]:
    """Metrics by name, in order."""
    if isinstance(metrics, Mapping):
        named = {str(name): metric for name, metric in metrics.items()}
    else:
        each = [metrics] if callable(metrics) or isinstance(metrics, str) else list(metrics)
        named = {name_of(metric): metric for metric in each}
        if len(named) < len(each):
            raise ConfigError(
                f"two metrics have one name ({', '.join(map(name_of, each))}): pass name -> metric"
            )
    if not named:
        raise ConfigError("metrics is empty: pass at least one metric")
    for name, metric in named.items():
        if not callable(metric):
            raise ConfigError(
                f"metric {name!r} must be callable, got {metric!r}: pass the function, not its name"
            )
    return named


def check_metric(metric: Any) -> None:
    """A metric is a function: a name would be "called" for every answer, and fail on each."""
    if not callable(metric):
        hint = f": pass metrics.{metric}, not its name" if isinstance(metric, str) else ""
        raise ConfigError(f"metric must be a function, got {metric!r}{hint}")


def check_devset(devset: Sequence[dspy.Example], metrics: Any = ()) -> None:
    """Find examples that cannot be asked or judged before any money is spent on the others."""
    if not isinstance(devset, Sequence):
        raise ConfigError(f"devset must be a list of examples, got {type(devset).__name__}: pass list(...)")
    if not devset:
        raise ConfigError("devset is empty: at least one example is needed")
    for metric in metrics:
        check_metric(metric)
    for i, example in enumerate(devset):
        try:
            asked = example.inputs().keys()
        except (AttributeError, ValueError) as error:
            raise ConfigError(f'devset[{i}] has no inputs: make it with .with_inputs("question")') from error
        if not asked:
            raise ConfigError(f'devset[{i}] has no inputs: make it with .with_inputs("question")')
        for metric in metrics:
            try:
                metric(example, dspy.Prediction())
            except ConfigError as error:
                raise ConfigError(f"devset[{i}]: {error}") from error
            except Exception:  # noqa: BLE001 - another's metric may need a field of a real prediction
                continue


@dataclass
class Asked:
    """One call of a program: what it gave, or how it failed, what it took, and how many LM replies came from DSPy's
    cache, and so are not in what it took.
    """

    prediction: Any
    error: str | None
    cost: Cost
    cached: int = 0


def ask_program(program: dspy.Module, **inputs: Any) -> Asked:
    """Call a program; an exception is a result too. Never raises, except on an interruption."""
    start = time.perf_counter()
    error = None
    prediction = None
    # A trace of its own: the global one would grow with every question.
    with dspy.context(trace=[]), track_calls() as calls, count_replies() as replies:
        try:
            prediction = program(**inputs)
        except Exception as raised:  # noqa: BLE001 - one question can never end a batch
            error = f"{type(raised).__name__}: {' '.join(str(raised).split())[:500]}"
    entries = calls.entries
    tokens = sum(
        int(entry.get(kind) or 0) for entry in entries for kind in ("prompt_tokens", "completion_tokens")
    )
    seconds = round(time.perf_counter() - start, 4)
    searches = cost_of(prediction).searches
    cost = Cost(searches, len(entries), tokens, seconds)
    return Asked(prediction, error, cost, max(0, replies.count - len(entries)))


def judge_answer(
    metric: Metric, example: dspy.Example, asked: Asked, failure_score: float
) -> tuple[Any, float, str, str | None]:
    """(result, value, feedback, error) of one metric; never raises."""
    if asked.error is not None:
        return None, failure_score, f"The program failed: {asked.error}", asked.error
    try:
        result = metric(example, asked.prediction)
        value = float(result)
    except Exception as raised:  # noqa: BLE001 - one question can never end a batch
        error = f"{name_of(metric)} failed: {type(raised).__name__}: {' '.join(str(raised).split())[:500]}"
        return None, failure_score, error, error
    if value != value or abs(value) == float("inf"):
        error = f"{name_of(metric)} gave {value}"
        return None, failure_score, error, error
    return result, value, str(getattr(result, "feedback", "") or ""), None


def described(example: dspy.Example, asked: Asked, traces: bool) -> dict[str, Any]:
    """What every stored result says about a question and its answer."""
    prediction = asked.prediction
    action = action_of(prediction)
    trace = field_of(prediction, "trace")
    return {
        "question": str(example.get("question", "")),
        "answers": example.get("answers", example.get("answer")),
        "answer": answer_of(prediction),
        "action": action.value if action else None,
        "grounded": field_of(prediction, "grounded"),
        "warnings": strings_of(prediction, "warnings"),
        "cost": asked.cost.to_json(),
        "cached": asked.cached,
        "trace": trace.to_json() if traces and hasattr(trace, "to_json") else None,
    }


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
