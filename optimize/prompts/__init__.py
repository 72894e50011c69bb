"""Compiling prompts with DSPy's optimizers."""
