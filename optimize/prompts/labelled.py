"""Demonstrations from gold answers, without calling a language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from crag_dspy.optimize.prompts.dry_run import without_models
from crag_dspy.optimize.prompts.predictors import predictors_of
from crag_dspy.text.matching import contains_answer


def labelled_demos(
    program: dspy.Module, examples: Sequence[dspy.Example], names: Sequence[str]
) -> dict[str, list[dspy.Example]]:
    """Demonstrations made of what each predictor would be given, and the gold answer as what it should say.

    The context is the program's own: a demonstration without context would teach to answer without one. Examples whose
    evidence does not have the gold answer, and predictors whose outputs the examples do not label (a query, a verdict),
    get none.
    """
    made: dict[str, list[dspy.Example]] = {name: [] for name in names}
    with without_models(program) as (copy, _):
        homes = {id(predictor): name for name, predictor in predictors_of(copy).items()}
        for example in examples:
            with dspy.context(trace=[]):
                try:
                    copy(**example.inputs())
                except Exception:  # noqa: BLE001 - a question that cannot be run makes no demonstration
                    continue
                steps = list(dspy.settings.trace)
            for predictor, inputs, _ in steps:
                name = homes.get(id(predictor))
                demo = _demo(predictor, inputs, example) if name in made else None
                if demo is not None:
                    made[str(name)].append(demo)
    return made


def _demo(predictor: dspy.Predict, inputs: dict[str, Any], example: dspy.Example) -> dspy.Example | None:
    answers = example.get("answers")
    if isinstance(answers, (list, tuple)):
        if not answers:
            return None
        labels = {"answer": str(answers[0]), **example.labels().toDict()}
    else:
        labels = example.labels().toDict()
        answers = [str(labels["answer"])] if "answer" in labels else []
    outputs = {name: labels[name] for name in predictor.signature.output_fields if name in labels}
    if not outputs:
        return None
    context = inputs.get("context")
    if (
        context is not None
        and answers
        and not contains_answer(str(context), [str(answer) for answer in answers])
    ):
        return None
    return dspy.Example(augmented=True, **inputs, **outputs)
