"""Within one question, a call that was made is not made again, and yet is counted as if it were."""

from __future__ import annotations

from typing import Any

import dspy
import pytest

from crag_dspy import once
from crag_dspy.actions import Action
from crag_dspy.flow import Call, Flow, Together, drive
from crag_dspy.live.notes import note, notes
from crag_dspy.usage import count_replies, track_calls


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Time that passes only when a part says so."""

    class Clock:
        now = 0.0

        def perf_counter(self) -> float:
            return self.now

    made = Clock()
    monkeypatch.setattr(once, "time", made)
    return made


class Part:
    def __init__(self, clock: Any = None, seconds: float = 0.0, result: Any = "done") -> None:
        self.calls, self.clock, self.seconds, self.result = 0, clock, seconds, result

    def __call__(self, **arguments: Any) -> Any:
        self.calls += 1
        if self.clock is not None:
            self.clock.now += self.seconds
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def called(part: Any, arguments: dict[str, Any]) -> Any:
    return once.call(part, arguments, lambda: part(**arguments))


def test_the_same_call_of_the_same_part_is_made_once() -> None:
    part, other = Part(), Part()
    with once.calls_once():
        assert called(part, {"query": "a"}) == called(part, {"query": "a"}) == "done"
        assert part.calls == 1
        called(part, {"query": "b"})
        called(other, {"query": "a"})
    assert (part.calls, other.calls) == (2, 1)
    called(part, {"query": "a"})  # outside nothing is remembered
    assert part.calls == 3


def test_a_call_that_raised_is_made_again() -> None:
    part = Part(result=TimeoutError("down"))
    with once.calls_once():
        for _ in range(2):
            with pytest.raises(TimeoutError):
                called(part, {})
    assert part.calls == 2


def test_whoever_changes_a_list_changes_only_their_own() -> None:
    part = Part(result=[1])
    with once.calls_once():
        called(part, {}).append(2)
        assert called(part, {}) == [1]


def test_what_a_part_notes_is_told_each_time() -> None:
    def part() -> str:
        note("two items were left out")
        return "done"

    with once.calls_once():
        for _ in range(2):
            with notes() as told:
                called(part, {})
            assert told == ["two items were left out"]


def test_calls_of_language_models_are_counted_again(scripted_lm: Any) -> None:
    lm, ask = scripted_lm({"answer": "Paris"}), dspy.Predict("question -> answer")
    with dspy.context(lm=lm), once.calls_once() as known:
        for spared in (0, 1, 2):
            with track_calls() as calls, count_replies() as replies:
                called(ask, {"question": "Where?"})
            assert (len(calls.entries), replies.count, known.lm_calls) == (1, 1, spared)
            assert calls.entries[0]["prompt_tokens"] > 0
    assert len(lm.requests) == 1


def test_seconds_that_were_spared_are_known(clock: Any) -> None:
    inner = Part(clock, 2.0)

    def around(**arguments: Any) -> Any:
        clock.now += 1.0
        return called(inner, {})

    outer = around
    with once.calls_once():
        called(outer, {"action": "correct"})
        assert (clock.now, once.spared_seconds()) == (3.0, 0.0)
        called(outer, {"action": "ambiguous"})
        assert (clock.now, once.spared_seconds()) == (4.0, 2.0)
        called(outer, {"action": "ambiguous"})
        assert (clock.now, once.spared_seconds()) == (4.0, 5.0)
    assert once.spared_seconds() == 0.0


def test_of_lines_side_by_side_the_longest_counts(clock: Any) -> None:
    long, short = Part(clock, 3.0), Part(clock, 2.0)

    def one(part: Part) -> Flow:
        return (yield Call(part))

    def both() -> Flow:
        return (yield Together(one(long), one(short)))

    with once.calls_once():
        drive(one(long))
        drive(one(short))
        before = once.spared_seconds()
        assert drive(both()) == ["done", "done"]
        assert once.spared_seconds() - before == 3.0
    assert (long.calls, short.calls) == (1, 1)


def test_every_action_answers_as_it_does_alone(
    capitals_program: Any, capitals_devset: Any, capitals_script: Any, scripted_lm: Any
) -> None:
    program = capitals_program()
    with dspy.context(lm=scripted_lm(capitals_script)):
        for example in capitals_devset:
            alone = [program(question=example.question, action=action) for action in Action]
            with once.calls_once():
                shared = [program(question=example.question, action=action) for action in Action]
            for one, other in zip(alone, shared, strict=True):
                assert (one.answer, one.knowledge, one.queries) == (
                    other.answer,
                    other.knowledge,
                    other.queries,
                )
                assert (one.trace.lm_calls, one.trace.lm_tokens) == (
                    other.trace.lm_calls,
                    other.trace.lm_tokens,
                )
