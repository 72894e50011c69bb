"""What a comparison found: a row a system, as numbers, as tables for a terminal or a README, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from crag_dspy.actions import Action
from crag_dspy.optimize.report.lines import lined_up, markdown_table
from crag_dspy.optimize.statistics.wording import shown_p, told_power
from crag_dspy.state.plain import Plain

if TYPE_CHECKING:
    from crag_dspy.optimize.runs.evaluation import Evaluation
    from crag_dspy.optimize.statistics.differences import PairedDifference
    from crag_dspy.optimize.statistics.intervals import MeanInterval


@dataclass(frozen=True)
class System(Plain):
    """One system's results. Shares are of all questions unless it says otherwise; differences are paired, to the
    first system on the same questions, and None for the first. What is said of answers is of the questions that did not
    fail (with a difference: in neither system), and None when all did.

    Attributes:
        quality: right answers: the mean of the metric, with its interval. Where no document answers a
            question, declining is right.
        answerable: the same over the questions that a document answers: the paper's accuracy, for which an
            abstention is wrong. None when there are no such questions.
        coverage: answered, and right.
        hallucination: of the questions that did not fail: answered, and wrong, or not supported by what the language
            model read.
        abstained: share of the questions that did not fail which it declined to answer.
        declined_rightly: the same of those that no document answers; None when there are none.
        declined_falsely: the same of those that some document answers.
        lost: stage -> questions that lost their answer there (see `losses.py`); None without traces.
        unsupported: share of the answers it gave that do not stand in what the language model read; None when it gave
            none.
        context_tokens: what the model read, a question that did not fail on average.
        relative: of coverage, hallucination and context_tokens: the change to the first system, -0.5 for half of it;
            None where the first has 0.
        actions: questions by action, of the first seed; empty for a system that takes none.
        by_seed: the quality of every seed.
        searches, lm_calls, tokens, seconds: a question on average.
        cached: of the lm_calls, those that DSPy's cache answered; their tokens and seconds are not counted.
        failures: questions that failed, over all seeds; they are not right, and neither covered, hallucinated nor
            declined. The same comparison asks them again.
        p_holm: the p-value of `change`, raised for being one of several comparisons with the first system (Holm).
    """

    name: str
    quality: MeanInterval
    change: PairedDifference | None
    answerable: MeanInterval | None
    answerable_change: PairedDifference | None
    coverage: MeanInterval
    coverage_change: PairedDifference | None
    hallucination: MeanInterval | None
    hallucination_change: PairedDifference | None
    abstained: float | None
    declined_rightly: float | None
    declined_falsely: float | None
    unsupported: float | None
    context_tokens: float
    relative: Mapping[str, float | None]
    actions: Mapping[str, int]
    by_seed: Sequence[float]
    searches: float
    lm_calls: float
    tokens: float
    seconds: float
    cached: float
    failures: int
    lost: Mapping[str, int] | None = None
    p_holm: float | None = None

    @property
    def verdict(self) -> str:
        """Whether its quality differs from the first system's beyond noise: "better", "worse", "not better" or ""."""
        if self.change is None or self.p_holm is None:
            return ""
        if self.p_holm > 1 - self.change.level or self.change.low <= 0 <= self.change.high:
            return "not better"
        return "better" if self.change.low > 0 else "worse"

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "verdict": self.verdict}


@dataclass(frozen=True)
class Comparison(Plain):
    """A row a system. `evaluations` has every question of each, in the order of the questions, for the first seed.

    `few` compares all systems on the first questions alone, when some system was asked no more than these; `systems`
    then has only those that were asked all. `note` says what the intervals are over.
    """

    SHOWN: ClassVar[str] = "metric questions unanswerable unit seeds note systems few"

    metric: str
    questions: int
    unanswerable: int
    systems: Sequence[System]
    evaluations: Mapping[str, Evaluation]
    unit: str
    seeds: Sequence[int] = (0,)
    few: Comparison | None = None
    note: str = ""

    @property
    def failures(self) -> int:
        """Questions that failed, of all systems."""
        few = 0 if self.few is None else self.few.failures
        return sum(one.failures for one in self.systems) + few

    @property
    def title(self) -> str:
        nothing = (
            f" ({self.unanswerable} of them without an answer in any document)" if self.unanswerable else ""
        )
        seeds = f", {len(self.seeds)} seeds" if len(self.seeds) > 1 else ""
        return f"{self.metric} on {self.questions} questions{nothing}{seeds}, against {self.systems[0].name}"

    def __str__(self) -> str:
        parts = [self.title]
        for header, rows in self._tables():
            parts += [*lined_up([header, *rows], right=True), ""]
        parts[-1] = f"context in {self.unit}"
        parts += self._notes()
        return "\n".join(parts) if self.few is None else "\n".join([*parts, "", str(self.few)])

    def markdown(self) -> str:
        """The same as tables for a README."""
        parts = [f"{self.title}; context in {self.unit}."]
        for header, rows in self._tables():
            parts.append(markdown_table([header, *rows]))
        parts += [f"{note[0].upper()}{note[1:]}." for note in self._notes()]
        if self.few is not None:
            parts.append(self.few.markdown())
        return "\n\n".join(parts)

    def _failure_note(self) -> str:
        failed = ", ".join(f"{one.name} {one.failures}" for one in self.systems if one.failures)
        return failed and (
            f"failed: {failed}; these questions count as not right, hallucination and abstention are of the others; "
            "run the same again to ask them again"
        )

    def _notes(self) -> list[str]:
        """What figures are over, what p-values are, who is not shown to be better, what failed or is not counted."""
        others = [one for one in self.systems if one.change is not None]
        notes = [self.note, _HOLM.format(len(others)) if len(others) > 1 else ""]
        for one in others:
            if one.change is not None and one.verdict == "not better":
                notes.append(f"not shown to be better: {one.name}; {told_power(one.change)}")
        notes += [f"answers lost by {one.name}: {_lost(one.lost)}" for one in self.systems if one.lost]
        return [note for note in [*notes, self._failure_note(), self._cache_note()] if note]

    def _cache_note(self) -> str:
        """Whose seconds are too few, when some replies took none."""
        shares = {one.name: one.cached / one.lm_calls for one in self.systems if one.cached}
        if not shares:
            return ""
        told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        return f"seconds lack the replies that came from DSPy's cache ({told}): measure with cache=False"

    def _tables(self) -> list[tuple[list[str], list[list[str]]]]:
        several = sum(system.change is not None for system in self.systems) > 1
        header = [("p (Holm)" if several and name == "p" else name) for name in _ANSWERS]
        return [
            (header, [_answers(system) for system in self.systems]),
            (_COSTS, [_costs(system) for system in self.systems]),
        ]


_ANSWERS = [
    "system",
    "right",
    "difference",
    "p",
    "answerable",
    "difference",
    "coverage",
    "hallucination",
    "abstained",
    "of unanswerable",
    "of answerable",
    "failed",
]
_COSTS = [
    "system",
    "correct/incorrect/ambiguous",
    "context",
    "LM calls",
    "searches",
    "seconds",
    "unsupported answers",
]
_HOLM = "the p-values are raised for {} comparisons with one system (Holm): below 0.05 is a 5% risk of any false one"
_ORDER = (Action.CORRECT, Action.INCORRECT, Action.AMBIGUOUS)


def _answers(system: System) -> list[str]:
    change = system.change
    p = "-" if system.p_holm is None else shown_p(system.p_holm).removeprefix("= ")
    return [
        system.name,
        str(system.quality),
        _difference(change),
        p,
        "-" if system.answerable is None else str(system.answerable),
        _difference(system.answerable_change),
        f"{system.coverage.mean:.1%}{_relative(system, 'coverage')}",
        "-"
        if system.hallucination is None
        else f"{system.hallucination.mean:.1%}{_relative(system, 'hallucination')}",
        "-" if system.abstained is None else f"{system.abstained:.1%}",
        "-" if system.declined_rightly is None else f"{system.declined_rightly:.1%}",
        "-" if system.declined_falsely is None else f"{system.declined_falsely:.1%}",
        str(system.failures),
    ]


def _costs(system: System) -> list[str]:
    actions = (
        "/".join(str(system.actions.get(action.value, 0)) for action in _ORDER) if system.actions else "-"
    )
    return [
        system.name,
        actions,
        f"{system.context_tokens:.0f}{_relative(system, 'context_tokens')}",
        f"{system.lm_calls:.2f}",
        f"{system.searches:.2f}",
        f"{system.seconds:.2f}",
        "-" if system.unsupported is None else f"{system.unsupported:.1%}",
    ]


def _lost(lost: Mapping[str, int]) -> str:
    return ", ".join(f"{stage} {count}" for stage, count in lost.items())


def _difference(change: PairedDifference | None) -> str:
    return "-" if change is None else str(change)


def _relative(system: System, name: str) -> str:
    value = system.relative.get(name)
    return "" if value is None else f" ({round(value, 2) + 0.0:+.0%})"  # never -0%
