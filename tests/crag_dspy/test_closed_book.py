"""The closed-book system: nothing is retrieved, and the prompt does not speak of what is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import dspy
import pytest

from crag_dspy.baselines import NoRetrieval
from crag_dspy.errors import ConfigError
from crag_dspy.lms.worked_examples import worked_examples
from crag_dspy.signatures.answer import ChoiceAnswer, ClaimCheck, LongAnswer, ShortAnswer

QUESTION = "When did the Ardent Bridge open?"


def test_it_asks_once_without_a_context(scripted_lm: Callable[..., Any]) -> None:
    lm = scripted_lm({"answer": "1931"})
    with dspy.context(lm=lm):
        prediction = NoRetrieval()(question=QUESTION)
        again = asyncio.run(NoRetrieval().acall(question=QUESTION))
    assert prediction.answer == again.answer == "1931"
    assert (prediction.grounded, prediction.evidence, prediction.knowledge) == (False, [], "")
    assert [dict(request.inputs) for request in lm.requests] == [{"question": QUESTION}] * 2


@pytest.mark.parametrize(
    "generate",
    [
        None,
        ShortAnswer,
        LongAnswer,
        ClaimCheck,
        ChoiceAnswer,
        dspy.Predict(ShortAnswer),
        "context, question -> answer",
    ],
)
def test_no_prompt_speaks_of_a_context(scripted_lm: Callable[..., Any], generate: Any) -> None:
    lm = scripted_lm({"answer": "true"})
    with dspy.context(lm=lm):
        NoRetrieval(generate=generate)(question=QUESTION)
    assert "context" not in lm.requests[0].text.lower()


@pytest.mark.parametrize("generate", ["context, question -> reply", "question, topic -> answer", 3])
def test_what_cannot_answer_a_question_alone_is_refused(generate: Any) -> None:
    with pytest.raises(ConfigError, match="generate must"):
        NoRetrieval(generate=generate)


@pytest.mark.parametrize("task", [ShortAnswer, ClaimCheck, ChoiceAnswer])
def test_small_models_get_the_examples_of_the_same_task(task: Any) -> None:
    alone = worked_examples(NoRetrieval(task).generate.predict.signature, {"question": QUESTION})
    given = worked_examples(task, {"question": QUESTION})
    assert alone == [{"question": e["question"], "answer": e["answer"]} for e in given] != []


@pytest.mark.parametrize("kind", [dspy.Predict, dspy.ChainOfThought])
def test_the_same_language_model_is_asked_with_the_same_options(
    kind: Any, scripted_lm: Callable[..., Any]
) -> None:
    own, other = scripted_lm({"answer": "1931", "reasoning": "-"}), scripted_lm({"answer": "1800"})
    generate = kind(ShortAnswer, max_tokens=7)
    generate.set_lm(own)
    with dspy.context(lm=other):
        prediction = NoRetrieval(generate=generate)(question=QUESTION)
    assert (prediction.answer, len(own.requests), other.requests) == ("1931", 1, [])
    assert NoRetrieval(generate=generate).predictors()[0].config == {"max_tokens": 7}
