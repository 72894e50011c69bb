"""Saving and loading a program's state: DSPy's JSON file, made safe to write, to read and to share.

The file holds prompts, demonstrations and settings, never live parts and never secrets; whoever loads it brings the
retriever, the grader and the keys. Reading it either succeeds or leaves the program as it was, with an error that
names the file and the field.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import dspy
from dspy.utils.saving import get_dependency_versions

from crag_dspy.errors import StateError
from crag_dspy.live.keys import SECRET_NAME
from crag_dspy.state.files import replacing
from crag_dspy.state.tunable import Tunable

log = logging.getLogger(__name__)


class Saved(dspy.Module):
    """A module whose `save` and `load` keep DSPy's format and its promises under bad files and killed processes."""

    def save(self, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Write the state as JSON. A process killed meanwhile leaves the old file, not half a new one.

        Raises:
            StateError: the folder does not exist.
            OSError: the disk is full, or nobody may write there.
        """
        target = Path(path)
        if target.suffix != ".json":  # a folder for `save_program=True`: DSPy's own, and its own warnings
            super().save(target, *args, **kwargs)
            return
        if not target.parent.is_dir():
            raise StateError(f"cannot save {target}: there is no folder {target.parent}")
        with replacing(target) as part, honest_about_the_disk():
            super().save(part, *args, **kwargs)

    def load(self, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Self:
        """Read what `save` wrote, and return the program.

        Args:
            path: the JSON file.
            allow_unsafe_lm_state: as in DSPy: keep endpoints and custom engines of a saved language model. Only for
                files that you trust.

        Raises:
            StateError: naming the file and the field; the program is then unchanged.
        """
        source = Path(path)
        if source.suffix != ".json":
            super().load(source, *args, **kwargs)
            return self
        try:
            state = json.loads(source.read_text(encoding="utf-8"))
        except OSError as error:
            raise StateError(f"cannot read {source}: {error.strerror}") from error
        except ValueError as error:  # not UTF-8, or not JSON
            raise StateError(
                f"{source} is not a complete JSON file: {error}. Save the program again"
            ) from error
        if not isinstance(state, dict):
            raise StateError(f"{source} holds a {type(state).__name__}, not a saved program")
        _tell_versions(source, state.pop("metadata", None))
        kwargs.pop("allow_pickle", None)
        try:
            self.load_state(state, *args, **kwargs)
        except StateError as error:
            raise StateError(f"{source}: {error}") from error
        for _, module in self.named_sub_modules(Saved):
            if mismatch := module.grader_mismatch():
                log.warning("%s: %s", source, mismatch)
        return self

    def grader_mismatch(self) -> str | None:
        """Why the loaded thresholds do not fit the grader in use; None when they do, or when there are none."""
        return None

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """The state by parameter name, without secrets."""
        with thawed(self):
            state: dict[str, Any] = super().dump_state(json_mode=json_mode)
        return {name: _without_secrets(part) for name, part in state.items()}

    def load_state(self, state: Mapping[str, Any], *, allow_unsafe_lm_state: bool = False) -> None:
        """Read what `dump_state` gave. Settings that an older file lacks stay as they are.

        Raises:
            StateError: naming the field; the program is then unchanged.
        """
        with thawed(self):
            checked = _checked(dict(self.named_parameters()), state)
            try:
                super().load_state(checked, allow_unsafe_lm_state=allow_unsafe_lm_state)
            except StateError:
                raise
            except Exception as error:
                raise StateError(f"the saved state does not fit this program: {error}") from error


def _checked(parameters: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with a part for every parameter, or an error that says which part is wrong."""
    if not isinstance(state, Mapping):
        raise StateError(f"a state must be a mapping, got {type(state).__name__}")
    unknown = sorted(set(state) - set(parameters) - {"metadata"})
    missing = sorted(
        name
        for name, parameter in parameters.items()
        if name not in state and not isinstance(parameter, Tunable)
    )
    if missing or unknown:
        parts = [f"it lacks {', '.join(missing)}"] if missing else []
        parts += [f"it has {', '.join(map(str, unknown))}, which this program has not"] if unknown else []
        raise StateError(
            f"saved from another program: {' and '.join(parts)}. Build the program as it was built when it was saved "
            f"(same class, same generate=)"
        )
    checked = {}
    for name, parameter in parameters.items():
        if name not in state:
            checked[name] = parameter.dump_state()
        elif isinstance(parameter, dspy.Predict):
            checked[name] = _checked_predictor(name, parameter, state[name])
        elif not isinstance(state[name], Mapping):
            raise StateError(f"{name} must be an object, got {state[name]!r}")
        else:
            checked[name] = state[name]
    return checked


def _checked_predictor(name: str, predictor: dspy.Predict, state: Any) -> dict[str, Any]:
    if not isinstance(state, Mapping):
        raise StateError(f"{name} must be an object, got {state!r}")
    signature = state.get("signature")
    if not isinstance(signature, Mapping) or not isinstance(signature.get("instructions"), str):
        raise StateError(f"{name}.signature.instructions must be a text: is this file a saved program?")
    fields = signature.get("fields")
    known = list(predictor.signature.fields)
    if not isinstance(fields, list) or len(fields) != len(known):
        found = len(fields) if isinstance(fields, list) else repr(fields)
        raise StateError(
            f"{name}.signature.fields must have {len(known)} fields ({', '.join(known)}), got {found}"
        )
    for field, saved in zip(known, fields, strict=True):
        texts = isinstance(saved, Mapping) and all(
            isinstance(saved.get(key), str) for key in ("prefix", "description")
        )
        if not texts:
            raise StateError(
                f"{name}.signature.fields ({field}) must have a prefix and a description, got {saved!r}"
            )
    demos = state.get("demos", [])
    if not isinstance(demos, list) or not all(isinstance(demo, Mapping) for demo in demos):
        raise StateError(f"{name}.demos must be a list of objects")
    lm = state.get("lm")
    if lm is not None and not isinstance(lm, Mapping):
        raise StateError(f"{name}.lm must be an object or null, got {lm!r}")
    return {"traces": [], "train": [], **state, "demos": demos, "lm": lm}


def _without_secrets(part: Any) -> Any:
    lm = part.get("lm") if isinstance(part, Mapping) else None
    if not isinstance(lm, Mapping):
        return part
    # DSPy leaves `api_key` out of a saved language model; other providers call their secrets otherwise.
    return {**part, "lm": {name: value for name, value in lm.items() if not SECRET_NAME.search(name)}}


def save_whole(program: dspy.Module, path: Path) -> None:
    """Any program's `save` of a JSON file, whole or not at all. Raises OSError as `Saved.save` does."""
    if isinstance(program, Saved):
        program.save(path)
        return
    with replacing(path) as part, honest_about_the_disk():
        program.save(str(part))


@contextmanager
def honest_about_the_disk() -> Iterator[None]:
    """DSPy says of every failure that the program cannot be JSON: a full disk is raised as what it is."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


@contextmanager
def thawed(module: dspy.Module) -> Iterator[None]:
    """DSPy leaves the state of a sub-module that was compiled on its own out of the whole's: here it is kept."""
    frozen = [sub for _, sub in module.named_sub_modules(dspy.Module) if getattr(sub, "_compiled", False)]
    for sub in frozen:
        sub._compiled = False
    try:
        yield
    finally:
        for sub in frozen:
            sub._compiled = True


def _tell_versions(source: Path, metadata: Any) -> None:
    saved = metadata.get("dependency_versions") if isinstance(metadata, Mapping) else None
    if not isinstance(saved, Mapping):
        return
    for name, version in get_dependency_versions().items():
        if name in saved and saved[name] != version:
            log.warning("%s was saved with %s %s, this is %s", source, name, saved[name], version)
