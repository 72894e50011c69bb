"""Graders compared by the actions they trigger (arXiv 2401.15884, section 5.4, its table of the retrieval evaluator):
on the same passages, does a grader see whether they answer the question?

The right action is CORRECT when a retrieved passage answers the question (its id is in `relevant_ids`, or it has a
gold answer where there are none) and INCORRECT when none does. AMBIGUOUS is never the right action, but never costs
the answer either, since it uses both sources: it counts one half in `accuracy`, which is `metrics.action_accuracy`,
and nothing in `strict`. Thresholds decide how often that is; `separation` does not depend on them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import dspy

from crag_dspy.actions import Action, Policy, Thresholds, decide
from crag_dspy.corrective import CorrectiveRetriever
from crag_dspy.errors import ConfigError, cause_of
from crag_dspy.optimize.comparison.comparing import folder_of
from crag_dspy.optimize.metrics.answers import action_accuracy
from crag_dspy.optimize.questions.groups import By, groups_of
from crag_dspy.optimize.report.lines import lined_up, markdown_table
from crag_dspy.optimize.runs.asking import paid_for
from crag_dspy.optimize.runs.checks import check_devset
from crag_dspy.optimize.runs.failing import IN_A_ROW, InARow
from crag_dspy.optimize.runs.fingerprints import devset_digest, example_key, program_identity
from crag_dspy.optimize.runs.folder import METRICS, Run, pretty
from crag_dspy.optimize.runs.pool import run_each
from crag_dspy.optimize.statistics.differences import PairedDifference, paired_difference
from crag_dspy.optimize.statistics.intervals import MeanInterval, mean_interval
from crag_dspy.optimize.statistics.wording import told_groups
from crag_dspy.optimize.thresholds.exact import best_thresholds
from crag_dspy.refine import titled
from crag_dspy.state.files import write_whole
from crag_dspy.state.plain import Plain, plain

if TYPE_CHECKING:
    from crag_dspy.crag import CRAG
    from crag_dspy.passages import Passage

TUNING = "tuning"


@dataclass(frozen=True)
class GraderActions(Plain):
    """One grader on some questions.

    Attributes:
        accuracy: of the triggered action, with AMBIGUOUS as one half and a question that failed as nothing; `change` is
            the paired difference to the first grader, None for the first.
        strict: share of the questions with exactly the right action.
        actions: questions by triggered action, without those that failed.
        separation: how often a question whose passages answer it has a higher best score than one whose do not (ties
            count one half): 1 is perfect, 0.5 is chance; None without both kinds.
        unjudged: texts that the grader could not judge.
        failures: questions on which it, or retrieval, raised: nothing was decided. They are tried again the next time.
        seconds: a question that did not fail on average.
    """

    SHOWN: ClassVar[str] = (
        "name thresholds accuracy change strict actions separation unjudged failures seconds"
    )

    name: str
    thresholds: Thresholds
    tuned: bool
    accuracy: MeanInterval
    change: PairedDifference | None
    strict: float
    actions: Mapping[str, int]
    separation: float | None
    unjudged: int
    failures: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        cuts = {**plain(self.thresholds), "tuned": self.tuned}
        return {**super().to_json(), "thresholds": cuts}


@dataclass(frozen=True)
class GraderComparison(Plain):
    """All graders; `relevant` of the `questions` have a passage that answers."""

    SHOWN: ClassVar[str] = "questions relevant note graders"

    graders: Sequence[GraderActions]
    questions: int
    relevant: int
    note: str = ""

    def __str__(self) -> str:
        return "\n".join([self.title, *lined_up(self._rows()), self.note])

    @property
    def title(self) -> str:
        return f"accuracy of the triggered action on {self.questions} questions; the passages of {self.relevant} answer"

    def markdown(self) -> str:
        return f"{self.title}; {self.note}.\n\n{markdown_table(self._rows())}"

    def _rows(self) -> list[list[str]]:
        return [_HEADER, *(_cells(one) for one in self.graders)]


_HEADER = [
    "grader",
    "accuracy",
    "difference",
    "exactly right",
    "correct/incorrect/ambiguous",
    "separation",
    "thresholds",
    "seconds",
    "failed",
]


def _cells(one: GraderActions) -> list[str]:
    change, cuts = one.change, one.thresholds
    return [
        one.name,
        str(one.accuracy),
        "-" if change is None else str(change),
        f"{one.strict:.1%}",
        "/".join(str(one.actions.get(action.value, 0)) for action in _ORDER),
        "-" if one.separation is None else f"{one.separation:.3f}",
        f"{cuts.lower:.2f}, {cuts.upper:.2f}{' (tuned)' if one.tuned else ''}",
        f"{one.seconds:.3f}",
        str(one.failures),
    ]


_ORDER = (Action.CORRECT, Action.INCORRECT, Action.AMBIGUOUS)


def compare_graders(
    crag: CRAG,
    graders: Mapping[str, Any],
    devset: Sequence[dspy.Example],
    *,
    tune_on: Sequence[dspy.Example] | None = None,
    run: str | Path | None = None,
    threads: int | None = None,
    stop_after: int | None = IN_A_ROW,
    seed: int = 0,
    level: float = 0.95,
    progress: bool | None = None,
    fresh: bool = False,
    by: By | None = None,
) -> GraderComparison:
    """Grade the passages of every question with every grader, and decide.

    Args:
        crag: its retriever, `k` and policy; its grader and thresholds count only where a grader of the same
            fingerprint is compared.
        graders: name -> whatever `CRAG(grader=...)` takes; the first is what the others are compared with.
        tune_on: questions on which the best thresholds of every grader are found, exactly; grading alone is needed
            for that. Without them a grader has those it suggests.
        run: a folder with one run a grader: a comparison that was interrupted goes on.
        stop_after: so many questions in a row on which a grader or retrieval raises end the comparison; None: none do.
        by: what tells which questions belong together, see `groups_of`.

    Raises:
        ConfigError: no grader, or questions that do not say what is relevant; before any is graded.
    """
    if not graders:
        raise ConfigError("graders is empty: pass name -> grader")
    for given, examples in (("devset", devset), ("tune_on", tune_on or devset)):
        _check(given, examples)
    policy, groups = crag.settings.policy, groups_of(devset, by)
    found: list[GraderActions] = []
    first: list[float] | None = None
    rows: list[dict[str, Any]] = []
    for name, grader in graders.items():
        parts = CorrectiveRetriever(crag.corrective.retrieve.part, grader, k=crag.settings.k)
        folder = None if run is None else folder_of(run, name)
        options: dict[str, Any] = {
            "threads": threads,
            "stop_after": stop_after,
            "progress": progress,
            "fresh": fresh,
        }
        rows = _graded(parts, devset, run=folder, **options)
        cuts = _own_thresholds(crag, parts)
        if tune_on is not None:
            tuning = None if folder is None else folder / TUNING
            same = tune_on is devset  # graded already, which may have cost LM calls
            cuts = _best(rows if same else _graded(parts, tune_on, run=tuning, **options), policy) or cuts
        one, right = _judged(name, rows, cuts, tune_on is not None, policy, first, groups, level, seed)
        found.append(one)
        first = first or right
    relevant = sum(row["right"]["correct"] == 1 for row in rows)
    compared = GraderComparison(found, len(devset), relevant, told_groups(len(devset), groups))
    if run is not None:
        write_whole(Path(run).expanduser() / METRICS, pretty(compared.to_json()))
    return compared


def _check(name: str, examples: Sequence[dspy.Example]) -> None:
    check_devset(examples)
    nothing = dspy.Prediction(action=Action.CORRECT, trace={"passages": []})
    for number, example in enumerate(examples):
        try:
            action_accuracy(example, nothing)
        except ConfigError as error:
            raise ConfigError(f"{name}[{number}]: {error}") from error


def _graded(
    parts: CorrectiveRetriever,
    devset: Sequence[dspy.Example],
    *,
    run: Path | None,
    threads: int | None,
    stop_after: int | None,
    progress: bool | None,
    fresh: bool,
) -> list[dict[str, Any]]:
    """A row a question: the scores of its passages, and what every action would be worth."""
    keyed = {example_key(example): example for example in devset}
    data = {"digest": devset_digest(devset), "questions": len(devset)}
    identity = {
        name: text
        for name, text in program_identity(parts).items()
        if not name.startswith("settings.") or name == _K
    }
    with Run.open(run, "grading", identity, data=data, fresh=fresh) as opened:
        in_a_row = InARow(stop_after, run)
        known = {row["key"] for row in opened.rows if not row["error"]}
        missing = [key for key in keyed if key not in known]

        def grade(key: str) -> None:
            with paid_for():
                row = _row(key, keyed[key], parts)
            opened.append(row)
            in_a_row.saw(row)

        run_each(
            grade,
            missing,
            threads=threads,
            progress=progress,
            label=f"grade {parts.grade.part.name}",
            done=len(keyed) - len(missing),
        )
        rows = {row["key"]: row for row in opened.rows}
    return [rows[example_key(example)] for example in devset]


_K = "settings.k"


def _row(key: str, example: dspy.Example, parts: CorrectiveRetriever) -> dict[str, Any]:
    passages: list[Passage] | None = None
    scores: list[float | None] = []
    error = None
    start = time.perf_counter()
    try:
        passages = parts.retrieve(query=example.question, k=parts.settings.k)
        start = time.perf_counter()  # the grader's time alone
        if passages:
            scores = parts.grade(question=example.question, texts=[titled(p, p.text) for p in passages])
    except Exception as raised:  # noqa: BLE001 - one question can never end a batch; it is tried again the next time
        scores, error = [None] * len(passages or ()), cause_of(raised, parts)
    seconds = time.perf_counter() - start
    right = {action.value: _worth(example, action, passages) for action in Action}
    return {
        "key": key,
        "question": example.question,
        "passages": [passage.id for passage in passages or ()],
        "scores": scores,
        "right": right,
        "seconds": round(seconds, 4),
        "error": error,
    }


def _worth(example: dspy.Example, action: Action, passages: list[Passage] | None) -> float:
    """Of an action on these passages; nothing where retrieval failed, or INCORRECT would be right for want of them."""
    if passages is None:
        return 0.0
    return float(action_accuracy(example, dspy.Prediction(action=action, trace={"passages": passages})))


def _own_thresholds(crag: CRAG, parts: CorrectiveRetriever) -> Thresholds:
    same = crag.corrective.grade.part.fingerprint == parts.grade.part.fingerprint
    return crag.settings.thresholds if same else parts.settings.thresholds


def _best(rows: Sequence[Mapping[str, Any]], policy: Policy) -> Thresholds | None:
    """The best thresholds on the questions that did not fail; None when all did."""
    graded = [row for row in rows if not row["error"]]
    if not graded:
        return None
    outcomes = [{action: row["right"][action.value] for action in Action} for row in graded]
    best = best_thresholds([row["scores"] for row in graded], outcomes, policy)
    return Thresholds(best.upper, best.lower)


def _judged(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    cuts: Thresholds,
    tuned: bool,
    policy: Policy,
    first: Sequence[float] | None,
    groups: Sequence[str] | None,
    level: float,
    seed: int,
) -> tuple[GraderActions, list[float]]:
    taken = [None if row["error"] else decide(row["scores"], cuts, policy) for row in rows]
    right = [
        0.0 if action is None else row["right"][action.value] for row, action in zip(rows, taken, strict=True)
    ]
    graded = [row for row in rows if not row["error"]]
    return (
        GraderActions(
            name=name,
            thresholds=cuts,
            tuned=tuned,
            accuracy=mean_interval(right, groups, level=level),
            change=None if first is None else paired_difference(first, right, groups, level=level, seed=seed),
            strict=sum(value == 1 for value in right) / len(right),
            actions=dict(Counter(action.value for action in taken if action is not None)),
            separation=_separation(graded),
            unjudged=sum(score is None for row in graded for score in row["scores"]),
            failures=len(rows) - len(graded),
            seconds=sum(row["seconds"] for row in graded) / len(graded) if graded else 0.0,
        ),
        right,
    )


def _separation(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The area under the ROC curve of the best score; a question without any judged passage has the lowest."""
    best = [max((s for s in row["scores"] if s is not None), default=-1.0) for row in rows]
    relevant = [row["right"]["correct"] == 1 for row in rows]
    yes = [score for score, answers in zip(best, relevant, strict=True) if answers]
    no = [score for score, answers in zip(best, relevant, strict=True) if not answers]
    if not yes or not no:
        return None
    wins = sum((one > other) + 0.5 * (one == other) for one in yes for other in no)
    return wins / (len(yes) * len(no))
