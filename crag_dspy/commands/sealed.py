"""What a command sets so that README's promises hold for DSPy too; the library never sets it for its caller.

DSPy asks a public address for the prices and limits of models, and its cache of replies on disk is pickled.
"""

from __future__ import annotations

import os

# DSPy reads it (from LiteLLM's days): take the list of models that is installed, and fetch none.
NO_MODEL_LIST = "LITELLM_LOCAL_MODEL_COST_MAP"


def seal_network() -> None:
    """Nothing is fetched but what is configured."""
    os.environ[NO_MODEL_LIST] = "True"


def seal_cache() -> None:
    """Of DSPy's cache on disk, only plain data is read. A cache that somebody configured already stays theirs."""
    import dspy

    if "cache" not in vars(dspy):  # DSPy makes it when it is first read
        dspy.configure_cache(restrict_pickle=True)
