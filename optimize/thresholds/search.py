"""Find a program's thresholds: collect outcomes, take the exact optimum, and keep it if it is really better.

    found = search_thresholds(crag, devset, contains_word, run="runs/thresholds")
    print(found)                       # optimum, cross-validated estimate, what is kept and why, runs
    found.program.save("crag.json")    # a copy of crag with the thresholds that are kept

The optimum of many pairs looks better than it is on the questions that chose it. So it takes the place of the
thresholds there are only if it beats them beyond noise on questions that did not choose it (cross-fitted).

The first search runs the program, at most three times a question; every later one on the same folder, with
other prices or the other policy, runs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from crag_dspy.actions import Action, Policy, Thresholds
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.objective import Objective, Prices, metric_name
from crag_dspy.optimize.questions.groups import By
from crag_dspy.optimize.runs.failing import IN_A_ROW
from crag_dspy.optimize.runs.folder import save_results
from crag_dspy.optimize.statistics.differences import PairedDifference
from crag_dspy.optimize.statistics.wording import shown_p, told_groups, told_power
from crag_dspy.optimize.thresholds.cross_fit import CrossValidated, cross_validate
from crag_dspy.optimize.thresholds.devset_arrays import checked_policy
from crag_dspy.optimize.thresholds.evidence_cut import NEVER
from crag_dspy.optimize.thresholds.exact import BestThresholds, best_of, best_thresholds
from crag_dspy.optimize.thresholds.outcomes import Outcomes, collect_outcomes
from crag_dspy.settings import Settings
from crag_dspy.state.plain import Plain, plain

if TYPE_CHECKING:
    from pathlib import Path

    import dspy

    from crag_dspy.optimize.metrics.score import Metric
    from crag_dspy.optimize.thresholds.frontier import FrontierPoint

_CAUSES = 5  # of failed runs, named in the text
GRID = 50  # a grid of so many thresholds each way is what an exact search is compared with


@dataclass(frozen=True)
class ThresholdSearch(Plain):
    """What a search found.

    Attributes:
        program: a copy of the program with the thresholds and the policy that are kept, and the grader that they
            were tried on.
        candidate: a copy with the optimum in either case, for who judges it on yet other questions.
        best: the optimum of quality minus prices on these questions; the frontier is a method of it.
        quality: the mean metric at the optimum, before prices.
        before: the thresholds that the program had, `evidence_before` its cut of the evidence, and `value_before` what
            they were worth.
        change: from those to the optimum, each question judged at thresholds found without it. None for fewer than
            two questions.
        cross_validated: what such a search is worth on questions that it has not seen; None for fewer than two.
        frontier: how much quality each web search buys (before prices).
        outcomes: what every action is worth to every question.
    """

    SHOWN: ClassVar[str] = (
        "metric prices quality cross_validated change improved verdict always frontier grid_runs failures warnings"
    )

    program: dspy.Module
    candidate: dspy.Module
    best: BestThresholds
    quality: float
    before: Thresholds
    value_before: float
    cross_validated: CrossValidated | None
    frontier: list[FrontierPoint]
    outcomes: Outcomes
    prices: Prices
    metric: str
    evidence_before: float = NEVER
    seed: int = 0
    always: Mapping[Action, float] = field(default_factory=dict)

    @property
    def change(self) -> PairedDifference | None:
        return None if self.cross_validated is None else self.cross_validated.change

    @property
    def improved(self) -> bool:
        """Whether the optimum is better than the old thresholds beyond noise, so that `program` has it.

        Never where runs failed: what an outage does to an action says nothing of it.
        """
        return self.change is not None and self.change.improved and not self.failures

    @property
    def thresholds(self) -> Thresholds:
        """Those of `program`."""
        return self.best.thresholds if self.improved else self.before

    @property
    def _cut(self) -> float | None:
        return None if self.best.evidence is None else self.best.evidence.cut

    @property
    def verdict(self) -> str:
        """In one sentence: which thresholds are kept, and why."""
        change = self.change
        if change is None:
            return "One question cannot tell which thresholds are better: the old ones are kept."
        if self.failures:
            return f"{self.failures} runs failed, so nothing is judged yet: the old thresholds are kept. Run it again."
        told = f"{change}, p {shown_p(change.p_value)}, on questions that did not choose them"
        if self.improved:
            return f"Better beyond noise ({told}): the new thresholds are kept."
        if self.best.thresholds == self.before and self._cut in (None, self.evidence_before):
            return "No thresholds are better on these questions: the old ones are kept."
        return f"Not better beyond noise ({told}; {told_power(change)}): the old thresholds are kept."

    @property
    def failures(self) -> int:
        """Runs that failed: they count as failures, and are tried again the next time."""
        return len(self.outcomes.failures())

    @property
    def grid_runs(self) -> int:
        """The runs of the program that a grid of 50 x 50 thresholds would have taken."""
        return GRID * GRID * self.best.n

    def __str__(self) -> str:
        best, low, high = self.best, self.best.lower_range, self.best.upper_range
        actions = best.actions_at(best.upper, best.lower)
        value = f"{self.metric} minus prices" if self.prices else self.metric
        lines = [
            f"upper {best.upper:.4f}  (anything from {high[0]:.4f} to {high[1]:.4f} is as good)",
            f"lower {best.lower:.4f}  (anything from {low[0]:.4f} to {low[1]:.4f} is as good)",
            *self._evidence(),
            f"policy {best.policy}",
            f"{value} {best.value:.3f} on the {best.n} questions that chose them, the best of all thresholds",
        ]
        if self.prices:
            lines.append(f"{self.metric} {self.quality:.3f} before prices")
        if self.cross_validated is not None:
            lines.append(f"cross-validated {self.cross_validated.estimate}: what to expect on new questions")
            lines.append(told_groups(best.n, self.outcomes.groups))
        shown = ", ".join(f"{name.value} {worth:.3f}" for name, worth in self.always.items())
        lines += [
            f"before: upper {self.before.upper:.4f}, lower {self.before.lower:.4f}{self._evidence_before()}: "
            f"{self.value_before:.3f}",
            self.verdict,
            f"always one action: {shown}; the best action for every question: {best.oracle:.3f}",
            f"actions: {', '.join(f'{name.value} {count}' for name, count in actions.items())}",
            f"runs of the program: {self.outcomes.runs} for {best.n} questions ({self.outcomes.runs_now} now), "
            f"failed {self.failures}, "
            f"{self.outcomes.lm_calls} LM calls; a {GRID} x {GRID} grid would have taken {self.grid_runs} runs",
        ]
        return "\n".join([*lines, *(f"warning: {told}" for told in self.warnings)])

    def _evidence(self) -> list[str]:
        found = self.best.evidence
        if found is None:
            return []
        low, high = found.cut_range
        line = (
            f"evidence_threshold {found.cut:.4f}  (anything from {low:.4f} to {high:.4f} declines the same)"
        )
        return [line if not found.gap else f"{line}; another cut could gain at most {found.gap:.4f}"]

    def _evidence_before(self) -> str:
        return "" if self.best.evidence is None else f", evidence_threshold {self.evidence_before:.4f}"

    @property
    def warnings(self) -> list[str]:
        """What makes the outcomes less than they seem: runs that failed, searches that failed, costs not counted."""
        said = []
        causes = Counter(row["error"] for row in self.outcomes.failures())
        if causes:
            said.append(
                f"{causes.total()} runs failed and count as failures; they are tried again the next time"
            )
        said += [f"{count} runs failed by {cause}" for cause, count in causes.most_common(_CAUSES)]
        for warning, count in self.outcomes.warnings().items():
            if "no web search is configured" in warning:
                said.append(f"{count} runs: {warning}")
        if (self.prices.kilotoken or self.prices.second) and self.outcomes.cached:
            said.append(
                f"{self.outcomes.cached} LM replies came from DSPy's cache, and their tokens and seconds have no price "
                f"here: to price all of them, use a model with cache=False and fresh=True (--fresh)"
            )
        return said

    def to_json(self) -> dict[str, Any]:
        """Everything but the outcomes themselves, as plain data.

        `upper`, `lower`, `policy` and `value` are of the optimum; `kept` is what the program has.
        """
        settings = settings_of(self.program)
        kept = {
            **plain(self.thresholds),
            "evidence_threshold": settings.evidence_threshold,
            "policy": settings.policy,
        }
        made = {
            "kept": kept,
            "note": told_groups(self.best.n, self.outcomes.groups),
            "runs": self.outcomes.runs,
            "runs_now": self.outcomes.runs_now,
            "lm_calls": self.outcomes.lm_calls,
        }
        before = {
            **plain(self.before),
            "evidence_threshold": self.evidence_before,
            "value": self.value_before,
        }
        return {**self.best.to_json(), **super().to_json(), "before": before, **made}


def search_thresholds(
    program: dspy.Module,
    devset: Sequence[dspy.Example],
    metric: Metric,
    *,
    prices: Prices | None = None,
    policy: Policy | str | None = None,
    run: str | Path | None = None,
    folds: int = 5,
    threads: int | None = None,
    failure_score: float = 0.0,
    stop_after: int | None = IN_A_ROW,
    traces: bool = True,
    fresh: bool = False,
    seed: int = 0,
    progress: bool | None = None,
    config: Mapping[str, Any] | None = None,
    by: By | None = None,
) -> ThresholdSearch:
    """Find the thresholds with the largest mean of metric minus prices, over all thresholds.

    They take the place of the program's only where they are better beyond noise on questions that did not choose them.

    Args:
        program: `CRAG` or one like it. It is not changed: a copy of it gets what is kept.
        metric: a metric, or a combination; its prices are used unless `prices` are given.
        prices: of a search, a thousand tokens and a second.
        policy: None keeps the program's. Another one comes with the thresholds found for it, where these are better.
        run: a folder for outcomes and result: a search on it again runs only what is missing.
        folds: of the cross-validated estimate.
        seed: of folds and tests.
        threads, failure_score, stop_after, traces, fresh, progress, config, by: see `collect_outcomes`.

    Raises:
        ConfigError: a program without settings or `action=`, or a bad devset; before any run.
        StaleOutcomesError: the folder's outcomes belong to other prompts, models, grader, index, settings or
            metric.
    """
    settings = settings_of(program)
    if settings.actions != "all":
        raise ConfigError(
            f"thresholds choose among three actions, and settings.actions is {settings.actions!r}: set it to 'all'"
        )
    known = checked_policy(policy if policy is not None else settings.policy)
    if prices is None:
        prices = metric.prices if isinstance(metric, Objective) else Prices()
    outcomes = collect_outcomes(
        program,
        devset,
        metric,
        run=run,
        threads=threads,
        failure_score=failure_score,
        stop_after=stop_after,
        traces=traces,
        fresh=fresh,
        progress=progress,
        config=config,
        by=by,
    )
    found = thresholds_from(
        program, outcomes, prices=prices, policy=known, folds=folds, seed=seed, metric=metric_name(metric)
    )
    if run is not None:
        save_results(run, found.program, found.to_json())
    return found


def thresholds_from(
    program: dspy.Module,
    outcomes: Outcomes,
    *,
    prices: Prices,
    policy: Policy,
    folds: int = 5,
    seed: int = 0,
    metric: str = "metric",
) -> ThresholdSearch:
    """The search proper, on outcomes that are already there. Runs nothing."""
    settings = settings_of(program)
    before, old_cut = settings.thresholds, settings.evidence_threshold
    values = outcomes.values(prices)
    keep = before if policy == settings.policy else None
    spared = outcomes.declining(prices)
    best = best_thresholds(outcomes.scores, values, policy, keep=keep, declining=spared, keep_cut=old_cut)
    cut = old_cut if best.evidence is None else best.evidence.cut
    plain = best if not prices else best_of(outcomes.arrays(Prices(), cut), policy)
    was = outcomes.arrays(prices, old_cut).values_at(before.upper, before.lower, settings.policy)
    held_out = None
    if best.n > 1:
        held_out = cross_validate(
            best,
            folds,
            groups=outcomes.groups,
            keep=keep,
            before=was,
            declining=None if spared is None else (outcomes.arrays(prices, NEVER), spared, old_cut),
            seed=seed,
        )
    known = tuned_on(program)
    candidate, kept = program.deepcopy(), program.deepcopy()
    found_cut = {} if best.evidence is None else {"evidence_threshold": best.evidence.cut}
    settings_of(candidate).update(
        {"upper": best.upper, "lower": best.lower, "policy": policy, **found_cut, **known}
    )
    settings_of(kept).update(known)
    found = ThresholdSearch(
        program=kept,
        candidate=candidate,
        best=best,
        quality=plain.value_at(best.upper, best.lower),
        before=before,
        value_before=float(was.mean()),
        cross_validated=held_out,
        frontier=plain.frontier(),
        outcomes=outcomes,
        prices=prices,
        metric=metric,
        evidence_before=old_cut,
        seed=seed,
        always={action: best.always(action) for action in Action},
    )
    return replace(found, program=candidate) if found.improved else found


def tuned_on(program: dspy.Module) -> dict[str, str]:
    """The settings that say which grader thresholds were tried on: where another is in use, the program warns."""
    grader = _grader_of(program)
    name, fingerprint = ("", "") if grader is None else (grader.name, grader.fingerprint)
    return {"grader": name, "grader_fingerprint": fingerprint}


def settings_of(program: dspy.Module) -> Settings:
    """The one `Settings` of a program. Raises `ConfigError` when there is none, or more than one."""
    found = [parameter for _, parameter in program.named_parameters() if isinstance(parameter, Settings)]
    if len(found) != 1:
        raise ConfigError(
            f"{type(program).__name__} has {len(found)} `Settings`: a search of thresholds needs a program with one"
        )
    return found[0]


def _grader_of(program: dspy.Module) -> Any:
    """The grader that the thresholds are tuned on."""
    from crag_dspy.steps import Grade

    parts = [module.part for _, module in program.named_sub_modules(Grade)]
    return parts[0] if parts else None
