"""When a language model that should propose an instruction gives none, the present one is proposed.

MIPROv2 and COPRO end with an exception when a single proposal cannot be read, after everything else was paid for.
Small models give such replies often.
"""

from __future__ import annotations

import logging
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

log = logging.getLogger(__name__)

_PRESENT, _PROPOSED = "basic_instruction", "proposed_instruction"


class PresentInstruction(dspy.Adapter):
    """An adapter that answers an unreadable proposal itself; everything else is the adapter's that it is around."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def __call__(
        self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = self.inner(
                lm, lm_kwargs=lm_kwargs, signature=signature, demos=demos, inputs=inputs
            )
        except AdapterParseError:
            if _PRESENT not in inputs or _PROPOSED not in signature.output_fields:
                raise
            log.info("a proposed instruction could not be read: the present one stands for it")
            blank = dict.fromkeys(signature.output_fields, "")
            return [{**blank, _PROPOSED: str(inputs[_PRESENT])}]
        return found

    async def acall(
        self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.inner.acall(
            lm, lm_kwargs=lm_kwargs, signature=signature, demos=demos, inputs=inputs
        )
        return found

    def format(self, signature: Any, demos: Any, inputs: dict[str, Any]) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = self.inner.format(signature, demos, inputs)
        return made

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        found: dict[str, Any] = self.inner.parse(signature, completion)
        return found
