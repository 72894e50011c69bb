"""How fast a T5 grader is here (`crag-dspy grader time`).

The yardstick is the loop of the official CRAG code on the same weights: one pair at a time, padded to 512
tokens. Beside the pairs a second stands the share of this machine's own matrix-multiply rate, so that a
figure from one machine means something on another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crag_dspy.errors import ConfigError
from crag_dspy.state.arguments import check_whole

if TYPE_CHECKING:
    from crag_dspy.graders.t5 import T5Grader

PADDED = 512
PRECISIONS = ("fp32", "bf16", "int8")


@dataclass(frozen=True, slots=True)
class Timing:
    """One way to score the same pairs on the CPU.

    Args:
        way: "official loop" or "T5Grader".
        times_official: how many times the official loop's rate.
        difference: largest distance of a raw logit from the official loop's; None for the loop itself.
        auc: of these pairs, where they have both labels.
        of_matmul: floating point operations of the model a second, as a share of what a plain matrix product
            of the model's sizes reaches here in the same precision; None for int8, which has no such product
            to compare with.
    """

    way: str
    precision: str
    pairs_per_second: float
    times_official: float
    difference: float | None
    auc: float | None
    of_matmul: float | None


def time_grader(
    source: str,
    pairs: Sequence[tuple[str, str]],
    labels: Sequence[int] = (),
    *,
    official: int = 32,
    precisions: Sequence[str] = PRECISIONS,
) -> list[Timing]:
    """Time the official loop on the first `official` pairs, and T5Grader on all, in each precision.

    Each timing starts with a grader that has seen none of the pairs, so nothing it keeps between calls helps
    it.
    """
    check_whole("official", official)
    if not pairs:
        raise ConfigError("there are no pairs to time")
    exact = _fresh(source, "fp32")
    some = pairs[:official]
    _official_loop(exact, some[:2])
    reference, seconds = _timed(lambda: _official_loop(exact, some))
    rate = len(some) / seconds
    rows = [Timing("official loop", "fp32", rate, 1.0, None, None, None)]
    for precision in precisions:
        grader = _fresh(source, precision)
        grader.raw_pairs([("what is it ?", "it is a text to warm up with")] * 2)
        raws, seconds = _timed(lambda: grader.raw_pairs(pairs))  # noqa: B023 - called in this turn of the loop
        near = [abs(a - b) for a, b in zip(raws, reference, strict=False) if a is not None and b is not None]
        rows.append(
            Timing(
                way="T5Grader",
                precision=precision,
                pairs_per_second=len(pairs) / seconds,
                times_official=len(pairs) / seconds / rate,
                difference=max(near, default=None),
                auc=_auc(labels, raws),
                of_matmul=_operations(source, precision, pairs) / seconds / _matmul_rate(grader, precision)
                if precision != "int8"
                else None,
            )
        )
    return rows


def _fresh(source: str, precision: Any) -> T5Grader:
    from crag_dspy.graders.loading import open_grader
    from crag_dspy.graders.t5 import T5Grader

    return T5Grader(open_grader(source), device="cpu", precision=precision)


def _official_loop(grader: T5Grader, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
    """One pair at a time, its input padded to 512 tokens; None for a pair that needs more than one window."""
    import torch

    from crag_dspy.graders.batches import collate

    raws: list[float | None] = []
    with torch.inference_mode():
        for pair in pairs:
            windows = grader.encoder.inputs(*grader.encoder.pieces(pair))
            batch = collate(windows[:1])
            missing = PADDED - batch["input_ids"].shape[1]
            padded = {name: torch.nn.functional.pad(part, (0, missing)) for name, part in batch.items()}
            raw = float(grader.scorer(**padded)[0])
            raws.append(raw if len(windows) == 1 else None)
    return raws


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def _auc(labels: Sequence[int], raws: Sequence[float | None]) -> float | None:
    from crag_dspy.evaluator_train.measuring.ranking import auc

    known = [(label, raw) for label, raw in zip(labels, raws, strict=False) if raw is not None]
    if len({label for label, _ in known}) < 2:
        return None
    return float(auc([label for label, _ in known], [raw for _, raw in known]))


def _operations(source: str, precision: str, pairs: Sequence[tuple[str, str]]) -> float:
    """Floating point operations of one pass over the pairs, padding included."""
    from torch.utils.flop_counter import FlopCounterMode

    grader = _fresh(source, precision)
    with FlopCounterMode(display=False) as counter:
        grader.raw_pairs(pairs)
    return float(counter.get_total_flops())


def _matmul_rate(grader: T5Grader, precision: str) -> float:
    """Operations a second of a plain product with the sizes of the model's largest layer."""
    import torch

    config = grader.scorer.backbone.config
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    left, right = (
        torch.randn(1024, config.d_model).to(dtype),
        torch.randn(config.d_model, config.d_ff).to(dtype),
    )
    with torch.inference_mode():
        for _ in range(5):
            left @ right
        repeats = 50
        _, seconds = _timed(lambda: [left @ right for _ in range(repeats)])
    return float(2 * 1024 * config.d_model * config.d_ff * repeats / seconds)
