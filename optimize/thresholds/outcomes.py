"""Outcomes: what each action is worth to each question, found by running it.

At most three runs a question. The first takes whatever action the program would take; its scores say which
others any thresholds could lead to, and those are forced. What the runs of a question have in common (retrieval,
grades, the rewritten query, the search, an answer from the same evidence) is done once. Outcomes do not depend on
the thresholds or the policy, so a folder of them serves every later search, until something that they do depend on
changes.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import dspy

from crag_dspy.actions import Action
from crag_dspy.errors import ConfigError
from crag_dspy.once import KnownCalls, calls_once, spared_seconds
from crag_dspy.optimize.metrics.costs import Cost
from crag_dspy.optimize.metrics.observed import field_of
from crag_dspy.optimize.questions.groups import By, groups_of
from crag_dspy.optimize.runs.asking import Asked, ask_program, described, judge_answer, paid_for
from crag_dspy.optimize.runs.checks import check_devset
from crag_dspy.optimize.runs.failing import IN_A_ROW, InARow, failure_in
from crag_dspy.optimize.runs.fingerprints import (
    devset_digest,
    example_key,
    metric_identity,
    program_identity,
)
from crag_dspy.optimize.runs.folder import Run
from crag_dspy.optimize.runs.pool import run_each
from crag_dspy.optimize.thresholds.devset_arrays import DevsetArrays, read_devset
from crag_dspy.optimize.thresholds.evidence_cut import NEVER, Declining
from crag_dspy.settings import Settings
from crag_dspy.state.plain import plain
from crag_dspy.text.replies import abstention_for

if TYPE_CHECKING:
    from pathlib import Path

    from crag_dspy.optimize.metrics.objective import Prices
    from crag_dspy.optimize.metrics.score import Metric


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of a devset.

    Attributes:
        scores: for each question, the grader's scores of its passages.
        rows: for each question, the stored row of each action that can be reached. A row has `key`,
            `question`, `answers`, `answer`, `failed`, `action`, `grounded`, `quality` (the metric before prices),
            `feedback`, `cost` (of this action, had it been the only one), `shared` (LM calls of it that were
            another action's of this question), `cached`, `scores`, `warnings`, `error` and `trace`; and, for the third
            threshold, `evidence_score` and `declined`: the quality and cost of declining on that evidence.
        runs_now: runs of the program that were made for this.
        groups: for each question, what it belongs to; None where no question says.
    """

    scores: list[list[float | None]]
    rows: list[dict[Action, dict[str, Any]]]
    runs_now: int
    identity: Mapping[str, str] = field(default_factory=dict, repr=False)
    groups: Sequence[str] | None = field(default=None, repr=False)

    @property
    def runs(self) -> int:
        """Runs that these outcomes took in all, now or before: at most three a question."""
        distinct = {row["key"]: len(actions) for actions in self.rows for row in actions.values()}
        return sum(distinct.values())

    @property
    def lm_calls(self) -> int:
        """Language model calls that those runs made: what actions of one question share counts once."""
        distinct = {row["key"]: actions for actions in self.rows for row in actions.values()}
        rows = [row for actions in distinct.values() for row in actions.values()]
        return sum(row["cost"]["lm_calls"] - row.get("shared", 0) for row in rows)

    @property
    def cached(self) -> int:
        """Replies of those runs that came from DSPy's cache, so that their tokens and seconds are not in the costs."""
        distinct = {row["key"]: actions for actions in self.rows for row in actions.values()}
        return sum(row.get("cached", 0) for actions in distinct.values() for row in actions.values())

    def qualities(self) -> list[dict[Action, float]]:
        """What each action is worth by the metric alone."""
        return [{action: float(row["quality"]) for action, row in each.items()} for each in self.rows]

    def values(self, prices: Prices) -> list[dict[Action, float]]:
        """What each action is worth after its cost: what `best_thresholds` maximises."""
        return [
            {action: float(row["quality"]) - prices.of(Cost(**row["cost"])) for action, row in each.items()}
            for each in self.rows
        ]

    def declining(self, prices: Prices) -> Declining | None:
        """What declining is worth after its cost; None where no outcome says."""
        known = [
            {
                action: (
                    row["evidence_score"],
                    float(row["declined"]["quality"]) - prices.of(Cost(**row["declined"]["cost"])),
                )
                for action, row in each.items()
                if row.get("declined") is not None
            }
            for each in self.rows
        ]
        return Declining.read(known) if any(known) else None

    def arrays(self, prices: Prices, cut: float) -> DevsetArrays:
        """What each action is worth after its cost, with this cut of the evidence."""
        devset, spared = read_devset(self.scores, self.values(prices)), self.declining(prices)
        return devset if spared is None else spared.at(devset, cut)

    def warnings(self) -> dict[str, int]:
        """How many runs gave each warning."""
        told = Counter(w for each in self.rows for row in each.values() for w in row["warnings"])
        return dict(told.most_common())

    def failures(self) -> list[dict[str, Any]]:
        """The rows that failed: their quality is the failure score, whatever the action is worth."""
        return [row for each in self.rows for row in each.values() if row["error"]]


def collect_outcomes(
    program: dspy.Module,
    devset: Sequence[dspy.Example],
    metric: Metric,
    *,
    run: str | Path | None = None,
    threads: int | None = None,
    failure_score: float = 0.0,
    stop_after: int | None = IN_A_ROW,
    traces: bool = True,
    fresh: bool = False,
    progress: bool | None = None,
    config: Mapping[str, Any] | None = None,
    by: By | None = None,
) -> Outcomes:
    """Run every question once an action, at most three times.

    Args:
        program: `CRAG` or one like it: called with `question=` and `action=`, and its prediction has
            `trace.scores`.
        metric: a metric; the prices of a combined one are not applied here but to the outcomes.
        run: a folder to keep outcomes in, for a later search and against interruptions.
        failure_score: of a run that failed; it is tried again the next time.
        stop_after: see `evaluate`; counted in runs.
        traces: keep the trace of every run (for the report).
        fresh: throw away what the folder has.
        by: what tells which questions belong together, see `groups_of`.

    Raises:
        ConfigError: a program without `action=`, or a bad devset; before any run.
        StaleOutcomesError: the prompts, models, grader, index, settings or metric changed since; says which.
        OutageError, BudgetSpentError: as in `evaluate`.
    """
    if "action" not in inspect.signature(type(program).forward).parameters:
        raise ConfigError(
            f"{type(program).__name__}.forward must take action=, as CRAG does: outcomes are forced actions"
        )
    check_devset(devset, [metric])
    groups = groups_of(devset, by)
    program = always_answering(program)
    identity = {**program_identity(program, decisions=False), **metric_identity(metric)}
    examples = {example_key(example): example for example in devset}
    with Run.open(
        run,
        "outcomes",
        identity,
        config=config,
        data={"digest": devset_digest(devset), "questions": len(devset)},
        fresh=fresh,
    ) as opened:
        in_a_row = InARow(stop_after, run)
        stored = _by_key(opened.rows)
        before = len(opened.rows)
        waiting = [key for key in examples if not _complete(stored.get(key, {}))]

        def ask(key: str) -> None:
            example = examples[key]
            found = dict(stored.get(key, {}))
            tried: set[Action] = set()
            action: Action | None = None  # whatever the program would do
            with calls_once() as known:
                while True:
                    if found:
                        wanted = [
                            a
                            for a in _reachable(_scores(found))
                            if a not in tried and not _good(found.get(a))
                        ]
                        if not wanted:
                            return
                        action = wanted[0]
                    with paid_for():
                        asked, shared = _asked(program, example, action, known)
                        row = _outcome(key, example, asked, metric, failure_score, traces, action)
                    row["shared"] = shared
                    opened.append(row)
                    in_a_row.saw(row)
                    found[_action(row)] = row
                    tried.add(_action(row))

        run_each(
            ask,
            waiting,
            threads=threads,
            progress=progress,
            label="outcomes",
            done=len(examples) - len(waiting),
        )
        rows = _by_key(opened.rows)
        made = len(opened.rows) - before
    each = [rows[example_key(example)] for example in devset]
    return Outcomes([_scores(found) for found in each], each, made, identity, groups)


def _asked(
    program: dspy.Module, example: dspy.Example, action: Action | None, known: KnownCalls
) -> tuple[Asked, int]:
    """A run with the cost that it would have had alone, and the LM calls that it found made."""
    calls, spared = known.lm_calls, spared_seconds()
    forced = {} if action is None else {"action": action}
    asked = ask_program(program, **example.inputs(), **forced)
    seconds = round(asked.cost.seconds + spared_seconds() - spared, 4)
    return replace(asked, cost=replace(asked.cost, seconds=seconds)), known.lm_calls - calls


def _outcome(
    key: str,
    example: dspy.Example,
    asked: Asked,
    metric: Metric,
    failure_score: float,
    traces: bool,
    forced: Action | None = None,
) -> dict[str, Any]:
    result, value, feedback, error = judge_answer(metric, example, asked, failure_score)
    scores = field_of(field_of(asked.prediction, "trace"), "scores")
    if asked.error is None and scores is None:
        raise ConfigError(
            "the program's prediction has no trace.scores: outcomes need the scores of its passages"
        )
    row = described(example, asked, traces)
    if forced is not None:
        row["action"] = forced.value
    elif row["action"] is None:
        # The program failed before it decided. Every action is still open; this run stands for one of them.
        row["action"] = Action.AMBIGUOUS.value
    return {
        "key": key,
        **row,
        "scores": None if scores is None else [None if score is None else float(score) for score in scores],
        "quality": float(field_of(result, "quality", value)) if result is not None else value,
        "feedback": feedback,
        "error": error,
        **_declined(example, asked, metric, error),
    }


def always_answering(program: dspy.Module) -> dspy.Module:
    """A copy that never declines for weak evidence, so that every cut can be tried on what it answers."""
    copy = program.deepcopy()
    for _, parameter in copy.named_parameters():
        if isinstance(parameter, Settings):
            parameter.evidence_threshold = NEVER
    return copy


def _declined(example: dspy.Example, asked: Asked, metric: Metric, error: str | None) -> dict[str, Any]:
    """The score of the evidence, and what the question would be worth, and cost, had that been too low."""
    trace = field_of(asked.prediction, "trace")
    score = field_of(trace, "evidence_score")
    if error is not None or score is None:
        return {"evidence_score": None, "declined": None}
    empty = {"answer": abstention_for(example.question), "evidence": [], "knowledge": "", "grounded": False}
    prediction = dspy.Prediction(**{**dict(asked.prediction.items()), **empty})
    _, quality, _, failed = judge_answer(metric, example, replace(asked, prediction=prediction), 0.0)
    if failed is not None:
        return {"evidence_score": None, "declined": None}
    calls, tokens = trace.before_answer
    spared = trace.seconds.get("generate", 0.0)
    cost = replace(
        asked.cost, lm_calls=calls, tokens=tokens, seconds=round(max(0.0, asked.cost.seconds - spared), 4)
    )
    return {"evidence_score": round(float(score), 6), "declined": {"quality": quality, "cost": plain(cost)}}


def _by_key(rows: Sequence[dict[str, Any]]) -> dict[str, dict[Action, dict[str, Any]]]:
    """key -> action -> row; of several runs the last stands."""
    found: dict[str, dict[Action, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["key"], {})[_action(row)] = row
    return found


def _action(row: Mapping[str, Any]) -> Action:
    return Action(row["action"])


def _scores(found: Mapping[Action, Mapping[str, Any]]) -> list[float | None]:
    """A question's scores, from a run that has them, one that did not fail first: a grader that is down judges nothing.
    When no run has any, relevance is unknown.
    """
    rows = sorted(found.values(), key=lambda row: not _good(row))
    return next((list(row["scores"]) for row in rows if row["scores"] is not None), [None])


def _reachable(scores: Sequence[float | None]) -> tuple[Action, ...]:
    """The actions that some thresholds, under some policy, lead to; cheapest first."""
    if not scores:
        return (Action.INCORRECT,)
    if all(score is None for score in scores):
        return (Action.AMBIGUOUS,)
    if any(score is None for score in scores):
        return (Action.CORRECT, Action.AMBIGUOUS)
    return (Action.CORRECT, Action.AMBIGUOUS, Action.INCORRECT)


def _complete(found: Mapping[Action, Mapping[str, Any]]) -> bool:
    return bool(found) and all(_good(found.get(action)) for action in _reachable(_scores(found)))


def _good(row: Mapping[str, Any] | None) -> bool:
    return row is not None and failure_in(row) is None
