"""In which numbers a grader computes, and which are fastest here.

"fp32" is exact. "bf16" is half the memory, and faster where the processor multiplies it natively: AVX512-BF16
and AMX on x86, and every GPU since Ampere. "int8" quantises activations as they come (CPU only) and needs
AVX512-VNNI to be fast. fp16 is not offered: T5 overflows in it. "auto" is bf16 where it is native, else fp32.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from crag_dspy.errors import ConfigError

Precision = Literal["auto", "fp32", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def prepare(scorer: Any, device: str, precision: Precision) -> tuple[Any, Literal["fp32", "bf16", "int8"]]:
    """Move a scorer to a device and a precision. The head stays in fp32: it is small, and all hangs on it."""
    import torch

    chosen = native(device) if precision == "auto" else precision
    if chosen == "int8":
        if device != "cpu":
            raise ConfigError(f"precision int8 runs on the CPU only, got device={device!r}: use bf16 there")
        from crag_dspy.graders.int8_linear import use_int8

        use_int8(scorer.backbone)
    elif chosen == "bf16":
        scorer.backbone.to(torch.bfloat16)
    return scorer.to(device), chosen


def native(device: str) -> Literal["fp32", "bf16"]:
    """bf16 where the hardware multiplies it faster than fp32, else fp32."""
    import torch

    if device.startswith("cuda"):
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    if device != "cpu":
        return "fp32"
    # Private in torch, and absent in some builds: without them the answer is the exact one.
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return "bf16" if any(getattr(torch.cpu, check, lambda: False)() for check in checks) else "fp32"
