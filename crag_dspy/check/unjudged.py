"""Answers that signals of words cannot judge: what stands in no strip may still follow from them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from crag_dspy.check.holding import said_runs
from crag_dspy.text.common_words import COMMON_WORDS
from crag_dspy.text.matching import contains_answer, words
from crag_dspy.text.replies.verdicts import read_truth, read_yes_no
from crag_dspy.text.scripts import has_han, has_kana
from crag_dspy.text.sentences import sentence_spans

MOST_WORDS = 40  # of a short answer; of characters where words are not spaced, twice as many
MOST_NUMBERS = 60  # of the evidence: pairs of more take too long, and give every number
_CHOICE = re.compile(r"[(\[]?[A-Ha-h][)\].:]?$")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# How many of a smaller unit are one of a larger: time, length, mass, and powers of ten.
_UNITS = (60, 3600, 24, 7, 12, 52, 365, 1.609, 3.281, 0.3048, 2.54, 0.4536, 2.205, 3.785, 100, 1000, 1e6, 1e9)
CLOSE = 0.005  # of a rounded number, as a share


def kind_not_judged(answer: str) -> str:
    """Why an answer is of no kind that can be found in a text, such as "yes"; "" where it is."""
    said = answer.strip()
    if len(words(said)) <= 2 and (read_yes_no(said) is not None or read_truth(said) is not None):
        return "yes, no, true or false stands in no text"
    if _CHOICE.match(said):
        return "the letter of a choice says nothing by itself"
    most = MOST_WORDS * (2 if has_han(said) or has_kana(said) else 1)
    if len(sentence_spans(said)) > 1 or len(words(said)) > most:
        return "it is long: several sentences, or too many words"
    return ""


def may_follow(question: str, answer: str, texts: Sequence[str]) -> str:
    """Why an answer that no strip holds may still follow from them; "" where it names what stands nowhere."""
    whole = "\n".join(texts)
    fresh = [run for run in said_runs(question, answer) if not contains_answer(whole, run)]
    if not fresh:
        return "it is put together from several strips"
    if _script(answer) != _script(whole):
        return "it is in another script than the evidence"
    numbers = [float(number) for run in fresh for number in _NUMBER.findall(" ".join(words(run)))]
    if numbers:
        known_numbers = list(
            dict.fromkeys(float(number) for number in _NUMBER.findall(" ".join(words(whole))))
        )
        computed = all(_follows(number, known_numbers) for number in numbers)
        return "its number may be computed from those of the evidence" if computed else ""
    if _script(answer):
        characters = [word for run in fresh for word in words(run)]
        known = set(words(whole))
        told = sum(character in known for character in characters)
        return "it is in words of its own" if 2 * told >= len(characters) else ""
    return "" if _is_name(answer, whole) else "it is in words of its own"


def _is_name(answer: str, whole: str) -> bool:
    """Whether all words with content are capitals, and none stands in the evidence or is like one that does."""
    told = [word for word in re.findall(r"[^\W\d_]+", answer) if word.casefold() not in COMMON_WORDS]
    stems = {word[:4] for word in words(whole)}
    return bool(told) and all(
        word[0].isupper() and not stems & {piece[:4] for piece in words(word)} for word in told
    )


def _follows(number: float, known: Sequence[float]) -> bool:
    """Whether a number is the count, sum, difference, product or ratio of known ones, or one in another unit."""
    if not known or len(known) > MOST_NUMBERS:
        return bool(known)
    results = [sum(known), sum(known) / len(known)]
    results += [result for one in known for unit in _UNITS for result in (one * unit, one / unit)]
    for one, other in itertools.permutations(known, 2):
        results += [one + other, one - other, one * other]
        results += [one / other, 100 * one / other, 100 * (one - other) / other] if other else []
    return any(abs(result - number) <= CLOSE * abs(number) for result in results)


def _script(text: str) -> bool:
    return has_han(text) or has_kana(text)
