"""A metric is given what it takes: DSPy's own, GEPA's, and the user's."""

import dspy
import pytest

from crag_dspy.optimize.metrics.calling import call_metric
from crag_dspy.optimize.metrics.objective import combine

EXAMPLE = dspy.Example(question="q", answer="Paris", answers=["Paris"]).with_inputs("question")
GIVEN = (EXAMPLE, dspy.Prediction(answer="Paris"), "trace", "generate", "steps")


def test_dspys_own_metric_gets_no_name_for_a_fraction():
    assert call_metric(dspy.evaluate.answer_exact_match, *GIVEN) is True
    assert float(combine([dspy.evaluate.answer_exact_match])(*GIVEN)) == 1.0


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (lambda example, pred: (), ()),
        (lambda example, pred, trace=None: (trace,), ("trace",)),
        (lambda gold, pred, _trace: (_trace,), ("trace",)),
        (lambda example, pred, trace=None, frac=1.0: (trace, frac), ("trace", 1.0)),
        (lambda example, pred, *, pred_name=None: (pred_name,), ("generate",)),
        (lambda example, pred, trace, pred_name, pred_trace: (trace, pred_name, pred_trace), GIVEN[2:]),
        (
            lambda gold, pred, trace=None, pred_trace=None, pred_name=None: (trace, pred_name, pred_trace),
            GIVEN[2:],
        ),
        (lambda gold, pred, a, b, c: (a, b, c), GIVEN[2:]),
        (lambda *given: given[2:], GIVEN[2:]),
        (
            lambda example, pred, trace=None, **named: (trace, named["pred_name"], named["pred_trace"]),
            GIVEN[2:],
        ),
        (lambda example, pred, **named: (named["trace"], named["pred_name"], named["pred_trace"]), GIVEN[2:]),
    ],
)
def test_arguments_go_where_they_belong(metric, expected):
    assert call_metric(metric, *GIVEN) == expected
