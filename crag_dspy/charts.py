"""Charts as SVG, drawn by hand: nothing to install, nothing fetched, no script; they open offline and print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# Told apart by people who do not see all colours, and in grey (Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("", "6 3", "2 3", "8 3 2 3")


def colour(number: int) -> str:
    """Of series `number`, from 0; they begin again after seven."""
    return COLOURS[number % len(COLOURS)]


def dash(number: int) -> str:
    """Of series `number`: with `colour`, twenty-eight are told apart."""
    return DASHES[(number % len(COLOURS) + number // len(COLOURS)) % len(DASHES)]


def svg(width: float, height: float, label: str, parts: Sequence[str], *, alone: bool = False) -> str:
    """A drawing of `parts` on white; `label` is what a screen reader says. `alone`: as a file, not in a page."""
    space = 'xmlns="http://www.w3.org/2000/svg" ' if alone else ""
    inside = "\n".join(parts)
    return (
        f'<svg {space}viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(label, quote=True)}">\n'
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>\n{inside}\n</svg>\n'
    )


def moved(x: float, y: float, *parts: str) -> str:
    """`parts` with their origin at (x, y)."""
    return f'<g transform="translate({x:g} {y:g})">{"".join(parts)}</g>'


def text(x: float, y: float, words: str, anchor: str = "start", turn: int = 0) -> str:
    """Words that start, end or have their middle at (x, y), turned by so many degrees."""
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}>{escape(words)}</text>'


def stroke(points: str, paint: str, dashes: str = "", width: float = 2) -> str:
    """A line through `points`, "x,y x,y"."""
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{points}" fill="none" stroke="{paint}" stroke-width="{width:g}"{dashed}/>'


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle of a chart: where it stands, in pixels, and which values its edges have."""

    left: float
    top: float
    width: float
    height: float
    xs: tuple[float, float] = (0.0, 1.0)
    ys: tuple[float, float] = (0.0, 1.0)

    def across(self, x: float) -> float:
        """A value in pixels; the middle where the axis has one value only."""
        low, high = self.xs
        return self.left + self.width * ((x - low) / (high - low) if high > low else 0.5)

    def up(self, y: float) -> float:
        low, high = self.ys
        return self.top + self.height * (1 - (y - low) / (high - low))

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def border(self) -> str:
        return (
            f'<rect x="{self.left:g}" y="{self.top:g}" width="{self.width:g}" height="{self.height:g}" '
            'fill="none" stroke="#888"/>'
        )

    def rule(self, y: float) -> str:
        """A grid line across."""
        return f'<path d="M{self.left:g} {self.up(y):.1f}h{self.width:g}" stroke="#ddd"/>'

    def line(
        self, xs: Sequence[float], ys: Sequence[float], paint: str, dashes: str = "", width: float = 2
    ) -> str:
        return stroke(self._points(xs, ys), paint, dashes, width)

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], paint: str) -> str:
        """The area between two lines."""
        around = f"{self._points(xs, low)} {self._points(xs[::-1], high[::-1])}"
        return f'<polygon points="{around}" fill="{paint}" opacity="0.12"/>'

    def dot(self, x: float, y: float, paint: str, radius: float = 3, told: str = "") -> str:
        """A point; `told` is shown when the mouse rests on it."""
        inside = f"<title>{escape(told)}</title>" if told else ""
        place = f'cx="{self.across(x):.1f}" cy="{self.up(y):.1f}"'
        return f'<circle {place} r="{radius:.1f}" fill="{paint}">{inside}</circle>'

    def bar(self, start: float, end: float, y: float, paint: str, opacity: float) -> str:
        """From the bottom up to `y`, a pixel apart from the next one."""
        x, width, top = self.across(start), self.across(end) - self.across(start) - 1, self.up(y)
        return (
            f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{self.bottom - top:.1f}" '
            f'fill="{paint}" fill-opacity="{opacity:g}"/>'
        )

    def _points(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        return " ".join(f"{self.across(x):.1f},{self.up(y):.1f}" for x, y in zip(xs, ys, strict=True))
