"""What compiling is asked for, once, for `compile_program`, `estimate` and the command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dspy

from crag_dspy.optimize.prompts.optimizers import check_optimizer
from crag_dspy.optimize.questions.groups import By
from crag_dspy.state.arguments import check_number, check_whole


@dataclass(frozen=True, kw_only=True)
class CompileArguments:
    """How to compile. `dataclasses.replace` makes another one of it.

    Attributes:
        optimizer: a name in `optimizers.OPTIMIZERS`, or DSPy's name of it, sized to the budget; or a DSPy optimizer of
            your own, used as it is on the same data.
        predictors: which may change, by name ("rewrite", "generate", "reflect"); see `predictors.choose`. The others
            work, and stay as they are.
        valset, heldout: examples to choose candidates by, and to be judged on; taken out of the trainset when None.
        by: what tells documents apart, which stay whole when examples are divided; see `questions.groups_of`.
        budget: LM calls in all, those of judges and teachers included; one beyond is refused. The optimizer is sized to
            two thirds of it, whatever the number of held-out questions, and the judging must fit into the rest.
        options: arguments of the optimizer or of its `compile`: `{"max_bootstrapped_demos": 2}`.
        prompt_lm: proposes instructions (MIPROv2, GEPA, SIMBA, COPRO); None for the configured model.
        alternate: compile prompts and search thresholds in turns until neither improves (`CRAG` and its like).
        run: a folder for what comes out; a run that was killed goes on there.
        seed: of the division, of the order of examples, and of the optimizer where it has one.
        threads: questions at a time; None for DSPy's setting.
        level: of the intervals and of the test that decides.
        progress: bars on stderr while judging; None shows them on a terminal only. DSPy's optimizers write theirs to
            stdout.
        fresh: throw away what `run` has.

    Raises:
        ConfigError: a value out of range.
    """

    optimizer: Any = "bootstrap"
    predictors: Iterable[str] | None = None
    valset: Sequence[dspy.Example] | None = None
    heldout: Sequence[dspy.Example] | None = None
    by: By | None = None
    budget: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    prompt_lm: Any = None
    alternate: bool = False
    run: str | Path | None = None
    seed: int = 0
    threads: int | None = None
    level: float = 0.95
    progress: bool | None = None
    fresh: bool = False

    def __post_init__(self) -> None:
        if self.budget is not None:
            check_whole("budget", self.budget)
        check_whole("seed", self.seed, 0, 2**32 - 1)
        check_number("level", self.level, 0.5, 0.9999)
        check_optimizer(self.optimizer)
        object.__setattr__(self, "options", dict(self.options or {}))

    @property
    def folder(self) -> Path | None:
        return Path(self.run).expanduser() if self.run is not None else None
