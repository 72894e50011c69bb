"""What a report shows, read from the folder of a run as plain data.

Passages are stored once, however many questions and actions met them, since their texts are most of the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crag_dspy.actions import POLICIES, Action
from crag_dspy.errors import ConfigError, CragError, cause_of
from crag_dspy.optimize.metrics.costs import Cost
from crag_dspy.optimize.metrics.objective import Prices
from crag_dspy.optimize.prompts.folder import CANDIDATE
from crag_dspy.optimize.runs.folder import CONFIG, METRICS, RESULTS, read_rows
from crag_dspy.optimize.thresholds.evidence_cut import NEVER
from crag_dspy.optimize.thresholds.exact import best_thresholds
from crag_dspy.state.plain import plain
from crag_dspy.text.matching import contains_answer
from crag_dspy.text.replies import abstention_for

Row = dict[str, Any]

COMPARISON = "comparison.json"
_DROPPED = 8  # dropped strips shown of a trace, the best ones


def report_data(folder: str | Path) -> Row:
    """Everything in the report of a run: of thresholds, of compiling, an evaluation or a comparison.

    Raises:
        ConfigError: the folder holds no run, one without results, or one whose files were damaged.
    """
    path = Path(folder).expanduser()
    try:
        found: Row = plain(_contents(path))
    except CragError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is damaged: a file of it is not what a run writes ({cause_of(error)})"
        ) from error
    return found


def _contents(path: Path) -> Row:
    if (path / COMPARISON).exists():
        return _compared(path)
    config = _read(path / CONFIG)
    if config is None:
        raise ConfigError(f"{path} has no {CONFIG}: it is not the folder of a run")
    makers = {"outcomes": _outcomes, "compile": _compiled, "evaluate": _evaluated}
    kind = str(config.get("kind"))
    if kind not in makers:
        raise ConfigError(f"{path} holds a run of kind {kind!r}: a report is made of {', '.join(makers)}")
    about = {"name": path.name, "kind": kind, "config": config.get("config", {}), "seed": config.get("seed")}
    return {**about, "versions": config.get("versions", {}), **makers[kind](path)}


# The kinds of run


def _outcomes(path: Path) -> Row:
    """A search of thresholds: every question with what each action is worth to it."""
    metrics = _read(path / METRICS) or {}
    prices = Prices(**metrics.get("prices", {}))
    by_key: dict[str, dict[Action, Row]] = {}
    for row in _rows(path):
        by_key.setdefault(row["key"], {})[Action(row["action"])] = row
    passages = _Passages()
    cut = float(metrics.get("kept", {}).get("evidence_threshold", NEVER))
    at_cut = [{action: _cut(row, cut) for action, row in found.items()} for found in by_key.values()]
    questions = [_with_outcomes(found, prices, passages) for found in at_cut]
    questions = [question for question in questions if question["runs"]]
    return {
        "metric": metrics.get("metric", "quality"),
        "prices": prices.to_json(),
        "summary": metrics,
        "policy": metrics.get("policy", "max"),
        "thresholds": _kept(metrics),
        "optima": _optima(questions),
        "questions": questions,
        "passages": passages.known,
    }


def _kept(metrics: Mapping[str, Any]) -> Row:
    """The thresholds that the program has; a run from before these could be the old ones names the optimum alone."""
    kept = metrics.get("kept", metrics)
    return {name: kept[name] for name in ("upper", "lower") if name in kept}


def _compiled(path: Path) -> Row:
    """A compiled program: each held-out question before and after, and the last search of thresholds if any."""
    metrics = _read(path / METRICS) or {}
    searches = sorted(path.glob("thresholds-*"), key=lambda found: int(found.name.rsplit("-", 1)[1]))
    base = _outcomes(searches[-1]) if searches else {}
    if len(searches) > 1:  # "before" means before the first turn
        first = _read(searches[0] / METRICS) or {}
        base["summary"] = {**base["summary"], "before": first.get("before", base["summary"].get("before"))}
    passages = _Passages(base.get("passages", []))
    metric = str(metrics.get("metric", ""))
    judged = _answers({when: _rows(path / when) for when in ("before", "after")}, metric, passages)
    return {
        **base,
        "metric": metric,
        "compile": metrics,
        "learned": _learned(_read(path / CANDIDATE) or {}),
        "judged": judged,
        "passages": passages.known,
        "questions": base.get("questions", []),
    }


def _learned(state: Row) -> list[Row]:
    """The instructions and demonstrations of the new program, an entry a predictor."""
    found = []
    for name, part in state.items():
        signature = part.get("signature")
        if signature is None:  # settings, metadata
            continue
        demos = [
            {field: str(value) for field, value in demo.items() if field != "augmented"}
            for demo in part.get("demos", [])
        ]
        found.append({"name": name, "instructions": signature["instructions"], "demos": demos})
    return found


def _evaluated(path: Path) -> Row:
    metrics = _read(path / METRICS) or {}
    names = list(metrics.get("metrics", {}))
    passages = _Passages()
    rows = _rows(path)
    metric = names[0] if names else next(iter(rows[0]["scores"]), "") if rows else ""
    judged = _answers({"answer": rows}, metric, passages)
    return {
        "metric": metric,
        "summary": metrics,
        "judged": judged,
        "questions": [],
        "passages": passages.known,
    }


def _compared(path: Path) -> Row:
    comparison = _read(path / COMPARISON) or {}
    passages = _Passages()
    folders: dict[str, list[Row]] = {}
    for config in sorted(path.glob(f"*/{CONFIG}")):
        found = _read(config) or {}
        folders[str(found.get("config", {}).get("system", config.parent.name))] = _rows(config.parent)
    order = [system["name"] for system in comparison.get("systems", [])]
    runs = {name: folders[name] for name in order if name in folders}
    metric = str(comparison.get("metric", ""))
    return {
        "name": path.name,
        "kind": "comparison",
        "metric": metric,
        "comparison": comparison,
        "judged": _answers(runs, metric, passages),
        "questions": [],
        "passages": passages.known,
    }


# Questions


def _with_outcomes(found: Mapping[Action, Row], prices: Prices, passages: _Passages) -> Row:
    first = next(iter(found.values()))
    answers = _answers_of(first)
    return {
        "question": first["question"],
        "answers": answers,
        "scores": next((row["scores"] for row in found.values() if row["scores"] is not None), []),
        "runs": {
            action.value: {
                **_run(row, answers, passages),
                "quality": float(row["quality"]),
                "value": float(row["quality"]) - prices.of(Cost(**row["cost"])),
                "feedback": row.get("feedback", ""),
            }
            for action, row in found.items()
        },
    }


def _cut(row: Row, cut: float) -> Row:
    """The row as it is with this cut of the evidence: too weak, and the question was declined."""
    score = row.get("evidence_score")
    if score is None or score >= cut:
        return row
    told = abstention_for(row["question"])
    return {**row, "answer": told, "quality": row["declined"]["quality"], "cost": row["declined"]["cost"]}


def _answers(runs: Mapping[str, Sequence[Row]], metric: str, passages: _Passages) -> list[Row]:
    """Questions with one answer a run, where a run is a time ("before") or a system ("RAG")."""
    questions: dict[str, Row] = {}
    for name, rows in runs.items():
        for row in rows:
            answers = _answers_of(row)
            known = questions.setdefault(
                row["key"], {"question": row["question"], "answers": answers, "runs": {}}
            )
            known["runs"][name] = {
                **_run(row, answers, passages),
                "quality": float(row["scores"].get(metric, 0.0)),
                "feedback": row["feedback"].get(metric, ""),
            }
    return list(questions.values())


def _run(row: Row, answers: Sequence[str], passages: _Passages) -> Row:
    trace = row.get("trace") or {}
    dropped = sorted(trace.get("dropped", []), key=lambda strip: -_known(strip["score"]))
    retrieved = [passages.place(passage) for passage in trace.get("passages", [])]
    return {
        "answer": row["answer"],
        "action": row["action"],
        "grounded": row["grounded"],
        "cost": row["cost"],
        "warnings": row["warnings"],
        "error": row["error"],
        "passages": retrieved,
        "scores": trace.get("scores", []),
        "relevant": [_relevant(passages.known[place], answers) for place in retrieved],
        "queries": trace.get("queries", []),
        "web": [passages.place(page) for page in trace.get("web_passages", [])],
        "kept": trace.get("kept", []),
        "dropped": dropped[:_DROPPED],
        "dropped_in_all": len(dropped),
    }


def _known(score: float | None) -> float:
    return -2.0 if score is None else score


def _optima(questions: Sequence[Row]) -> Row:
    """The exact optimum and the frontier under each policy, for the report to jump to."""
    found: Row = {}
    scores = [question["scores"] for question in questions]
    for policy in POLICIES:
        worth = [{Action(a): run["value"] for a, run in question["runs"].items()} for question in questions]
        quality = [
            {Action(a): run["quality"] for a, run in question["runs"].items()} for question in questions
        ]
        try:
            best = best_thresholds(scores, worth, policy)
            frontier = best_thresholds(scores, quality, policy).frontier()
        except ConfigError:  # a run that was interrupted has not tried every action yet
            continue
        found[policy] = {**best.to_json(), "frontier": [point.to_json() for point in frontier]}
    return found


def _relevant(passage: Row, answers: Sequence[str]) -> bool | None:
    """Whether a passage has a gold answer; None where there is none to have."""
    return contains_answer(f"{passage['title']}\n{passage['text']}", answers) if answers else None


def _answers_of(row: Row) -> list[str]:
    answers = row.get("answers")
    if answers is None:
        return []
    return [str(answer) for answer in answers] if isinstance(answers, list) else [str(answers)]


class _Passages:
    """Every passage once; a question names it by its place."""

    def __init__(self, known: Sequence[Row] = ()) -> None:
        self.known: list[Row] = list(known)
        self._places = {self._key(passage): place for place, passage in enumerate(self.known)}

    def place(self, passage: Mapping[str, Any]) -> int:
        plain = {name: str(passage.get(name) or "") for name in ("title", "url", "id", "text")}
        key = self._key(plain)
        if key not in self._places:
            self._places[key] = len(self.known)
            self.known.append(plain)
        return self._places[key]

    @staticmethod
    def _key(passage: Mapping[str, Any]) -> tuple[str, ...]:
        return (passage["id"], passage["title"], passage["url"], passage["text"])


# Files


def _read(path: Path) -> Row | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is damaged: it holds no object")
    return found


def _rows(folder: Path) -> list[Row]:
    path = folder / RESULTS
    try:
        return read_rows(path) if path.exists() else []
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
