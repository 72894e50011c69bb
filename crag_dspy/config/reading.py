"""`crag.toml`: which live parts a program has, and its settings.

    [retriever]
    kind = "local"                # weaviate, python:my_package.search:retrieve
    path = "my-index"             # relative to this file

    [grader]
    source = "mini"               # kind = "t5"; embedding, lm

    [search]
    kind = "tavily"               # index; without the table there is no web search

    [lm]
    model = "openai/gpt-4o-mini"  # kind = "dspy"; local

    [settings]
    k = 10                        # fields of `Settings`

Keys are read from the environment and nowhere else: a key in the file is refused, `key_env` names another variable.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import ValidationError

from crag_dspy.config.parts import DEFAULT_KINDS, KINDS, Part, make_adapter
from crag_dspy.errors import ConfigError
from crag_dspy.live.keys import SECRET_NAME

if TYPE_CHECKING:
    from crag_dspy.crag import CRAG

# What providers' keys look like, whatever they are called here.
_SECRET_VALUE = re.compile(
    r"\b(?:sk-|pk-|tvly-|gsk_|xai-|hf_|ghp_|github_pat_|AIza|AKIA|eyJ|Bearer )(?=[\w.-]*\d)[\w.-]{12,}"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEX = re.compile(r"(?=.*\d)[0-9A-Fa-f]{32,}")
# Hexadecimal, or letters and digits without a break: nobody calls a variable so.
_NO_NAME = re.compile(r"[0-9A-Fa-f]{16,}|(?=[^_]*\d)[A-Za-z0-9]{20,}")
_FIX = "keys come from the environment only: set the variable, and name it with key_env if it is not the usual one"


@dataclass(frozen=True)
class Config:
    """A checked configuration. Nothing is open yet: `build` does that.

    Attributes:
        path: the file; None when there is none.
        parts: table name -> part, of the tables that are there.
        settings: fields of `Settings` to change.
        program: a saved program to load, before `settings` are applied; None for a new one.
    """

    path: Path | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    program: Path | None = None


def load_config(path: str | Path) -> Config:
    """Read and check a file; relative paths in it are relative to its folder.

    Raises:
        ConfigError: naming file, table and key; an unknown key with the nearest valid one.
    """
    path = Path(path)
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror or error}") from error
    except ValueError as error:  # TOML and UTF-8
        raise ConfigError(f"{path}: not TOML: {error}") from error
    return read_config(plain, path)


def read_config(plain: Mapping[str, Any], path: Path) -> Config:
    """The same for a file that was parsed already."""
    from crag_dspy.settings import Settings

    tables = [*KINDS, "settings", "program"]
    _refuse_secrets(plain, path, ())
    for name, value in plain.items():
        if name not in tables:
            raise ConfigError(f"{path}: unknown table [{name}]{_nearest(name, tables)}")
        if not isinstance(value, str if name == "program" else dict):
            wanted = "the path of a saved program" if name == "program" else f"a table: write [{name}]"
            raise ConfigError(f"{path}: {name} must be {wanted}, got {value!r}")
    settings = dict(plain.get("settings", {}))
    try:
        Settings().update(settings)
    except ConfigError as error:
        raise ConfigError(f"{path}: [settings] {error}") from error
    program = plain.get("program")
    return Config(
        path=path,
        parts={name: _part(name, plain[name], path) for name in KINDS if name in plain},
        settings=settings,
        program=None if program is None else path.parent / Path(program).expanduser(),
    )


def build(config: Config, *, program: str | Path | None = None) -> CRAG:
    """The program of a configuration, with its parts open.

    Args:
        program: a saved program; its prompts and settings replace those of the configuration.

    Raises:
        ConfigError: naming file and table of the part that cannot be made.
    """
    from crag_dspy.crag import CRAG

    parts = {name: build_part(config, name) for name in ("retriever", "grader", "search", "generate")}
    grader = "mini" if parts["grader"] is None else parts["grader"]
    try:
        crag = CRAG(parts["retriever"], grader, parts["search"], generate=parts["generate"])
    except TypeError as error:  # an object of python: that is no such part
        raise ConfigError(f"{config.path or 'configuration'}: {error}") from error
    if config.program is not None:
        load_program(crag, config.program)
    crag.settings.update(config.settings)
    if program is not None:
        load_program(crag, program)
    return crag


def build_part(config: Config, table: str) -> Any:
    """The live part of one table, None when the table is not there. Raises ConfigError, naming file and table."""
    part = config.parts.get(table)
    if part is None:
        return None
    try:
        return part.make()
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{config.path or 'configuration'}: [{table}] {error}") from error


@contextmanager
def language_model(config: Config) -> Iterator[Any]:
    """The language model of [lm], and its adapter, for what runs inside; without the table, DSPy's own settings."""
    import dspy

    part = config.parts.get("lm")
    if part is None:
        yield dspy.settings.lm
        return
    lm = build_part(config, "lm")
    adapter = make_adapter(getattr(part, "adapter", None))
    with dspy.context(lm=lm, **({} if adapter is None else {"adapter": adapter})):
        yield lm


def load_program(crag: CRAG, path: str | Path) -> None:
    """Load a saved program into `crag`. Raises ConfigError when there is no such file."""
    if not Path(path).is_file():
        raise ConfigError(
            f"no saved program {path}: program.save({str(path)!r}) or `crag-dspy compile` writes one"
        )
    crag.load(str(path))


def _part(table: str, plain: Mapping[str, Any], path: Path) -> Part:
    kind = plain.get("kind", DEFAULT_KINDS.get(table))
    kinds = KINDS[table]
    name = kind.split(":", 1)[0] if isinstance(kind, str) and kind.startswith("python:") else kind
    if not isinstance(name, str) or name not in kinds or kind == "python":
        shown = ", ".join("python:package.module:attribute" if k == "python" else k for k in kinds)
        got = "got none" if kind is None else f"got {kind!r}{_nearest(kind, list(kinds))}"
        raise ConfigError(f"{path}: [{table}] kind must be one of {shown}; {got}")
    try:
        return kinds[name].model_validate({**plain, "kind": kind}, context={"folder": path.parent})
    except ValidationError as error:
        messages = [_explained(found, kinds[name], kind) for found in error.errors()]
        raise ConfigError(f"{path}: [{table}] {'; '.join(messages)}") from None


def _explained(found: Any, part: type[Part], kind: str) -> str:
    key = ".".join(str(place) for place in found["loc"])
    if found["type"] == "extra_forbidden":
        return f"unknown key {key!r} for kind {kind!r}{_nearest(key, list(part.model_fields))}"
    if found["type"] == "missing":
        return f"{key} is missing, which kind {kind!r} needs"
    return f"{key}: {found['msg'][0].lower()}{found['msg'][1:]}, got {found['input']!r}"


def _nearest(name: Any, names: list[str]) -> str:
    near = difflib.get_close_matches(str(name), names, 1, cutoff=0.5)
    return f": did you mean {near[0]!r}?" if near else f", not in {', '.join(names)}"


def _refuse_secrets(value: Any, path: Path, place: tuple[str, ...]) -> None:
    """No key may stand in the file; the messages never repeat one."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if _looks_like_a_key(str(name)):
                within = f"in [{place[0]}]" if place else "of a table"
                raise ConfigError(f"{path}: a name {within} looks like a key: {_FIX}")
            _refuse_secrets(inner, path, (*place, str(name)))
        return
    table, key = place[0], ".".join(place[1:])
    where = f"{path}: [{table}] {key}" if key else f"{path}: {table}"
    of_variables = place[-1] == "key_env" or "headers" in place[1:-1]
    # In filters, names are the user's own fields.
    called = [name for name in place if name != "headers" or name is place[-1]]
    if (
        "filters" not in place
        and any(map(SECRET_NAME.search, called))
        and not of_variables
        and not _is_small(value)
    ):
        raise ConfigError(f"{where} looks like a key: {_FIX}")
    if isinstance(value, list):
        for inner in value:
            _refuse_secrets(inner, path, place)
        return
    if of_variables:
        if not isinstance(value, str) or not _VARIABLE.fullmatch(value) or _is_no_name(value):
            raise ConfigError(f"{where} must be the NAME of an environment variable, not a key")
    elif isinstance(value, str) and _looks_like_a_key(value):
        raise ConfigError(f"{where} looks like a key: {_FIX}")
    elif isinstance(value, str) and ("://" in value or "?" in value) and (kept := _secret_of_address(value)):
        raise ConfigError(f"{where} has {kept} in its address: {_FIX}")


def _is_small(value: Any) -> bool:
    """A number or a flag that no key could be: a misspelt option, then."""
    return isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 10**7)


def _looks_like_a_key(value: str) -> bool:
    return _SECRET_VALUE.search(value) is not None or _HEX.fullmatch(value) is not None


def _is_no_name(value: str) -> bool:
    return _looks_like_a_key(value) or _NO_NAME.fullmatch(value) is not None


def _secret_of_address(address: str) -> str | None:
    """What an address must not hold: a user or password, or a parameter that is one or is called so."""
    try:
        parts = urlsplit(address)
        if parts.username is not None or parts.password is not None:
            return "a user or a password"
        given = parse_qsl(f"{parts.query}&{parts.fragment}", keep_blank_values=True)
    except ValueError:
        return "something that is no address"
    if any(SECRET_NAME.search(name) or _is_no_name(name) or _is_no_name(value) for name, value in given):
        return "a key"
    return None
