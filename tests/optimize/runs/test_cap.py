"""A limit on LM calls, tokens and dollars holds, whoever calls: a program, a judge, another thread."""

import asyncio

import dspy
import pytest
from dspy.lm15 import Message, Response, Usage

from crag_dspy.errors import BudgetSpentError, ConfigError
from crag_dspy.optimize.runs.cap import Cap, calling_nothing, capped, refusals
from crag_dspy.optimize.runs.pool import run_each
from crag_dspy.optimize.runs.tariff import Tariff, read_tariff, tariff_of


class Silent:
    """An engine that does not say how many tokens it took."""

    def complete(self, request):
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant("four"),
            finish_reason="stop",
            usage=Usage(input_tokens=None, output_tokens=None),
        )


def test_calls_beyond_the_limit_are_refused_before_they_are_made(scripted_lm):
    lm, program = scripted_lm({"answer": "yes"}), dspy.Predict("question -> answer")

    with dspy.context(lm=lm), capped(Cap(calls=2)) as cap:
        program(question="a")
        program(question="b")
        with pytest.raises(BudgetSpentError, match="2 LM calls"):
            program(question="c")

    assert lm.engine.calls == cap.spent.calls == 2


def test_a_model_that_nobody_can_see_is_counted_too(scripted_lm):
    """Held in a closure, as a judge's is, and not the configured one."""
    judge = dspy.LM("silent/judge", engine=Silent(), cache=False)

    with dspy.context(lm=scripted_lm()), capped(Cap(calls=1)) as cap:
        judge("Is it right?")
        with pytest.raises(BudgetSpentError):
            judge("Is it?")

    assert cap.spent.calls == 1


def test_calls_of_threads_and_of_coroutines_are_counted(scripted_lm):
    lm, program = scripted_lm({"answer": "yes"}), dspy.Predict("question -> answer")

    with dspy.context(lm=lm), capped(Cap()) as cap:
        run_each(lambda i: program(question=str(i)), list(range(6)), threads=3, progress=False)
        dspy.Parallel(num_threads=2, disable_progress_bar=True)(
            [(program, {"question": f"p{i}"}) for i in range(3)]
        )
        asyncio.run(program.acall(question="z"))

    assert cap.spent.calls == lm.engine.calls == 10


def test_many_threads_at_the_limit_never_pass_it(scripted_lm):
    lm, program = scripted_lm({"answer": "yes"}), dspy.Predict("question -> answer")

    with dspy.context(lm=lm), capped(Cap(calls=5)) as cap, pytest.raises(BudgetSpentError):
        run_each(lambda i: program(question=str(i)), list(range(20)), threads=8, progress=False)

    assert lm.engine.calls == cap.spent.calls == 5


def test_a_cached_reply_costs_nothing_and_is_given_beyond_the_limit(scripted_lm, tmp_path):
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    lm, program = scripted_lm({"answer": "yes"}, cache=True), dspy.Predict("question -> answer")

    with dspy.context(lm=lm), capped(Cap(calls=1)) as cap:
        for _ in range(3):
            assert program(question="a").answer == "yes"
        with pytest.raises(BudgetSpentError):
            program(question="b")

    assert cap.spent.calls == lm.engine.calls == 1


def test_a_call_that_failed_is_counted_as_a_call(scripted_lm):
    lm = scripted_lm({"answer": RuntimeError("down")})

    with dspy.context(lm=lm), capped(Cap()) as cap, pytest.raises(Exception, match="down"):
        dspy.Predict("question -> answer")(question="a")

    assert cap.spent.calls == lm.engine.calls
    assert cap.spent.tokens == 0


def test_a_cap_within_another_holds_both(scripted_lm):
    lm, program = scripted_lm({"answer": "yes"}), dspy.Predict("question -> answer")

    with dspy.context(lm=lm), capped(Cap(calls=3)) as outer:
        with capped(Cap(calls=2)) as inner:
            program(question="a")
            program(question="b")
            with pytest.raises(BudgetSpentError):
                program(question="c")
        program(question="d")

    assert (outer.spent.calls, inner.spent.calls, inner.refused, outer.refused) == (3, 2, inner.refused, 0)


def test_tokens_are_held_by_beginning_no_call_once_they_are_spent(scripted_lm):
    lm, program = scripted_lm({"answer": "yes"}), dspy.Predict("question -> answer")

    with dspy.context(lm=lm), capped(Cap()) as cap:
        program(question="a")
    each = cap.spent.tokens
    with dspy.context(lm=lm), capped(Cap(tokens=each + 1)) as cap:
        program(question="b")
        program(question="c")
        with pytest.raises(BudgetSpentError, match="tokens"):
            program(question="d")

    assert cap.spent.tokens == 2 * each > 0


def test_dollars_are_held_with_given_prices(scripted_lm):
    lm, program = scripted_lm({"answer": "yes"}), dspy.Predict("question -> answer")

    with dspy.context(lm=lm), capped(Cap(cost=1e-9, tariff=Tariff(1, 2))) as cap:
        program(question="a")
        with pytest.raises(BudgetSpentError, match=r"\$1e-09"):
            program(question="b")

    assert cap.spent.cost > 0


def test_a_model_without_a_known_price_cannot_be_held_to_dollars(scripted_lm):
    lm = scripted_lm({"answer": "yes"})

    with (
        dspy.context(lm=lm),
        pytest.raises(ConfigError, match="price of scripted/by-field"),
        capped(Cap(cost=1)),
    ):
        pass
    with capped(Cap(cost=1)), pytest.raises(ConfigError, match="price of scripted/by-field"):
        lm("a judge's")  # which nobody could see before

    assert lm.engine.calls == 0


def test_prices_come_from_litellms_table_by_the_name_that_dspy_takes():
    assert tariff_of("openai/gpt-4o-mini").of(1_000_000, 2_000_000) == pytest.approx(0.15 + 2 * 0.6)
    assert tariff_of("nobody/knows") is None
    assert read_tariff("0.15, 0.6") == Tariff(0.15, 0.6)
    assert read_tariff("3,15").of(1000, 100) == pytest.approx(0.0045)
    with pytest.raises(ConfigError, match="must be like"):
        read_tariff("cheap")


def test_a_model_that_does_not_say_its_tokens_is_counted_by_bytes():
    with capped(Cap()) as cap:
        dspy.LM("silent/model", engine=Silent(), cache=False)("twelve bytes")

    assert cap.spent.tokens >= len("twelve bytes") + len("four")


def test_who_was_refused_can_be_told(scripted_lm):
    lm, program = scripted_lm({"answer": "yes"}), dspy.Predict("question -> answer")

    with dspy.context(lm=lm), capped(Cap(calls=1)):
        with refusals() as first:
            program(question="a")
        with refusals() as second, pytest.raises(BudgetSpentError):
            program(question="b")

    assert first == []
    assert second
    assert isinstance(second[0], BudgetSpentError)


def test_work_that_must_cost_nothing_calls_nothing_and_tells_nobody(scripted_lm):
    lm = scripted_lm({"answer": "yes"})

    with (
        dspy.context(lm=lm),
        capped(Cap()) as cap,
        refusals() as refused,
        pytest.raises(BudgetSpentError),
        calling_nothing(),
    ):
        dspy.Predict("question -> answer")(question="a")

    assert (lm.engine.calls, cap.spent.calls, refused) == (0, 0, [])


@pytest.mark.parametrize("wrong", [{"calls": -1}, {"tokens": 1.5}, {"cost": -0.1}, {"cost": float("nan")}])
def test_a_limit_out_of_range_is_named(wrong):
    with pytest.raises(ConfigError, match="max_"):
        Cap(**wrong)
