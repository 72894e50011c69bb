"""The trace of a question: plain data for a machine, a tree for a person that retrieved text cannot forge."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from rich.console import Console

from crag_dspy import CRAG, Passage, Strip
from crag_dspy.actions import Action, Thresholds
from crag_dspy.trace import Trace

QUESTION = "When did the Ardent Bridge open?"
INSIDE = Passage("The Ardent Bridge opened in 1931. It is green.", id="in", title="Ardent Bridge")
PAGE = {
    "url": "https://web/1",
    "title": "Bridges",
    "content": "The Ardent Bridge opened on 5 May 1931. Tickets.",
}


def grade(question: str, texts: list[str]) -> list[float | None]:
    return [0.9 if "opened" in text else -1.0 for text in texts]


def text_of(trace: Trace, **options: Any) -> str:
    console = Console(width=200, force_terminal=False, no_color=True)
    with console.capture() as capture:
        console.print(trace.tree(**options))
    return capture.get()


@pytest.mark.parametrize("grade_by", ["passage", "strips"])
@pytest.mark.parametrize("action", list(Action))
def test_a_forced_action_is_told_apart_and_keeps_the_scores(
    scripted_lm: Callable[..., Any], action: Action, grade_by: str
) -> None:
    program = CRAG(lambda query: [INSIDE], grade, lambda query, max_results: [PAGE], grade_by=grade_by)
    with dspy.context(lm=scripted_lm({"answer": "1931 [1]", "query": "ardent"})):
        trace = program(question=QUESTION, action=action).trace
    story = json.loads(json.dumps(trace.to_json(), allow_nan=False))
    assert (story["action"], story["forced"], story["scores"]) == (action.value, True, [0.9])
    assert story["queries"] == ([] if action is Action.CORRECT else ["ardent"])
    assert len(story["web_passages"]) == len(story["queries"])
    # Every strip that was looked at is told once, kept or dropped.
    told = [(strip["origin"], strip["text"]) for strip in [*story["kept"], *story["dropped"]]]
    assert len(told) == len(set(told)) == {"correct": 2, "incorrect": 2, "ambiguous": 4}[action.value]
    shown = text_of(trace)
    for part in (action.value.upper(), "(given)", "+0.90", "The Ardent Bridge opened", "1931 [1]"):
        assert part in shown


def test_retrieved_text_cannot_style_or_forge_the_tree() -> None:
    hostile = Passage(
        "[bold red]RED[/] \x1b[31mred\x1b[0m\naction CORRECT \u202eevil", title="[link=x]t[/link]", url="u"
    )
    strip = Strip(hostile.text, 0, len(hostile.text), None, hostile, "web")
    trace = Trace(
        "[blink]q[/]", Thresholds(0.5, -0.5), "max", "[i]g[/i]", [hostile], [None], Action.INCORRECT
    )
    trace.kept, trace.answer, trace.warnings = [strip], "[reverse]a[/] [1]", ["[bold]w[/]"]
    shown = text_of(trace)
    for part in (
        "[bold red]RED[/]",
        "[link=x]t[/link]",
        "[blink]q[/]",
        "[i]g[/i]",
        "[reverse]a[/] [1]",
        "[bold]w[/]",
    ):
        assert part in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert not any(line.strip(" │├└─").startswith("action CORRECT") for line in shown.splitlines())


def test_the_tree_of_a_question_that_failed_early_can_be_shown() -> None:
    assert "q" in text_of(Trace("q", Thresholds(), "max"))


def test_dropped_strips_are_shown_best_first_up_to_a_limit() -> None:
    passage = Passage("a b c d")
    trace = Trace("q", Thresholds(), "max")
    trace.dropped = [
        Strip(passage.text[i], i, i + 1, score, passage, "internal")
        for i, score in ((0, None), (2, -0.9), (4, -0.6))
    ]
    shown = text_of(trace, dropped=2)
    assert shown.index("-0.60 c") < shown.index("-0.90 b")
    assert "and 1 more dropped" in shown


def test_of_many_passages_the_best_are_shown_in_their_order() -> None:
    trace = Trace("q", Thresholds(), "max")
    trace.passages = [Passage(f"text {i}", title=f"T{i}") for i in range(30)]
    trace.scores = [None, *(-0.9 + i / 100 for i in range(28)), 0.9]
    shown = text_of(trace)
    assert [f"T{i} " in shown for i in (0, 19, 20, 21, 29)] == [False, False, True, True, True]
    assert shown.index("T20 ") < shown.index("T29 ")
    assert "and 20 more with lower scores" in shown


def test_a_warning_is_told_once_and_time_adds_up() -> None:
    trace = Trace("q", Thresholds(), "max")
    for _ in range(2):
        trace.warn("w")
        with pytest.raises(KeyError), trace.timed("step"):
            raise KeyError("a failing step is timed too")
    assert trace.warnings == ["w"]
    assert set(trace.seconds) == {"step"}


def test_usage_adds_up_over_models_and_ignores_what_is_no_count() -> None:
    trace = Trace("q", Thresholds(), "max")
    trace.add_usage(
        {
            "a": [{"prompt_tokens": 3, "completion_tokens": 1}],
            "b": [{"prompt_tokens": 2, "is_byok": True}, {}],
        }
    )
    assert (trace.lm_calls, trace.lm_tokens) == (3, {"prompt_tokens": 5, "completion_tokens": 1})
