"""Metrics: how good an answer is, and why.

Each is called as `metric(example, pred, trace=None, pred_name=None, pred_trace=None)` and returns a `Score`,
so it works unchanged in `dspy.Evaluate`, BootstrapFewShot, MIPROv2, SIMBA and GEPA. A metric is named for
what it measures.

Gold answers are `example.answers` (one answer and its aliases) or `example.answer`. An EMPTY `answers` says
that the question has no answer in the documents: then the right thing to do is to say so.
"""

from __future__ import annotations

from typing import Any

from crag_dspy.actions import Action
from crag_dspy.errors import ConfigError
from crag_dspy.optimize.metrics.feedback import explain, listed, shortened
from crag_dspy.optimize.metrics.observed import (
    abstained,
    action_of,
    answer_of,
    evidence_of,
    field_of,
    ids_of,
    passages_of,
    texts_of,
)
from crag_dspy.optimize.metrics.score import Metric, Score
from crag_dspy.optimize.metrics.unless_failed import unless_failed
from crag_dspy.optimize.metrics.wordings import same_wording
from crag_dspy.text.common_words import COMMON_WORDS
from crag_dspy.text.matching import contains_answer, found_answer, normalize, phrases
from crag_dspy.text.matching import token_f1 as f1_of
from crag_dspy.text.replies import read_choice, read_choices, read_truth, uncited


@unless_failed
def contains(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """1 when some gold answer is a substring of the answer, letter for letter: the paper's accuracy on PopQA.

    It calls "party" right for the gold answer "art": use `contains_word` unless you compare with the paper.
    """
    golds = gold_answers(example)
    if not golds:
        return _should_abstain(pred, pred_name)
    answer = answer_of(pred)
    right = any(gold and gold in answer for gold in golds)
    return _judged(right, f"{shortened(answer)} has no substring {_one_of(golds)}.", pred, golds, pred_name)


@unless_failed
def contains_word(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """1 when some gold answer stands in the answer as whole words, whatever its case, accents or punctuation.

    Chinese, Japanese, Korean and Thai have no boundaries to respect: there a substring is enough. A refusal
    is never right, even when its words ("there is no answer") contain a gold answer ("no").
    """
    golds = gold_answers(example)
    if not golds:
        return _should_abstain(pred, pred_name)
    answer = answer_of(pred)
    said = contains_answer(answer, golds) or normalize(answer) in map(normalize, golds)
    right = said and (not abstained(pred) or _only_gold(answer, golds))
    return _judged(right, f"{shortened(answer)} does not contain {_one_of(golds)}.", pred, golds, pred_name)


@unless_failed
def exact_match(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """1 when the answer is a gold answer, after SQuAD's normalisation: case, punctuation, articles, spaces."""
    golds = gold_answers(example)
    if not golds:
        return _should_abstain(pred, pred_name)
    answer = answer_of(pred)
    right = _only_gold(answer, golds) or _only_gold(uncited(answer), golds)
    return _judged(right, f"{shortened(answer)} is not exactly {_one_of(golds)}.", pred, golds, pred_name)


@unless_failed
def token_f1(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """SQuAD's F1 between the answer's tokens and the best fitting gold answer's; characters in Chinese and the like."""
    golds = gold_answers(example)
    if not golds:
        return _should_abstain(pred, pred_name)
    answer = answer_of(pred)
    value = max(f1_of(answer, golds), f1_of(uncited(answer), golds))
    if value == 1:
        return Score(score=1.0, feedback="Right.")
    verdict = f"{shortened(answer)} shares {value:.0%} of its words with {_one_of(golds)} (F1)."
    if value > 0 and contains_answer(answer, golds):
        return Score(
            score=value, feedback=f"{verdict} It says more than was asked: answer with the answer alone."
        )
    return Score(score=value, feedback=explain(verdict, pred, golds, pred_name))


@unless_failed
def same_answer(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """1 when the answer says what a gold answer says, in other words or with more of them, judged by rules.

    "prime numbers" says "primes", "20:1" says "20 to 1", "thawed" says "thaw", "1931-05-05" says "5 May 1931": see
    `wordings.py`. `SameAnswer` also asks a language model where the rules see no sameness.
    """
    golds = gold_answers(example)
    if not golds:
        return _should_abstain(pred, pred_name)
    answer = answer_of(pred)
    said = any(same_wording(gold, answer) for gold in golds)
    right = said and (not abstained(pred) or _only_gold(answer, golds))
    return _judged(right, f"{shortened(answer)} does not say {_one_of(golds)}.", pred, golds, pred_name)


@unless_failed
def choice_accuracy(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """1 when the answer chooses the gold choice, by its label or its text; naming two choices is wrong.

    Reads `example.choices` (see `read_choices`); the gold is a label or the text of a choice.
    """
    choices = read_choices(_required(example, "choices"))
    golds = gold_answers(example)
    wanted = {label for label, text in choices.items() if label in golds or text in golds}
    if not wanted:
        raise ConfigError(f"the gold answer {_one_of(golds)} is none of the choices {listed(list(choices))}")
    answer = answer_of(pred)
    chosen = read_choice(answer, choices)
    label = min(wanted)
    told = f"{label} ({choices[label]})"
    if chosen is None:
        verdict = (
            f"No single choice can be read from {shortened(answer)}; {told} is right. Answer with a label."
        )
    else:
        verdict = f"{chosen} ({choices[chosen]}) was chosen, but {told} is right."
    return _judged(chosen in wanted, verdict, pred, [choices[label]], pred_name)


@unless_failed
def claim_accuracy(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """1 when the answer calls the claim what the gold does: true or false, or a third label such as
    "mixture".

    "The claim is not true", "No" and "REFUTES" all say false; an answer that says both, or neither, is wrong.
    """
    golds = [str(gold) for gold in gold_answers(example)]
    answer = answer_of(pred)
    verdict = read_truth(answer)
    wanted = {read_truth(gold) for gold in golds}
    third = wanted == {None}
    right = contains_answer(answer, golds) if third else verdict is not None and verdict in wanted
    read = "neither true nor false, or both" if verdict is None else str(verdict).lower()
    return _judged(
        right, f"{shortened(answer)} reads as {read}; the claim is {_one_of(golds)}.", pred, (), pred_name
    )


@unless_failed
def grounded(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """How much of the answer the evidence supports, in [0, 1]: the share of its content words found there.

    Words of the question, and words too common to carry content, are not counted. A refusal claims nothing,
    so it is supported. An answer without content words ("yes", "B") is supported when there is any evidence
    at all; a choice's label is read as its text. It does not ask whether the answer is RIGHT: combine it with
    a metric that does.
    """
    answer = answer_of(pred)
    if abstained(pred):
        return Score(score=1.0, feedback="No claim was made, so none is unsupported.")
    choices = field_of(example, "choices")
    if choices:
        labels = read_choices(choices)
        answer = labels.get(read_choice(answer, labels) or "", answer)
    evidence = evidence_of(pred)
    if not evidence:
        return Score(score=0.0, feedback=f"{shortened(answer)} was answered without any evidence.")
    said = {piece for _, text in evidence for piece in phrases(text)}
    asked = {*phrases(str(field_of(example, "question", ""))), *COMMON_WORDS}
    content = [piece for piece in phrases(answer) if piece not in asked]
    missing = [piece for piece in content if piece not in said]
    if not missing:
        return Score(score=1.0, feedback="The evidence has every content word of the answer.")
    return Score(
        score=1 - len(missing) / len(content),
        feedback=f"The evidence does not have {listed(list(dict.fromkeys(missing)))} of {shortened(answer)}: "
        f"say only what the evidence says.",
    )


@unless_failed
def answer_in_evidence(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """1 when some gold answer stands, as whole words, in the evidence: what the best reader could answer.

    Where there is no answer, 1 when there is no evidence. It asks no language model, and says nothing of one.
    """
    golds, kept = gold_answers(example), evidence_of(pred)
    if not golds:
        verdict = f"{len(kept)} texts were kept as evidence, but the documents have no answer."
        return _judged(not kept, verdict, pred, (), pred_name)
    found = any(contains_answer(text, golds) for _, text in kept)
    return _judged(found, f"No text of the evidence contains {_one_of(golds)}.", pred, golds, pred_name)


@unless_failed
def abstention(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """1 when the program declined exactly where there is no answer: `answers` is empty."""
    golds = gold_answers(example)
    if not golds:
        return _should_abstain(pred, pred_name)
    verdict = f"It declined to answer, but there is an answer: {_one_of(golds)}."
    return _judged(not abstained(pred), verdict, pred, golds, pred_name)


@unless_failed
def action_accuracy(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """1 when the right action was taken, 1/2 for AMBIGUOUS where one source would have done.

    The right action is `example.action` when given. Otherwise CORRECT when a retrieved passage is relevant
    and INCORRECT when none is, where relevant means that its id is in `example.relevant_ids` or, without
    those, that it contains a gold answer.
    """
    action = action_of(pred)
    if action is None:
        return Score(score=0.0, feedback="The prediction has no action.")
    wanted, why = _right_action(example, pred)
    if action is wanted:
        return Score(score=1.0, feedback=f"{action.value.upper()} was the right action: {why}.")
    hedged = action is Action.AMBIGUOUS and field_of(example, "action") is None
    return Score(
        score=0.5 if hedged else 0.0,
        feedback=f"The action was {action.value.upper()}, but {wanted.value.upper()} is right: {why}.",
    )


def factscore(
    example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
) -> Score:
    """FActScore of a long answer, judged by the configured language model against the example's own `passages` or
    `context`: see `FactScore`, which takes another judge, another source and another length penalty."""
    from crag_dspy.optimize.metrics.factscore import FactScore

    return FactScore()(example, pred)


# By name, for command lines and configurations.
METRICS: dict[str, Metric] = {
    metric.__name__: metric
    for metric in (
        contains,
        contains_word,
        exact_match,
        token_f1,
        same_answer,
        choice_accuracy,
        claim_accuracy,
        grounded,
        answer_in_evidence,
        abstention,
        action_accuracy,
        factscore,
    )
}


def gold_answers(example: Any) -> list[str]:
    """`example.answers`, or `example.answer` as a list. Raises `ConfigError` when there is neither."""
    for name in ("answers", "answer"):
        value = field_of(example, name)
        if value is not None:
            return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]
    raise ConfigError(
        f"an example needs `answers` (a list; empty when there is no answer) or `answer`, "
        f"got only {_fields(example)}"
    )


def _right_action(example: Any, pred: Any) -> tuple[Action, str]:
    given = field_of(example, "action")
    if given is not None:
        return Action(given), "the example says so"
    passages = passages_of(pred)
    if passages is None:
        raise ConfigError("action_accuracy needs example.action, or a prediction with trace.passages")
    relevant = field_of(example, "relevant_ids")
    if relevant is not None:
        hit = set(map(str, relevant)) & set(ids_of(passages))
        return (
            (Action.CORRECT, f"passage {min(hit)} is relevant")
            if hit
            else (Action.INCORRECT, "no passage is relevant")
        )
    golds = gold_answers(example)
    found = next(
        (gold for text in texts_of(passages) if (gold := found_answer(text, golds)) is not None), None
    )
    if found is not None:
        return Action.CORRECT, f"a passage contains {shortened(found)}"
    return Action.INCORRECT, "no passage contains a gold answer"


def _judged(right: bool, wrong: str, pred: Any, golds: Any, pred_name: Any) -> Score:
    if right:
        return Score(score=1.0, feedback="Right.")
    return Score(score=0.0, feedback=explain(wrong, pred, golds, pred_name))


def _should_abstain(pred: Any, pred_name: Any) -> Score:
    if abstained(pred):
        return Score(score=1.0, feedback="Right: there is no answer, and it said so.")
    verdict = f"{shortened(answer_of(pred))} was answered, but the documents have no answer: say so."
    return Score(score=0.0, feedback=explain(verdict, pred, (), pred_name))


def _only_gold(answer: str, golds: list[str]) -> bool:
    said = normalize(answer)
    return any(said == normalize(gold) and (said or answer.strip() == gold.strip() != "") for gold in golds)


def _one_of(golds: list[str]) -> str:
    return listed(golds) if len(golds) == 1 else f"any of {listed(golds)}"


def _required(example: Any, name: str) -> Any:
    value = field_of(example, name)
    if value is None:
        raise ConfigError(f"an example needs `{name}`, got only {_fields(example)}")
    return value


def _fields(example: Any) -> str:
    return ", ".join(example.keys()) if hasattr(example, "keys") else type(example).__name__
