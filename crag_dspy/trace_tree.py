"""A trace as a tree for a person. Retrieved text is escaped: it must not style or forge the terminal's output.

It is drawn from the plain data that `Trace.to_json` gives, so that one out of a file can be shown too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.tree import Tree

from crag_dspy.text.untrusted import visible

_COLOURS = {"correct": "green", "ambiguous": "yellow", "incorrect": "red"}


def as_tree(story: Mapping[str, Any], dropped: int = 5, passages: int = 10) -> Tree:
    """Action, scores, query, strips kept and dropped with their sources, the answer, warnings.

    Args:
        story: what `Trace.to_json` gives.
        dropped: most strips shown of those left out, best first.
        passages: most passages shown of those retrieved, and of the pages found: those with the best scores, in order.
    """
    tree = Tree(f"[bold]{_plain(story['question'])}[/]")
    if action := story["action"]:
        cuts = story["thresholds"]
        decided = f"upper {cuts['upper']:+.2f}, lower {cuts['lower']:+.2f}, policy {story['policy']}"
        how = "given" if story["forced"] else decided
        tree.add(f"action [bold {_COLOURS[action]}]{action.upper()}[/] [dim]({how})[/]")
    if story["passages"]:
        graded = tree.add(f"retrieved {len(story['passages'])}, graded by {_plain(story['grader'])}")
        both = list(zip(story["passages"], story["scores"], strict=False))
        best = sorted(range(len(both)), key=lambda i: -_or_lowest(both[i][1]))[:passages]
        for passage, score in (both[i] for i in sorted(best)):
            graded.add(f"{_score(score)} {_source(passage)} [dim]{_short(passage['text'])}[/]")
        _more(graded, len(both) - len(best), "with lower scores")
    pages = story["web_passages"]
    for query in story["queries"]:
        found = tree.add(f"web search [cyan]{_plain(query)}[/]: {len(pages)} pages")
        for page in pages[:passages]:
            found.add(f"{_source(page)} [dim]{_short(page['text'])}[/]")
        _more(found, len(pages) - passages, "pages")
    weak = story.get("declined") or []
    if weak or story["kept"] or story["dropped"]:
        strips = tree.add(f"strips: {len(story['kept'])} kept, {len(weak) + len(story['dropped'])} dropped")
        for number, strip in enumerate(story["kept"], 1):
            strips.add(f"[green]{escape(f'[{number}]')}[/] {_strip(strip)}")
        left_out = sorted([*weak, *story["dropped"]], key=lambda strip: -_or_lowest(strip["score"]))
        for strip in left_out[:dropped]:
            strips.add(f"[dim]✗ {_strip(strip)}[/]")
        _more(strips, len(left_out) - dropped, "dropped")
        if weak:
            strips.add(
                f"[yellow]no evidence[/]: the best strip is too weak ({_score(story['evidence_score'])})"
            )
    for warning in story["warnings"]:
        tree.add(f"[yellow]warning[/] {_plain(warning)}")
    if story.get("failed") is not None:
        tree.add(f"[bold red]FAILED[/] {_plain(story['failed'])}")
    if (answer := story["answer"]) is not None:
        cited = "".join(f"[{n}]" for n in story["cited"] if f"[{n}]" not in answer)
        tree.add(f"answer [bold]{_plain(answer)}[/] {escape(cited)}".rstrip())
    if (sure := story.get("confidence")) is not None:
        places = story.get("check") or {}
        signals = ", ".join(f"{_plain(str(name))} {_plain(str(value))[:6]}" for name, value in places.items())
        tree.add(f"confidence {sure:.2f} [dim]({signals})[/]")
    if (held_back := story.get("unsupported")) is not None:
        tree.add(f"[yellow]held back, not supported[/]: {_plain(held_back)}")
    if seconds := story["seconds"]:
        steps = ", ".join(f"{step} {taken:.2f}" for step, taken in seconds.items())
        tree.add(f"[dim]{sum(seconds.values()):.2f} s ({steps}); {story['lm_calls']} LM calls[/]")
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


def _source(passage: Mapping[str, Any]) -> str:
    return _plain(passage["title"] or passage["id"] or passage["url"] or "(untitled)")


def _strip(strip: Mapping[str, Any]) -> str:
    where = strip["url"] or strip["id"]
    return f"{_score(strip['score'])} {_short(strip['text'], 110)} [dim]{strip['origin']}: {_plain(where)}[/]"
