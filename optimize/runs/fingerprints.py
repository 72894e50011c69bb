"""What an answer depends on, named part by part, so that a stored one can say why it no longer holds.

An identity is a flat mapping from a name ("prompt generate", "settings.top_n", "part corrective.grade") to a short
text. Two runs give the same answers when their identities agree, and where they differ the names say what changed.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import dspy
from dspy.predict.parameter import Parameter

from crag_dspy.optimize.metrics.objective import Objective, metric_name
from crag_dspy.optimize.runs.own_metrics import own_identity
from crag_dspy.settings import Settings

# Settings that only choose among actions: what each action answers does not depend on them.
DECISION_SETTINGS = (
    "upper",
    "lower",
    "policy",
    "actions",
    "evidence_threshold",
    "grader",
    "grader_fingerprint",
)

# How long an answer may take is no part of what it says.
TIME_LIMIT = "time_limit"

# What programs of versions before did not have, and what does the same as not having it.
_ADDED = {
    "part search": "None",
    "part web_results": "5",
    # An answer that is checked is the same answer, unless the settings hold it back.
    "part check": "None",
    "part check.part": "SignalsCheck",
    "settings.answer_threshold": str(Settings.answer_threshold),
    "settings.on_unsupported": "flag",
}

# Of a language model's arguments, those that change what it says. Never its key or address.
_LM_ARGUMENTS = (
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "max_completion_tokens",
    "stop",
    "seed",
    "n",
    "frequency_penalty",
    "presence_penalty",
    "reasoning_effort",
)


def digest(data: Any) -> str:
    """16 hexadecimal digits of SHA-256 over canonical JSON; what is not JSON counts by its type's name."""
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, default=lambda item: type(item).__qualname__)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def example_key(example: dspy.Example) -> str:
    """The identity of an example: all its fields. Another gold answer makes another example."""
    return digest([sorted(example.inputs().keys()), example.toDict()])


def devset_digest(devset: Iterable[dspy.Example]) -> str:
    return digest([example_key(example) for example in devset])


def program_identity(program: dspy.Module, *, decisions: bool = True) -> dict[str, str]:
    """Everything in a program, and the models it would call now, that changes its answers.

    Args:
        decisions: False leaves out what only decides between actions (thresholds, policy), as outcomes of
            forced actions do not depend on it.

    Raises:
        ConfigError: the thresholds cross.
    """
    identity: dict[str, str] = {"program": f"{type(program).__module__}.{type(program).__qualname__}"}
    adapter = dspy.settings.adapter
    identity["adapter"] = "default" if adapter is None else type(adapter).__qualname__
    if dspy.settings.rm is not None:  # what a retriever of None asks
        identity["rm"] = str(_part(dspy.settings.rm))
    for name, predictor in program.named_predictors():
        # Not dump_state(), which also dumps the language model: one with an engine of its own cannot be
        # saved.
        demos = [dict(demo) for demo in predictor.demos]
        identity[f"prompt {name}"] = digest([predictor.signature.dump_state(), demos])
        identity[f"lm {name}"] = _language_model(predictor.lm or dspy.settings.lm)
    for name, parameter in program.named_parameters():
        if isinstance(parameter, Settings):
            _ = (
                parameter.thresholds
            )  # set one after the other they may cross: told here, before any question is asked
            for field, value in parameter.to_json().items():
                if field != TIME_LIMIT and (decisions or field not in DECISION_SETTINGS):
                    identity[f"settings.{field}"] = str(value)
        elif isinstance(parameter, Parameter) and not isinstance(parameter, dspy.Predict):
            identity[f"parameter {name}"] = digest(_state(parameter))
    for name, module in program.named_sub_modules():
        if isinstance(module, dspy.Predict):
            continue
        place = name.removeprefix("self").lstrip(".")
        for attribute, value in vars(module).items():
            if not attribute.startswith("_") and attribute not in ("callbacks", "history"):
                described = _part(value)
                if described is not None:
                    identity[f"part {place}.{attribute}" if place else f"part {attribute}"] = described
    return identity


def metric_identity(metric: Callable[..., Any], name: str = "") -> dict[str, str]:
    """A metric by its name and source; a combination by its parts and weights. Prices are not part of it:
    they are applied to stored outcomes.
    """
    if isinstance(metric, Objective):
        return {
            f"metric {metric_name(part)}": f"{_source(part)} x {weight:g}" for part, weight in metric.parts
        }
    return {f"metric {name or metric_name(metric)}": _source(metric)}


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What differs, one entry a name, in words."""
    said = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old != new and not (old is None and _ADDED.get(name) == new):
            said.append(f"{name} ({old or 'absent'} -> {new or 'absent'})")
    return said


def _language_model(lm: Any) -> str:
    if lm is None:
        return "none"
    given = getattr(lm, "kwargs", None) or {}
    arguments = {name: given[name] for name in _LM_ARGUMENTS if given.get(name) is not None}
    shown = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return f"{getattr(lm, 'model', type(lm).__qualname__)}({shown})"


def _part(value: Any) -> str | None:
    """A live part by its fingerprint, plain data by its value; None for modules, which are walked by
    themselves."""
    if isinstance(value, (dspy.Module, Parameter)):
        return None
    if value is None or isinstance(value, (str, int, float, bool)):
        return repr(value)
    fingerprint = _fingerprint(value)
    name = getattr(value, "name", None)
    called = name if isinstance(name, str) else getattr(value, "__qualname__", type(value).__qualname__)
    return f"{called}@{fingerprint}" if fingerprint else str(called)


def part_identity(part: Any) -> str:
    """A live part, such as a retriever, in one line: its name, and its fingerprint where it has one."""
    return _part(part) or type(part).__qualname__


def _fingerprint(part: Any) -> str:
    """A part's own fingerprint, or that of what it wraps: its source when it is a function, or the passages
    it holds.

    "" when there is none: the part then counts by its name.
    """
    for inner in (part, *(getattr(part, name, None) for name in ("index", "source"))):
        found = getattr(inner, "fingerprint", None)
        if isinstance(found, str) and found:
            return found
        if inspect.isfunction(inner):
            return _source(inner)
    passages = getattr(part, "passages", None) or getattr(getattr(part, "index", None), "passages", None)
    if isinstance(passages, (list, tuple)):
        return digest([[getattr(item, "id", ""), getattr(item, "text", str(item))] for item in passages])
    return ""


def _state(parameter: Any) -> Any:
    dump = getattr(parameter, "dump_state", None)
    if dump is None:
        return type(parameter).__qualname__
    accepts = "json_mode" in inspect.signature(dump).parameters
    state = dump(json_mode=True) if accepts else dump()
    return (
        {name: value for name, value in state.items() if name != TIME_LIMIT}
        if isinstance(state, Mapping)
        else state
    )


def _source(metric: Callable[..., Any]) -> str:
    """A digest of the source, so that an edited metric is another one; of the name where there is no source. The
    library's own have declared ones.
    """
    if (declared := own_identity(metric)) is not None:
        return declared
    name = f"{getattr(metric, '__module__', '')}.{getattr(metric, '__qualname__', type(metric).__qualname__)}"
    target = metric if inspect.isroutine(metric) else type(metric)
    try:
        return digest([name, inspect.getsource(target), _plain_attributes(metric)])
    except (OSError, TypeError):
        return digest([name, _plain_attributes(metric)])


def _plain_attributes(metric: Callable[..., Any]) -> dict[str, Any]:
    """The settings of a metric that is an object: two thresholds of one class are two metrics."""
    if inspect.isroutine(metric):
        return {}
    values = getattr(metric, "__dict__", {})
    return {name: value for name, value in values.items() if isinstance(value, (str, int, float, bool, list))}
