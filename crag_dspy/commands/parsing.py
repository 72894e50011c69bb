"""How commands read their arguments: one help for all, lists with commas, and a hint for a misspelt option."""

from __future__ import annotations

import argparse
import difflib
import glob
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from crag_dspy.commands.output import printable
from crag_dspy.commands.status import WRONG
from crag_dspy.errors import ConfigError

COLUMNS = 100
# Options of earlier versions, and what they are called now.
RENAMED = {
    "--to": "--out",
    "--save": "--out",
    "--option": "--set",
    "--resume": "leave it out: it is the rule",
}


class Parser(argparse.ArgumentParser):
    """A parser that names the nearest option; with an example in its help."""

    def __init__(self, prog: str, description: str, example: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=f"example:\n  {example}",
            formatter_class=Help,
            allow_abbrev=False,
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        for given in args or ():
            if given == "--":
                break
            name = given.partition("=")[0]
            if name.startswith("--") and name not in self._option_string_actions:
                self.error(f"no option {name!r}{self._hint(name)}")
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, left = self.parse_known_args(args, namespace)
        if left:
            self.error(f"no place for {' '.join(left)!r} (a list has commas: --option A,B)")
        return found

    def _hint(self, name: str) -> str:
        if name in RENAMED:
            new = RENAMED[name]
            return f": it is called {new} now" if new in self._option_string_actions else f": {new}"
        near = difflib.get_close_matches(name, self._option_string_actions, 1)
        return f": did you mean {near[0]!r}?" if near else f" ({self.prog} --help lists them)"

    def format_help(self) -> str:
        self.usage = self._needed()
        return super().format_help()

    def _needed(self) -> str:
        """What must be given. All options are listed below it, so the usage need not list them again."""
        words = [self.prog]
        for action in self._actions:
            named = str(action.metavar or action.dest)
            if action.option_strings and action.required:
                words.append(f"{action.option_strings[-1]} {named}")
            elif not action.option_strings:
                words.append({"?": f"[{named}]", "*": f"[{named} ...]"}.get(str(action.nargs), named))
        return " ".join([*words, "[OPTIONS]"])

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, printable(f"usage: {self._needed()}\n{self.prog}: {message}\n"))


_KINDS: dict[Any, str] = {int: "whole numbers", float: "numbers"}


class Help(argparse.RawDescriptionHelpFormatter):
    """At most 100 columns, and every default said."""

    def __init__(self, prog: str) -> None:
        super().__init__(
            prog, max_help_position=28, width=min(shutil.get_terminal_size().columns, COLUMNS) - 2
        )

    def _get_help_string(self, action: argparse.Action) -> str:
        text, default = action.help or "", action.default
        nothing = default is None or default is False or default in ([], (), argparse.SUPPRESS)
        if nothing or "default" in text:
            return text
        shown = ",".join(map(str, default)) if isinstance(default, list | tuple) else str(default)
        return f"{text} (default: {shown})"


class Listed(argparse.Action):
    """`--grader mini,embedding`: a list with commas. Given again, the lists add up.

    Args:
        of: what makes a member of its text; a ValueError is a wrong member.
        choices: what members may be.
    """

    def __init__(self, *args: Any, of: Callable[[str], Any] = str, choices: Any = None, **named: Any) -> None:
        super().__init__(*args, **named)
        self.of, self.members = of, choices

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        found = [self._member(option, part) for part in self._parts(values) if part]
        if not found:
            raise ConfigError(f"{option} is empty: write names with commas between")
        before = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, found if before is self.default else [*(before or ()), *found])

    def _parts(self, values: str) -> list[str]:
        return [part.strip() for part in values.split(",")]

    def _member(self, option: str, text: str) -> Any:
        if self.members is not None and text not in self.members:
            raise ConfigError(f"{option} must be of {', '.join(self.members)}, got {text!r}")
        try:
            return self.of(text)
        except ValueError as error:
            kind = _KINDS.get(self.of, "other words")
            raise ConfigError(f"{option} must be {kind} with commas between, got {text!r}") from error


class Files(Listed):
    """`--pairs a.jsonl,b.jsonl` or `--pairs 'pairs/*.jsonl'`: a list of files.

    A value that is the path of a file as it stands is one file, commas and all.
    """

    def _parts(self, values: str) -> list[str]:
        if Path(values).is_file():
            return [values]
        return [file for part in super()._parts(values) for file in sorted(glob.glob(part)) or [part]]


def seed_argument(parser: Any, what: str) -> None:
    """--seed: the same number gives the same result."""
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=what)


def json_argument(parser: Any, what: str = "one JSON object on stdout, for programs") -> None:
    parser.add_argument("--json", action="store_true", help=what)
