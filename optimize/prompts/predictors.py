"""Which predictors of a program an optimizer may change, and how the others are kept from it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import dspy

from crag_dspy.errors import ConfigError
from crag_dspy.state.saving import thawed
from crag_dspy.steps import Grade

# Several predictors under one name, where no predictor has it: how Self-RAG reflects.
GROUPS = {"reflect": ("decide", "relevance", "support", "usefulness")}


class Frozen(dspy.Module):
    """A predictor that is left as it is: it works, and no optimizer sees it."""

    def __init__(self, predictor: dspy.Predict) -> None:
        super().__init__()
        self.predictor = predictor
        self._compiled = True  # DSPy's own mark for what `named_predictors` leaves out

    def forward(self, **inputs: Any) -> Any:
        return self.predictor(**inputs)

    async def aforward(self, **inputs: Any) -> Any:
        return await self.predictor.acall(**inputs)

    def __getattr__(self, name: str) -> Any:
        """Its owner may read the predictor's prompt, demonstrations or language model."""
        predictor = self.__dict__.get("predictor")
        if predictor is None or name.startswith("__"):
            raise AttributeError(name)
        return getattr(predictor, name)


def predictors_of(program: dspy.Module) -> dict[str, dspy.Predict]:
    """Every predictor by its full name: `named_predictors`, and those in sub-modules that were compiled alone."""
    with thawed(program):
        return dict(program.named_predictors())


def choose(program: dspy.Module, wanted: Iterable[str] | None = None) -> list[str]:
    """Full names of the predictors that are meant.

    Args:
        wanted: names such as "rewrite", "generate", "corrective.rewrite". A name means the predictors whose full name
            or last part it is; where there are none, those below the module it names ("generate" for
            "generate.predict"), or those of a group ("reflect", see `GROUPS`). None means all but a grader's: a
            grader with another prompt is another grader, and thresholds do not fit it.

    Raises:
        ConfigError: a name that no predictor has, with those there are.
    """
    known = list(predictors_of(program))
    if not known:
        raise ConfigError(f"{type(program).__name__} has no predictor, so there is nothing to compile")
    if wanted is None:
        graders = {
            id(predictor)
            for _, step in program.named_sub_modules(Grade)
            for predictor in predictors_of(step).values()
        }
        return [
            name for name, predictor in predictors_of(program).items() if id(predictor) not in graders
        ] or known
    chosen = set()
    for name in [wanted] if isinstance(wanted, str) else wanted:
        found = (
            [full for full in known if name in (full, _parts(full)[-1])]
            or [full for full in known if name in _parts(full)]
            or [full for full in known if _parts(full)[-1] in GROUPS.get(name, ())]
        )
        if not found:
            near = difflib.get_close_matches(str(name), {part for full in known for part in _parts(full)}, 1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"no predictor is called {name!r}{hint} There are: {', '.join(known)}")
        chosen.update(found)
    if not chosen:
        raise ConfigError(f"predictors must name at least one of {', '.join(known)}")
    return [full for full in known if full in chosen]


def student_of(program: dspy.Module, names: Sequence[str]) -> dspy.Module:
    """A copy to compile, in which only the predictors `names` can be seen and nothing counts as compiled yet."""
    student = program.deepcopy()
    for _, module in student.named_sub_modules(dspy.Module):
        module._compiled = False
    if isinstance(student, dspy.Predict):
        return student
    left = {id(predictor) for name, predictor in predictors_of(student).items() if name not in names}
    _swap(student, lambda part: Frozen(part) if id(part) in left else part)
    return student


def with_prompts(program: dspy.Module, compiled: dspy.Module, names: Sequence[str]) -> dspy.Module:
    """A copy of `program` with the prompts and demonstrations of `compiled`, and nothing else of it.

    Optimizers leave the programs they tried on the one they return, reset its language models and mark it as compiled,
    upon which DSPy leaves its state out of the file of a program that contains it.

    Raises:
        ConfigError: the optimizer returned a program of another structure.
    """
    made = program.deepcopy()
    made._compiled = False
    old, new = predictors_of(made), predictors_of(compiled)
    for name in names:
        if name not in new:
            raise ConfigError(
                f"the optimizer returned a program without the predictor {name!r}: only optimizers of prompts and "
                f"demonstrations can be used here"
            )
        old[name].signature = new[name].signature
        old[name].demos = new[name].demos
    for name, predictor in predictors_of(program).items():
        old[name].lm = predictor.lm  # itself, where deepcopy made a copy
    return made


def prompts_of(program: dspy.Module) -> dict[str, Any]:
    """Instructions, fields and demonstrations by predictor, as plain data: what an optimizer may have changed."""
    return {
        name: {
            "signature": predictor.signature.dump_state(),
            "demos": [dict(demo) for demo in predictor.demos],
        }
        for name, predictor in predictors_of(program).items()
    }


def with_models_of(program: dspy.Module, other: dspy.Module | None) -> dspy.Module:
    """A copy whose predictors have the language models of those of `other`; none of their own when that is None."""
    made = program.deepcopy()
    models = {} if other is None else {name: predictor.lm for name, predictor in predictors_of(other).items()}
    for name, predictor in predictors_of(made).items():
        predictor.lm = models.get(name)
    return made


def _swap(program: dspy.Module, change: Callable[[Any], Any]) -> None:
    """Replace modules wherever they are held: in attributes, lists, tuples and dicts. A part held twice stays one."""
    made: dict[int, Any] = {}

    def swapped(value: Any) -> Any:
        if isinstance(value, dspy.Module):
            if id(value) not in made:
                made[id(value)] = change(value)
            return made[id(value)]
        if isinstance(value, (list, tuple)) and _holds_modules(value):
            return type(value)(map(swapped, value))
        if isinstance(value, dict) and _holds_modules(value.values()):
            return {key: swapped(item) for key, item in value.items()}
        return value

    for _, module in list(program.named_sub_modules(dspy.Module)):
        if isinstance(module, (Frozen, dspy.Predict)):
            continue
        for name, value in list(vars(module).items()):
            if name not in ("history", "callbacks"):
                new = swapped(value)
                if new is not value and not _same(new, value):
                    setattr(module, name, new)


def _same(new: Any, old: Any) -> bool:
    """Whether a rebuilt container holds the very same parts, so that it need not be replaced."""
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return all(_same(new[key], old[key]) for key in old)
    if isinstance(new, (list, tuple)):
        return all(_same(a, b) for a, b in zip(new, old, strict=True))
    return new is old


def _holds_modules(items: Iterable[Any]) -> bool:
    return any(isinstance(item, (dspy.Module, list, tuple, dict)) for item in items)


def _parts(name: str) -> list[str]:
    return [part for part in re.split(r"[.\[\]']+", name) if part]
