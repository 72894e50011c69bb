"""Curves with their intervals as one SVG file: no script, no font, nothing loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crag_dspy.charts import Frame, colour, dash, moved, stroke, svg, text

if TYPE_CHECKING:
    from crag_dspy.optimize.comparison.table import System

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT, LEGEND = 460, 320, 56, 40, 48, 24, 22
_TITLES = {"removal": "share of answering passages left out", "decoys": "passages added that do not answer"}


def curve_plot(
    metric: str,
    questions: int,
    removal: Mapping[float, Sequence[System]],
    decoys: Mapping[int, Sequence[System]],
) -> str:
    """Quality of every system against what was done to its retrieval; bands are the intervals."""
    panels: list[tuple[str, Mapping[Any, Sequence[System]]]] = [
        (name, points) for name, points in (("removal", removal), ("decoys", decoys)) if points
    ]
    names = [system.name for system in next(iter(panels[0][1].values()))]
    height = HEIGHT + LEGEND * -(-len(names) // 3) + 8
    parts = []
    for number, (name, points) in enumerate(panels):
        what = f"{metric}, {questions} questions"
        parts.append(moved(WIDTH * number, 0, _panel(points, _TITLES[name], what)))
    for number, name in enumerate(names):
        x, y = LEFT + 150 * (number % 3), HEIGHT + LEGEND * (number // 3) + 10
        parts.append(moved(x, y, stroke("0,0 24,0", colour(number), dash(number)), text(30, 4, name)))
    return svg(WIDTH * len(panels), height, f"{metric} by system", parts, alone=True)


def _panel(points: Mapping[Any, Sequence[System]], below: str, above: str) -> str:
    xs = [float(x) for x in points]
    top = max(float(system.quality.high) for found in points.values() for system in found)
    ceiling = min(1.0, max(0.1, math.ceil(top * 10) / 10))
    size = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM)
    frame = Frame(LEFT, TOP, *size, xs=(min(xs), max(xs)), ys=(0, ceiling))
    parts = [text(LEFT, TOP - 16, above)]
    for step in range(6):
        value = ceiling * step / 5
        parts.append(frame.rule(value))
        parts.append(text(LEFT - 8, frame.up(value) + 4, f"{value:.2g}", "end"))
    parts += [text(frame.across(x), frame.bottom + 18, f"{x:g}", "middle") for x in xs]
    parts.append(text(LEFT + frame.width / 2, frame.bottom + 38, below, "middle"))
    for number in range(len(next(iter(points.values())))):
        quality = [found[number].quality for found in points.values()]
        low, mean, high = ([getattr(each, name) for each in quality] for name in ("low", "mean", "high"))
        parts.append(frame.band(xs, low, high, colour(number)))
        parts.append(frame.line(xs, mean, colour(number), dash(number)))
        parts += [frame.dot(x, y, colour(number)) for x, y in zip(xs, mean, strict=True)]
    return "\n".join(parts)
