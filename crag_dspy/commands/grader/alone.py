"""Graders outside a program, where no language model is configured."""


def alone(name: str) -> str:
    """`lm` is the model in this process here, and so is `strips:lm`."""
    return f"{name}:local" if name.rpartition("strips:")[2] == "lm" else name
