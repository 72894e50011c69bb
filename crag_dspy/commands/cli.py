"""`crag-dspy`: finds the command in the table, runs it, and gives every ending its status."""

from __future__ import annotations

import difflib
import importlib
import io
import logging
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

import crag_dspy
from crag_dspy.commands import table
from crag_dspy.commands.output import answer, note, printable
from crag_dspy.commands.sealed import seal_network
from crag_dspy.commands.status import BROKEN_PIPE, INTERRUPTED, OK, WRONG
from crag_dspy.errors import CragError, message_of
from crag_dspy.live.keys import without_keys

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from crag_dspy.commands.parsing import Parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns its exit status (see `status`). What the user can mend (a `CragError`, a file that cannot be read) is one
    line on stderr; a reader that went away (`| head`) ends the command quietly.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):  # a terminal without Unicode shows escapes, and nothing crashes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    debug = "--debug" in arguments
    seal_network()
    _log_to_stderr(debug)
    try:
        try:
            return run(parsed([argument for argument in arguments if argument != "--debug"]))
        finally:  # now, where a reader that went away is noticed
            sys.stdout.flush()
    except KeyboardInterrupt:
        note("\ninterrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (CragError, OSError) as error:
        if debug:
            note(without_keys("".join(traceback.format_exception(error)).rstrip()))
            return WRONG
        note(f"crag-dspy: {_one_line(error)}")
        return WRONG


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments of the command that they begin with, and its name as `command`. Help and errors end the process."""
    name, rest = _named(arguments)
    found: argparse.Namespace = parser(name).parse_args(rest)
    return found


def run(args: argparse.Namespace) -> int:
    """Run the command that `parsed` found; what is wrong is raised."""
    return int(_module(args.command).run(args))


def parser(name: str) -> Parser:
    """The parser of one command."""
    from crag_dspy.commands.parsing import Parser

    command, module = table.COMMANDS[name], _module(name)
    made = Parser(f"crag-dspy {name}", f"{command.does[0].upper()}{command.does[1:]}.", module.EXAMPLE)
    module.add_arguments(made)
    made.set_defaults(command=name)
    return made


def _named(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The command, of one word or two, and what follows it."""
    if not arguments:
        note(table.overview())
        _wrong("say which command")
    first, rest = arguments[0], arguments[1:]
    if first in ("-h", "--help"):
        _tell(table.overview())
    if first == "--version":
        _tell(f"crag-dspy {crag_dspy.__version__}")
    members = table.members(first)
    if not members:
        return _known(first, "", table.first_words()), rest
    if not rest:
        note(table.group_overview(first))
        _wrong(f"say which command of {first}")
    if rest[0] in ("-h", "--help"):
        _tell(table.group_overview(first))
    return _known(f"{first} {rest[0]}", f"{first} ", list(members)), rest[1:]


def _known(name: str, group: str, words: Sequence[str]) -> str:
    if name not in table.COMMANDS:
        _unknown(name, group, words)
    return name


def _unknown(name: str, group: str, words: Sequence[str]) -> NoReturn:
    if name in table.RENAMED:
        _wrong(f"{name} is called `crag-dspy {table.RENAMED[name]}` now")
    if name in table.SCRIPTS:
        _wrong(f"{name} is no command any more: in a checkout, run `{table.SCRIPTS[name]}`")
    near = difflib.get_close_matches(name.removeprefix(group), words, 1)
    _wrong(
        f"no command {name!r}: "
        + (f"did you mean {group + near[0]!r}?" if near else f"use {group}{', '.join(words)}")
    )


def _module(name: str) -> Any:
    return importlib.import_module(f"crag_dspy.commands.{table.COMMANDS[name].module}")


def _tell(text: str) -> NoReturn:
    answer(text)
    sys.exit(OK)


def _wrong(message: str) -> NoReturn:
    note(f"crag-dspy: {message} (crag-dspy --help lists the commands)")
    sys.exit(WRONG)


class Plain(logging.Formatter):
    """Log lines without keys, and without what a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(without_keys(super().format(record)))


def _log_to_stderr(debug: bool) -> None:
    """Answers go to stdout and everything else to stderr; other libraries' chatter only with --debug."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Plain("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.INFO if debug else logging.ERROR, handlers=[handler])
    logging.getLogger("crag_dspy").setLevel(logging.INFO if debug else logging.WARNING)


def _one_line(error: BaseException) -> str:
    return message_of(error) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
