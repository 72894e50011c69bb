"""Curves with their intervals as one SVG file: no script, no font, nothing loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crag_dspy.optimize.comparison.table import System

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, LEGEND = 460, 320, 56, 40, 48, 22
# Told apart by people who do not see all colours (Okabe and Ito), and by their marks.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("", "6 3", "2 3", "8 3 2 3")
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
    width, height = WIDTH * len(panels), HEIGHT + LEGEND * -(-len(names) // 3) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{escape(metric, quote=True)} by system">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, (name, points) in enumerate(panels):
        what = f"{metric}, {questions} questions"
        parts.append(
            f'<g transform="translate({WIDTH * number} 0)">{_panel(points, _TITLES[name], what)}</g>'
        )
    for number, name in enumerate(names):
        x, y = LEFT + 150 * (number % 3), HEIGHT + LEGEND * (number // 3) + 10
        parts.append(
            f'<g transform="translate({x} {y})">{_stroke(number, "0,0 24,0")}{_text(30, 4, name)}</g>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _panel(points: Mapping[Any, Sequence[System]], below: str, above: str) -> str:
    xs = list(points)
    low, high = float(min(xs)), float(max(xs))
    top = max(float(system.quality.high) for found in points.values() for system in found)
    ceiling = min(1.0, max(0.1, math.ceil(top * 10) / 10))

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - 24) * ((x - low) / (high - low) if high > low else 0.5)

    def up(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - y / ceiling)

    parts = [_text(LEFT, TOP - 16, above)]
    for step in range(6):
        value = ceiling * step / 5
        parts.append(f'<path d="M{LEFT} {up(value):.1f}H{WIDTH - 24}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, up(value) + 4, f"{value:.2g}", "end"))
    parts += [_text(across(x), HEIGHT - BOTTOM + 18, f"{x:g}", "middle") for x in xs]
    parts.append(_text((LEFT + WIDTH - 24) / 2, HEIGHT - BOTTOM + 38, below, "middle"))
    for number in range(len(next(iter(points.values())))):
        quality = [(across(x), points[x][number].quality) for x in xs]
        band = [f"{x:.1f},{up(q.low):.1f}" for x, q in quality] + [
            f"{x:.1f},{up(q.high):.1f}" for x, q in reversed(quality)
        ]
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity="0.12"/>')
        parts.append(_stroke(number, " ".join(f"{x:.1f},{up(q.mean):.1f}" for x, q in quality)))
        parts += [f'<circle cx="{x:.1f}" cy="{up(q.mean):.1f}" r="3" fill="{colour}"/>' for x, q in quality]
    return "\n".join(parts)


def _stroke(number: int, points: str) -> str:
    dash = (
        DASHES[number // len(COLOURS) % len(DASHES)]
        if number >= len(COLOURS)
        else DASHES[number % len(DASHES)]
    )
    return (
        f'<polyline points="{points}" fill="none" stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="2"'
        + (f' stroke-dasharray="{dash}"' if dash else "")
        + "/>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
