"""What improves a program and measures it. Names are imported when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_dspy.live.lazy_names import lazy_names

if TYPE_CHECKING:
    from crag_dspy.optimize.comparison.comparing import compare
    from crag_dspy.optimize.prompts.compiling import compile_program
    from crag_dspy.optimize.runs.evaluation import evaluate
    from crag_dspy.optimize.thresholds.search import search_thresholds
    from crag_dspy.optimize.thresholds.settings_grid import grid

_HOMES = {
    "compare": "comparison.comparing",
    "compile_program": "prompts.compiling",
    "evaluate": "runs.evaluation",
    "grid": "thresholds.settings_grid",
    "search_thresholds": "thresholds.search",
}

__all__ = ["compare", "compile_program", "evaluate", "grid", "search_thresholds"]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
