"""Answering from memory, each the counterpart of one in `answer.py`: the same task, and no word of a context."""

from __future__ import annotations

import dspy


class ShortAnswerAlone(dspy.Signature):
    """Answer the question in as few words as possible: a name, a number, a date or a term.

    Answer in the language of the question.
    """

    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="the answer only, a few words")


class LongAnswerAlone(dspy.Signature):
    """Answer the question in a few sentences, in the language of the question."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="two to five sentences")


class ClaimCheckAlone(dspy.Signature):
    """Say whether the claim is true."""

    question: str = dspy.InputField(desc="a claim")
    answer: str = dspy.OutputField(desc="true or false")


class ChoiceAnswerAlone(dspy.Signature):
    """Choose the option that answers the question."""

    question: str = dspy.InputField(desc="a question with its lettered options")
    answer: str = dspy.OutputField(desc="the letter of one option")
