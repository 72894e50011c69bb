"""The benchmark as one HTML file: a table and, for each file of pairs, ROC curves, reliability, histograms.

Drawn as SVG by hand: nothing to install, nothing fetched, opens offline.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from crag_dspy.evaluator_train.measuring.ranking import roc
from crag_dspy.evaluator_train.measuring.reliability import reliability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_dspy.evaluator_train.measuring.benchmarking import Result, Row

COLUMNS = ("grader", "AUC", "95%", "AP", "accuracy", "best", "ECE", "unjudged", "pairs/s")
# Told apart in grey and with the common colour vision deficiencies (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555")
SIZE, EDGE = 240, 34
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .25rem .7rem; text-align: right }
th { border-bottom: 1px solid #888 }
td:first-child, th:first-child { text-align: left }
figure { display: inline-block; margin: 0 1rem 1rem 0 } figcaption { font-size: 13px; color: #555 }
svg text { font: 11px system-ui, sans-serif; fill: #555 }
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
        sections.extend(_histogram_figure(result, _colour(number)) for number, result in enumerate(own))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Grader benchmark</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>Grader benchmark</h1>\n<p>{_NOTES}</p>\n"
        + "".join(sections)
        + "</body></html>\n"
    )


def _table(results: Sequence[Result]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
    rows = "".join(
        f'<tr><td><span style="color:{_colour(number)}">&#9632;</span> '
        + "</td><td>".join(escape(cell) for cell in cells(result.row))
        + "</td></tr>\n"
        for number, result in enumerate(results)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>\n"


def _roc_figure(results: Sequence[Result]) -> str:
    lines = [_line([0, 1], [0, 1], "#bbb", "4 4")]
    for number, result in enumerate(results):
        if result.row.auc is not None:
            lines.append(_line(*roc(*result.judged()), _colour(number)))
    return _figure(lines, "ROC", "false positive rate", "true positive rate")


def _reliability_figure(results: Sequence[Result]) -> str:
    lines = [_line([0, 1], [0, 1], "#bbb", "4 4")]
    for number, result in enumerate(results):
        labels, scores = result.judged()
        table = reliability(labels, [(score + 1) / 2 for score in scores], bins=10)
        lines.append(
            _line([row.predicted for row in table], [row.observed for row in table], _colour(number))
        )
        lines.extend(
            f'<circle cx="{_x(row.predicted):.1f}" cy="{_y(row.observed):.1f}" '
            f'r="{2 + 6 * row.pairs / len(labels):.1f}" fill="{_colour(number)}">'
            f"<title>{row.pairs} pairs</title></circle>"
            for row in table
        )
    return _figure(lines, "Reliability", "(score + 1) / 2", "share relevant")


def _histogram_figure(result: Result, colour: str, bins: int = 20) -> str:
    labels, scores = result.judged()
    counts = {0: [0] * bins, 1: [0] * bins}
    for label, score in zip(labels, scores, strict=True):
        counts[label][min(int((score + 1) / 2 * bins), bins - 1)] += 1
    highest = max(*counts[0], *counts[1], 1)
    bars = []
    for label, fill, opacity in ((0, "#999", "0.8"), (1, colour, "0.6")):
        for place, count in enumerate(counts[label]):
            left, top = _x(place / bins), _y(count / highest)
            height = SIZE + EDGE / 2 - top
            bars.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{SIZE / bins - 1:.1f}" height="{height:.1f}" '
                f'fill="{fill}" fill-opacity="{opacity}"/>'
            )
    cut = _x((result.row.cut + 1) / 2)
    bars.append(f'<line x1="{cut:.1f}" x2="{cut:.1f}" y1="{_y(1)}" y2="{_y(0)}" stroke="#222"/>')
    title = f"{result.row.grader}: scores of irrelevant (grey) and relevant texts"
    return _figure(bars, title, "score", "", ends=("-1", "1"))


def _figure(parts: Sequence[str], title: str, x: str, y: str, ends: tuple[str, str] = ("0", "1")) -> str:
    width, height = SIZE + 2 * EDGE, SIZE + 1.5 * EDGE
    frame = f'<rect x="{EDGE}" y="{EDGE / 2}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#888"/>'
    base = SIZE + EDGE / 2 + 14
    texts = (
        f'<text x="{EDGE}" y="{base}">{ends[0]}</text>'
        f'<text x="{EDGE + SIZE}" y="{base}" text-anchor="end">{ends[1]}</text>'
        f'<text x="{EDGE + SIZE / 2}" y="{base + 6}" text-anchor="middle">{escape(x)}</text>'
        f'<text transform="translate({EDGE - 8},{EDGE / 2 + SIZE / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y)}</text>"
    )
    return (
        f'<figure><svg width="{width}" height="{height}" role="img" aria-label="{escape(title)}">'
        f"{frame}{''.join(parts)}{texts}</svg><figcaption>{escape(title)}</figcaption></figure>\n"
    )


def _line(xs: Sequence[float], ys: Sequence[float], colour: str, dash: str = "") -> str:
    points = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in zip(xs, ys, strict=True))
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>'


def _x(value: float) -> float:
    return EDGE + SIZE * value


def _y(value: float) -> float:
    return EDGE / 2 + SIZE * (1 - value)


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
