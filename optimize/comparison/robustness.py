"""The curve under worse and worse retrieval (arXiv 2401.15884, section 5.6): passages that answer are left out at rates
from 0 to 1, and, apart from that, passages that do not answer are added.

A question is asked once for every set of passages that it can meet, not once a rate: most have one passage that
answers, so all rates together cost two runs a question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crag_dspy.baselines import NoRetrieval
from crag_dspy.errors import ConfigError, RetrieverError, cause_of
from crag_dspy.optimize.comparison.changed_retrieval import (
    Degraded,
    answering,
    at_rate,
    changed,
    with_changed_retrieval,
)
from crag_dspy.optimize.comparison.comparing import folder_of, measures_of, rows_of_systems
from crag_dspy.optimize.comparison.curves import RobustnessCurves, write_curves
from crag_dspy.optimize.comparison.estimating import CompareEstimate, estimate_comparison
from crag_dspy.optimize.comparison.systems import systems_of
from crag_dspy.optimize.metrics.measures import CountTokens, unsupported
from crag_dspy.optimize.metrics.objective import metric_name
from crag_dspy.optimize.questions.groups import By, groups_of
from crag_dspy.optimize.runs.checks import check_devset
from crag_dspy.optimize.runs.evaluation import Evaluation, evaluate
from crag_dspy.optimize.runs.failing import IN_A_ROW
from crag_dspy.optimize.runs.fingerprints import example_key
from crag_dspy.optimize.statistics.wording import told_groups
from crag_dspy.state.arguments import check_number, check_whole

if TYPE_CHECKING:
    import dspy

    from crag_dspy.contracts import Retriever
    from crag_dspy.crag import CRAG
    from crag_dspy.optimize.comparison.table import System

RATES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


class Robustness:
    """The runs behind the curves, planned before any of them is made.

    Args:
        crag: the program; its retriever is what is made worse.
        names: of systems, as in `systems_of`; the first is what the others are compared with.
        devset: questions with `relevant_ids` or answers.
        rates: of removal, each in [0, 1].
        decoys: numbers of passages to add, each at least 1.
        seed: of what is left out and where decoys stand, and of the tests.
        run: a folder: what is there is not asked again.
        by: what tells which questions belong together, see `groups_of`; intervals are over these groups.

    Raises:
        ConfigError: no rate, one out of range, or a bad devset.
        RetrieverError: the retriever failed on a question: what answers it is what is left out, so it must be known.
    """

    def __init__(
        self,
        crag: CRAG,
        names: Sequence[str],
        devset: Sequence[dspy.Example],
        *,
        rates: Sequence[float] = RATES,
        decoys: Sequence[int] = (),
        seed: int = 0,
        run: str | Path | None = None,
        by: By | None = None,
    ) -> None:
        _check(devset, rates, decoys)
        self.by, self.groups = by, groups_of(devset, by)
        self.devset, self.rates, self.seed = devset, sorted(set(rates)), seed
        self.run = None if run is None else Path(run).expanduser()
        source = crag.corrective.retrieve.part
        most = max((_read_by(name, crag.settings.k) for name in names), default=0) + max(decoys, default=0)
        # As deep as anything is read when what answers is left out, or a decoy is looked for.
        found = [_answering(example, source, 2 * most) for example in devset]
        pairs = list(zip(devset, found, strict=True))
        self.whole = [changed(example, [], names) for example, names in pairs]
        self.at = {
            rate: [changed(example, at_rate(example, names, rate, seed), names) for example, names in pairs]
            for rate in self.rates
        }
        plain = systems_of(with_changed_retrieval(crag, 0, seed), names)
        self.systems = {0: _degraded(plain)}
        for count in sorted(set(decoys)):
            more = systems_of(
                with_changed_retrieval(crag, count, seed), [_reading(name, count) for name in names]
            )
            self.systems[count] = _degraded(dict(zip(plain, more.values(), strict=True)))

    @property
    def left_out(self) -> dict[float, float]:
        """At every rate, the share of the passages that answer which are left out."""
        there = sum(len(example.answering) for example in self.whole)
        return {
            rate: sum(len(example.left_out) for example in examples) / there if there else 0.0
            for rate, examples in self.at.items()
        }

    def asked(self, name: str, count: int) -> list[dspy.Example]:
        """What a system is asked with so many decoys, each once."""
        if count or _never_retrieves(self.systems[0][name]):
            return self.whole
        needed = [*self.whole, *(example for examples in self.at.values() for example in examples)]
        return list({example_key(example): example for example in needed}.values())

    def estimates(self, fresh: bool = False) -> list[CompareEstimate]:
        """What is still to be done: for removal, and for every number of decoys; all of it when it is begun afresh."""
        return [
            _labelled(
                estimate_comparison(
                    {name: program},
                    self.asked(name, count),
                    run=None if fresh else self._folder(count),
                ),
                count,
            )
            for count, systems in self.systems.items()
            for name, program in systems.items()
        ]

    def ask(
        self,
        metric: Callable[..., Any],
        *,
        count_tokens: CountTokens | None = None,
        support: Callable[..., float] = unsupported,
        threads: int | None = None,
        stop_after: int | None = IN_A_ROW,
        progress: bool | None = None,
        fresh: bool = False,
        level: float = 0.95,
        first: int | None = None,
    ) -> RobustnessCurves | None:
        """Make the runs that are missing, and the curves.

        Args:
            metric, count_tokens, support, threads, stop_after, progress, fresh, level: as in `compare`.
            first: ask only so many of what each system is asked, and return None: to see what one takes.
        """
        measures = measures_of(metric, support, count_tokens)
        answers: dict[int, dict[str, Evaluation]] = {}
        for count, systems in self.systems.items():
            answers[count] = {
                name: evaluate(
                    program,
                    self.asked(name, count)[:first],
                    measures,
                    run=None if self.run is None else folder_of(self.run / _place(count), name),
                    threads=threads,
                    stop_after=stop_after,
                    traces=True,
                    seed=self.seed,
                    progress=progress,
                    fresh=fresh,
                    config={"system": name, "decoys": count},
                    by=self.by,
                )
                for name, program in systems.items()
            }
        if first is not None:
            return None
        judged = metric_name(metric)
        removal = {rate: rows_of_systems(self._met(answers[0], rate), judged, level) for rate in self.rates}
        decoys: dict[int, Sequence[System]] = {}
        for count, each in answers.items() if len(answers) > 1 else ():
            whole = {name: [_chosen(done, self.whole)] for name, done in each.items()}
            decoys[count] = rows_of_systems(whole, judged, level)
        note = told_groups(len(self.devset), self.groups)
        curves = RobustnessCurves(judged, len(self.devset), removal, decoys, self.left_out, note)
        if self.run is not None:
            write_curves(curves, self.run)
        return curves

    def _met(self, answers: Mapping[str, Evaluation], rate: float) -> dict[str, list[Evaluation]]:
        return {
            name: [_chosen(done, self.whole if _never_retrieves(self.systems[0][name]) else self.at[rate])]
            for name, done in answers.items()
        }

    def _folder(self, count: int) -> Path | None:
        return None if self.run is None else self.run / _place(count)


def _answering(example: dspy.Example, source: Retriever, k: int) -> list[str]:
    try:
        return answering(example, source, k)
    except Exception as error:
        raise RetrieverError(
            f"the retriever failed on {example.question!r}, before any system was asked: {cause_of(error, source)}"
        ) from error


def _degraded(systems: Mapping[str, dspy.Module]) -> dict[str, dspy.Module]:
    return {name: Degraded(program) for name, program in systems.items()}


def _labelled(estimate: CompareEstimate, count: int) -> CompareEstimate:
    if not count:
        return estimate
    return CompareEstimate([replace(one, name=f"{one.name}, {count} decoys") for one in estimate.systems])


def _never_retrieves(program: dspy.Module) -> bool:
    return isinstance(program.program, NoRetrieval)


def _read_by(name: str, k: int) -> int:
    """How many passages a system of this name reads, where CRAG reads `k`."""
    fixed = name.removeprefix("rag:")
    return int(fixed) if name.startswith("rag:") and fixed.isdecimal() else k


def _reading(name: str, count: int) -> str:
    """A system's name where it reads `count` passages more; those that read k passages are told by their settings."""
    fixed = name.removeprefix("rag:")
    return f"rag:{int(fixed) + count}" if name.startswith("rag:") and fixed.isdecimal() else name


def _place(count: int) -> str:
    return f"decoys-{count}" if count else "removal"


def _chosen(done: Evaluation, examples: Sequence[dspy.Example]) -> Evaluation:
    places = {row["key"]: place for place, row in enumerate(done.rows)}
    return done.chosen([places[example_key(example)] for example in examples])


def _check(devset: Sequence[dspy.Example], rates: Sequence[float], decoys: Sequence[int]) -> None:
    check_devset(devset)
    if not rates:
        raise ConfigError("rates is empty: for example 0, 0.5, 1")
    for rate in rates:
        check_number("rates", rate, 0, 1)
    for count in decoys:
        check_whole("decoys", count)
