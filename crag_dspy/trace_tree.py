"""A trace as a tree for a person. Retrieved text is escaped: it must not style or forge the terminal's output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.tree import Tree

from crag_dspy.actions import Action
from crag_dspy.passages import Passage, Strip
from crag_dspy.text.untrusted import visible

if TYPE_CHECKING:
    from crag_dspy.trace import Trace

_COLOURS = {Action.CORRECT: "green", Action.AMBIGUOUS: "yellow", Action.INCORRECT: "red"}


def as_tree(trace: Trace, dropped: int = 5, passages: int = 10) -> Tree:
    """Action, scores, query, strips kept and dropped with their sources, the answer, warnings.

    Args:
        dropped: most strips shown of those left out, best first.
        passages: most passages shown of those retrieved, and of the pages found: those with the best scores, in order.
    """
    tree = Tree(f"[bold]{_plain(trace.question)}[/]")
    if trace.action:
        cuts = (
            f"upper {trace.thresholds.upper:+.2f}, lower {trace.thresholds.lower:+.2f}, policy {trace.policy}"
        )
        how = "given" if trace.forced else cuts
        tree.add(f"action [bold {_COLOURS[trace.action]}]{trace.action.value.upper()}[/] [dim]({how})[/]")
    if trace.passages:
        graded = tree.add(f"retrieved {len(trace.passages)}, graded by {_plain(trace.grader)}")
        both = list(zip(trace.passages, trace.scores, strict=False))
        best = sorted(range(len(both)), key=lambda i: -_or_lowest(both[i][1]))[:passages]
        for passage, score in (both[i] for i in sorted(best)):
            graded.add(f"{_score(score)} {_source(passage)} [dim]{_short(passage.text)}[/]")
        _more(graded, len(both) - len(best), "with lower scores")
    for query in trace.queries:
        found = tree.add(f"web search [cyan]{_plain(query)}[/]: {len(trace.web_passages)} pages")
        for page in trace.web_passages[:passages]:
            found.add(f"{_source(page)} [dim]{_short(page.text)}[/]")
        _more(found, len(trace.web_passages) - passages, "pages")
    if trace.kept or trace.dropped:
        strips = tree.add(f"strips: {len(trace.kept)} kept, {len(trace.dropped)} dropped")
        for number, strip in enumerate(trace.kept, 1):
            strips.add(f"[green]{escape(f'[{number}]')}[/] {_strip(strip)}")
        left_out = sorted(trace.dropped, key=lambda strip: -_or_lowest(strip.score))
        for strip in left_out[:dropped]:
            strips.add(f"[dim]✗ {_strip(strip)}[/]")
        _more(strips, len(left_out) - dropped, "dropped")
    for warning in trace.warnings:
        tree.add(f"[yellow]warning[/] {_plain(warning)}")
    if trace.failed is not None:
        tree.add(f"[bold red]FAILED[/] {_plain(trace.failed)}")
    if trace.answer is not None:
        cited = "".join(f"[{n}]" for n in trace.cited if f"[{n}]" not in (trace.answer or ""))
        tree.add(f"answer [bold]{_plain(trace.answer)}[/] {escape(cited)}".rstrip())
    total = sum(trace.seconds.values())
    if trace.seconds:
        steps = ", ".join(f"{step} {seconds:.2f}" for step, seconds in trace.seconds.items())
        tree.add(f"[dim]{total:.2f} s ({steps}); {trace.lm_calls} LM calls[/]")
    return tree


def _more(tree: Tree, count: int, what: str) -> None:
    if count > 0:
        tree.add(f"[dim]… and {count} more {what}[/]")


def _or_lowest(score: float | None) -> float:
    return -2.0 if score is None else score


def _plain(text: str) -> str:
    return escape(" ".join(visible(text).split()))


def _short(text: str, limit: int = 72) -> str:
    line = " ".join(visible(text).split())
    return escape(line if len(line) <= limit else line[: limit - 1] + "…")


def _score(score: float | None) -> str:
    return "[dim]  n/a[/]" if score is None else f"{score:+.2f}"


def _source(passage: Passage) -> str:
    return _plain(passage.title or passage.id or passage.url or "(untitled)")


def _strip(strip: Strip) -> str:
    where = strip.passage.url or strip.passage.id
    return f"{_score(strip.score)} {_short(strip.text, 110)} [dim]{strip.origin}: {_plain(where)}[/]"
