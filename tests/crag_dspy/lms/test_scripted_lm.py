"""The double keeps its own contract: the same script answers whichever adapter asks."""

from __future__ import annotations

import asyncio

import dspy
import pytest

from crag_dspy.lms.plain_text import PlainTextAdapter


class Judge(dspy.Signature):
    """Say whether the text helps."""

    question: str = dspy.InputField()
    text: str = dspy.InputField()
    reason: str = dspy.OutputField()
    verdict: bool = dspy.OutputField()


@pytest.mark.parametrize("adapter", [dspy.ChatAdapter(), dspy.JSONAdapter(), PlainTextAdapter()])
def test_one_script_serves_every_adapter(scripted_lm, adapter):
    lm = scripted_lm({"reason": lambda request: f"on {request.inputs['question']}", "verdict": "true"})
    with dspy.context(lm=lm, adapter=adapter):
        prediction = dspy.Predict(Judge)(question="Who?", text="two\nlines")
    assert prediction.reason == "on Who?"
    assert prediction.verdict is True
    assert lm.requests[0].inputs == {"question": "Who?", "text": "two\nlines"}
    assert lm.requests[0].fields == ("reason", "verdict")
    assert lm.engine.calls == 1


def test_demos_are_not_mistaken_for_the_question(scripted_lm):
    lm = scripted_lm({"answer": "42"})
    predict = dspy.Predict("question -> answer")
    predict.demos = [dspy.Example(question="What is one and one?", answer="2")]
    with dspy.context(lm=lm):
        assert predict(question="What is it?").answer == "42"
    assert lm.requests[0].inputs == {"question": "What is it?"}
    assert "What is one and one?" in lm.requests[0].text


def test_it_raises_on_the_chosen_call_and_answers_the_others(scripted_lm):
    lm = scripted_lm({"answer": ["a", "b"]}, raises={1: ConnectionError("down")})
    predict = dspy.Predict("question -> answer")
    with dspy.context(lm=lm):
        assert predict(question="1").answer == "a"
        with pytest.raises(dspy.utils.exceptions.LMError, match="down"):
            predict(question="2")
        assert predict(question="3").answer == "b"


def test_a_reply_that_cannot_be_parsed(scripted_lm):
    lm = scripted_lm(raw="I would rather not say")
    with dspy.context(lm=lm), pytest.raises(dspy.utils.exceptions.AdapterParseError):
        dspy.Predict(Judge)(question="Who?", text="t")
    assert lm.engine.calls == 2  # the chat form, then DSPy's own fallback to JSON


def test_async_and_usage(scripted_lm):
    lm = scripted_lm({"answer": "forty two"})

    async def ask():
        with dspy.context(lm=lm, track_usage=True):
            return await dspy.Predict("question -> answer").acall(question="What is it?")

    prediction = asyncio.run(ask())
    assert prediction.answer == "forty two"
    assert prediction.get_lm_usage()["scripted/by-field"]["total_tokens"] > 0


def test_copies_share_the_record(scripted_lm):
    lm = scripted_lm({"answer": "a"})
    with dspy.context(lm=lm.copy(temperature=0.7)):
        dspy.Predict("question -> answer").deepcopy()(question="1")
    assert len(lm.requests) == 1
