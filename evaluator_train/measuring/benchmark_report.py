"""The benchmark as one HTML file: a table and, for each file of pairs, ROC curves, reliability, histograms.

Self-contained: nothing is fetched, and it opens offline.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from crag_dspy.charts import Frame, colour, svg, text
from crag_dspy.evaluator_train.measuring.ranking import roc
from crag_dspy.evaluator_train.measuring.reliability import reliability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_dspy.evaluator_train.measuring.results import Result, Row

COLUMNS = ("grader", "AUC", "95%", "AP", "accuracy", "best", "ECE", "unjudged", "pairs/s")
SIZE, EDGE = 240, 34
FRAME = Frame(EDGE, EDGE / 2, SIZE, SIZE)
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .25rem .7rem; text-align: right }
th { border-bottom: 1px solid #888 }
td:first-child, th:first-child { text-align: left }
figure { display: inline-block; margin: 0 1rem 1rem 0 } figcaption { font-size: 13px; color: #555 }
svg text { fill: #555 }
"""
_NOTES = (
    "95%: bootstrap interval of the AUC over questions. AP: average precision. accuracy: at the grader's own cut, "
    "where a text that was not judged is wrong. best: at the best cut for these very pairs, an upper bound. ECE: "
    "expected calibration error of (score + 1) / 2."
)


def cells(row: Row) -> list[str]:
    """The row as text, in the order of `COLUMNS`; "-" for what could not be measured."""

    def number(value: float | None, digits: int = 3) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    interval = "-"
    if row.auc_low is not None and row.auc_high is not None:
        interval = f"{row.auc_low:.3f}-{row.auc_high:.3f}"
    return [
        row.grader,
        number(row.auc),
        interval,
        number(row.average_precision),
        f"{row.accuracy:.1%}",
        "-" if row.best_accuracy is None else f"{row.best_accuracy:.1%}",
        number(row.calibration_error),
        f"{row.unjudged:.1%}",
        number(row.pairs_per_second, 0 if row.pairs_per_second >= 10 else 1),
    ]


def report_html(results: Sequence[Result]) -> str:
    """The whole page, self-contained."""
    sections = []
    for file in dict.fromkeys(result.row.file for result in results):
        own = [result for result in results if result.row.file == file]
        row = own[0].row
        sections.append(f"<h2>{escape(file)}</h2><p>{row.pairs} pairs, {row.relevant} relevant</p>\n")
        sections.extend([_table(own), _roc_figure(own), _reliability_figure(own)])
        sections.extend(_histogram_figure(result, colour(number)) for number, result in enumerate(own))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Grader benchmark</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>Grader benchmark</h1>\n<p>{_NOTES}</p>\n"
        + "".join(sections)
        + "</body></html>\n"
    )


def _table(results: Sequence[Result]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
    rows = "".join(
        f'<tr><td><span style="color:{colour(number)}">&#9632;</span> '
        + "</td><td>".join(escape(cell) for cell in cells(result.row))
        + "</td></tr>\n"
        for number, result in enumerate(results)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>\n"


def _roc_figure(results: Sequence[Result]) -> str:
    lines = [FRAME.line((0, 1), (0, 1), "#bbb", "4 4")]
    for number, result in enumerate(results):
        if result.row.auc is not None:
            lines.append(FRAME.line(*roc(*result.judged()), colour(number)))
    return _figure(lines, "ROC", "false positive rate", "true positive rate")


def _reliability_figure(results: Sequence[Result]) -> str:
    lines = [FRAME.line((0, 1), (0, 1), "#bbb", "4 4")]
    for number, result in enumerate(results):
        labels, scores = result.judged()
        table = reliability(labels, [(score + 1) / 2 for score in scores], bins=10)
        lines.append(
            FRAME.line([row.predicted for row in table], [row.observed for row in table], colour(number))
        )
        for row in table:
            size, told = 2 + 6 * row.pairs / len(labels), f"{row.pairs} pairs"
            lines.append(FRAME.dot(row.predicted, row.observed, colour(number), size, told))
    return _figure(lines, "Reliability", "(score + 1) / 2", "share relevant")


def _histogram_figure(result: Result, paint: str, bins: int = 20) -> str:
    labels, scores = result.judged()
    counts = {0: [0] * bins, 1: [0] * bins}
    for label, score in zip(labels, scores, strict=True):
        counts[label][min(int((score + 1) / 2 * bins), bins - 1)] += 1
    highest = max(*counts[0], *counts[1], 1)
    bars = [
        FRAME.bar(place / bins, (place + 1) / bins, count / highest, fill, opacity)
        for label, fill, opacity in ((0, "#999", 0.8), (1, paint, 0.6))
        for place, count in enumerate(counts[label])
    ]
    cut = (result.row.cut + 1) / 2
    bars.append(FRAME.line((cut, cut), (0, 1), "#222", width=1))
    title = f"{result.row.grader}: scores of irrelevant (grey) and relevant texts"
    return _figure(bars, title, "score", "", ends=("-1", "1"))


def _figure(parts: Sequence[str], title: str, x: str, y: str, ends: tuple[str, str] = ("0", "1")) -> str:
    base, middle = FRAME.bottom + 14, FRAME.top + FRAME.height / 2
    words = [
        text(FRAME.left, base, ends[0]),
        text(FRAME.left + FRAME.width, base, ends[1], "end"),
        text(FRAME.left + FRAME.width / 2, base + 6, x, "middle"),
        text(FRAME.left - 8, middle, y, "middle", turn=-90),
    ]
    drawn = svg(SIZE + 2 * EDGE, SIZE + 1.5 * EDGE, title, [FRAME.border(), *parts, *words])
    return f"<figure>{drawn}<figcaption>{escape(title)}</figcaption></figure>\n"
